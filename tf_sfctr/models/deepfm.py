# SPDX-License-Identifier: Apache-2.0
"""DeepFM (arXiv 1703.04247)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from tf_sfctr.layers import CachedEmbedding
from tf_sfctr.models import _parts
from tf_sfctr.table import EmbeddingTable


@keras.saving.register_keras_serializable(package="tf_sfctr")
class DeepFM(keras.Model):
    """A factorization machine and a multilayer perceptron over the same embeddings (arXiv 1703.04247).

    ```python
    model = sf.models.DeepFM(num_numeric=13, num_categorical=26, dim=16)
    model.compile(keras.optimizers.Adam(0.001), keras.losses.BinaryCrossentropy(), metrics=[keras.metrics.AUC()])
    model.fit(sf.data.criteo("train.tsv", batch_size=4096, shuffle_buffer=100_000))
    ```

    The first-order weight of an id and its vector share one row of the table, so that an id is looked up once. Numeric
    features enter the first-order part and the perceptron; to let them take part in the factorization machine too, let
    the reader cut them into buckets (`bucketize_numeric`), which are ids like any other.

    Args:
      num_numeric: numeric features, 0 for none.
      num_categorical: categorical features, at least 1.
      dim: width of the vectors.
      hidden_units: widths of the perceptron's layers; () leaves a plain factorization machine.
      dropout: share of each hidden layer that is dropped in training, in [0, 1).
      embedding_optimizer: of the table, one of `tf_sfctr.optimizers`; or two, of the weights and of the vectors. Here
        also belongs L2, for instance `Adagrad(0.01, l2=1e-5)`. Default: Adagrad(0.01).
      embeddings_initializer: of the vectors; first-order weights start at 0.
      input_dim: size of the vocabulary of all features together; None for any 64-bit ids, as the readers make them.
      seed: of the table's initial values; None draws one.
      cache: of the table, see `CachedEmbedding`.
      **kwargs: of `keras.Model`, such as `name`.

    Call with:
      inputs: `{"numeric": float32 [B, num_numeric], "categorical": int64 [B, num_categorical]}`; without "numeric" if
        there are none. Ids of different features must differ, as those of the readers do.

    Returns:
      Probabilities, float32 [B, 1]. Keras computes `BinaryCrossentropy` from the logits below them, without overflow.

    Raises:
      ValueError: an argument out of its range.
    """

    def __init__(
        self,
        num_numeric: int = 13,
        num_categorical: int = 26,
        dim: int = 16,
        hidden_units: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        *,
        embedding_optimizer: Any = None,
        embeddings_initializer: Any = "uniform",
        input_dim: int | None = None,
        seed: int | None = None,
        cache: Any = None,
        **kwargs: Any,
    ) -> None:
        """See the class."""
        _parts.check("DeepFM", num_numeric, num_categorical, dim, hidden_units, dropout)
        inputs = _parts.inputs(num_numeric, num_categorical)
        embedding = CachedEmbedding(
            [1, dim],
            input_dim,
            optimizer=embedding_optimizer,
            embeddings_initializer=["zeros", embeddings_initializer],
            seed=seed,
            cache=cache,
            name="embedding",
        )
        weights, vectors = embedding(inputs["categorical"])  # [B, F, 1], [B, F, dim]
        flat = layers.Reshape((num_categorical * dim,))(vectors)

        # First order.
        logit = ops.sum(weights, axis=1)
        if num_numeric:
            logit += layers.Dense(1, name="numeric_logit")(inputs["numeric"])

        # Second order: the sum over all pairs of <v_i, v_j> is (|sum of v|^2 - sum of |v|^2) / 2.
        total = ops.sum(vectors, axis=1)
        logit += 0.5 * (
            ops.sum(ops.square(total), axis=1, keepdims=True) - ops.sum(ops.square(flat), axis=1, keepdims=True)
        )

        if hidden_units:
            hidden = layers.Concatenate(name="deep_input")([flat, inputs["numeric"]]) if num_numeric else flat
            logit += _parts.perceptron(hidden, hidden_units, dropout)

        super().__init__(inputs, layers.Activation("sigmoid", dtype="float32", name="probability")(logit), **kwargs)
        table = embedding.get_config()
        self._config = {
            "num_numeric": num_numeric,
            "num_categorical": num_categorical,
            "dim": dim,
            "hidden_units": list(hidden_units),
            "dropout": dropout,
            "embedding_optimizer": table["optimizer"],
            "embeddings_initializer": table["embeddings_initializer"][1],
            "input_dim": input_dim,
            "seed": table["seed"],
            "cache": table["cache"],
        }

    @property
    def table(self) -> EmbeddingTable:
        """The table of all categorical features."""
        return self.get_layer("embedding").table

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments; the rows are saved beside."""
        return {**self._config, "name": self.name, "trainable": self.trainable}
