# SPDX-License-Identifier: Apache-2.0
"""Wide & Deep (arXiv 1606.07792)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from tf_sfctr import optimizers
from tf_sfctr.layers import CachedEmbedding
from tf_sfctr.models import _parts
from tf_sfctr.models._cross import Cross
from tf_sfctr.table import EmbeddingTable


@keras.saving.register_keras_serializable(package="tf_sfctr")
class WideDeep(keras.Model):
    """A linear model that memorizes and a perceptron over embeddings that generalizes (arXiv 1606.07792).

    ```python
    model = sf.models.WideDeep(num_numeric=13, num_categorical=26, dim=16, crosses=[(0, 1)])
    model.compile(keras.optimizers.Adagrad(0.01), keras.losses.BinaryCrossentropy(), metrics=[keras.metrics.AUC()])
    model.fit(sf.data.criteo("train.tsv", batch_size=4096, shuffle_buffer=100_000))
    ```

    The wide weight of an id and its deep vector share one row of the table, each with its own optimizer; as in the
    paper, FTRL with L1 trains the wide part and Adagrad the deep one (give `compile()` Adagrad too).

    Args:
      num_numeric: numeric features, 0 for none.
      num_categorical: categorical features, at least 1.
      dim: width of the vectors.
      hidden_units: widths of the perceptron's layers, at least one.
      dropout: share of each hidden layer that is dropped in training, in [0, 1).
      crosses: pairs of categorical features, by position, whose combinations of values get wide weights of their own.
      wide_optimizer: of the wide weights, one of `tf_sfctr.optimizers`.
        Default: Ftrl(0.05, l1_regularization_strength=1e-5).
      deep_optimizer: of the vectors. Default: Adagrad(0.01).
      embeddings_initializer: of the vectors; wide weights start at 0.
      input_dim: size of the vocabulary of all features together; None for any 64-bit ids, as the readers make them.
      seed: of the table's initial values; None draws one.
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
        crosses: Sequence[tuple[int, int]] = (),
        wide_optimizer: Any = None,
        deep_optimizer: Any = None,
        embeddings_initializer: Any = "uniform",
        input_dim: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        """See the class."""
        _parts.check("WideDeep", num_numeric, num_categorical, dim, hidden_units, dropout)
        if not hidden_units:
            raise ValueError("WideDeep: hidden_units must name at least one layer; got (). Pass (64,) for a small one.")
        if wide_optimizer is None:
            wide_optimizer = optimizers.Ftrl(0.05, l1_regularization_strength=1e-5)
        inputs = _parts.inputs(num_numeric, num_categorical)
        embedding = CachedEmbedding(
            [1, dim],
            input_dim,
            optimizer=[wide_optimizer, optimizers.Adagrad(0.01) if deep_optimizer is None else deep_optimizer],
            embeddings_initializer=["zeros", embeddings_initializer],
            seed=seed,
            name="embedding",
        )
        weights, vectors = embedding(inputs["categorical"])  # [B, F, 1], [B, F, dim]

        wide = ops.sum(weights, axis=1)
        if crosses:
            cross_ids = Cross(crosses, name="cross")(inputs["categorical"])
            cross_weights = CachedEmbedding(
                1, optimizer=wide_optimizer, embeddings_initializer="zeros", name="cross_weights"
            )
            wide += ops.sum(cross_weights(cross_ids), axis=1)

        hidden = layers.Reshape((num_categorical * dim,))(vectors)
        if num_numeric:
            wide += layers.Dense(1, name="numeric_logit")(inputs["numeric"])
            hidden = layers.Concatenate(name="deep_input")([hidden, inputs["numeric"]])
        logit = wide + _parts.perceptron(hidden, hidden_units, dropout)

        super().__init__(inputs, layers.Activation("sigmoid", dtype="float32", name="probability")(logit), **kwargs)
        table = embedding.get_config()
        self._config = {
            "num_numeric": num_numeric,
            "num_categorical": num_categorical,
            "dim": dim,
            "hidden_units": list(hidden_units),
            "dropout": dropout,
            "crosses": [list(pair) for pair in crosses],
            "wide_optimizer": table["optimizer"][0],
            "deep_optimizer": table["optimizer"][1],
            "embeddings_initializer": table["embeddings_initializer"][1],
            "input_dim": input_dim,
            "seed": table["seed"],
        }

    @property
    def table(self) -> EmbeddingTable:
        """The table of all categorical features."""
        return self.get_layer("embedding").table

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments; the rows are saved beside."""
        return {**self._config, "name": self.name, "trainable": self.trainable}
