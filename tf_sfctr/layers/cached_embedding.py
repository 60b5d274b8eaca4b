"""A drop-in for `keras.layers.Embedding` over a table in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_sfctr import ops
from tf_sfctr.config import check_combiner
from tf_sfctr.layers import _inputs, _tables
from tf_sfctr.table import EmbeddingTable


@keras.saving.register_keras_serializable(package="tf_sfctr")
class CachedEmbedding(keras.layers.Layer):
    """Turns ids into trainable vectors that live in host memory and are updated by the table's own optimizer.

    ```python
    embedding = sf.layers.CachedEmbedding(16, optimizer=sf.optimizers.Adagrad(0.01))
    embedding(np.array([[3, 3, -8]]))  # [1, 3, 16]
    ```

    The gradient goes to the table, not to the optimizer given to `compile()`: gradients of equal ids are summed, and
    each touched row gets one update per step. Computing the gradient is what updates the table: to look at gradients
    only, set `trainable = False`, or watch inputs in a tape that does not watch variables. Missing ids read as their
    initial values; rows are created by the first update, so `evaluate` and `predict` create none. A gradient that is
    not finite is an error and changes no row.

    Args:
      output_dim: width of the embedding, or a list of widths stored in one row (see `EmbeddingTable`).
      input_dim: size of the vocabulary; ids outside [0, input_dim) are an error. None: any 64-bit id, no vocabulary.
      embeddings_initializer: Keras initializer or its name.
      optimizer: one of `tf_sfctr.optimizers`; default Adagrad(0.01).
      combiner: None keeps the last axis of the ids; "sum", "mean" or "sqrtn" reduce it (an empty bag is zeros).
      padding_id: id that reads as zeros and gets no update; None for none.
      mask_zero: as in Keras: id 0 is masked for later layers.
      seed: of the initial values.
      **kwargs: of `keras.layers.Layer`.

    Call with:
      inputs: int32, int64, uint64 or string ids: dense of any shape, `tf.RaggedTensor` whose last axis is ragged, or
        `tf.SparseTensor` of rank 2 (with a combiner). Strings and uint64 go through `tf_sfctr.data.hash_strings` and
        `hash_ids` with the layer's name as the feature.
      weights: float, of the structure of `inputs`; with a combiner.

    Returns:
      `ids.shape + [output_dim]`, or `ids.shape[:-1] + [output_dim]` with a combiner, in the layer's compute dtype;
      a list of them if `output_dim` is a list.

    Raises:
      TypeError: ids of another dtype.
      ValueError: wrong rank.
    """

    def __init__(
        self,
        output_dim: int | Sequence[int],
        input_dim: int | None = None,
        *,
        embeddings_initializer: Any = "uniform",
        optimizer: Any = None,
        combiner: str | None = None,
        padding_id: int | None = None,
        mask_zero: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        """See the class."""
        super().__init__(**kwargs)
        check_combiner(self._where, combiner)
        self.combiner = combiner
        self.padding_id = padding_id
        self.mask_zero = mask_zero
        self.supports_jit = False
        self.supports_masking = mask_zero
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.table = EmbeddingTable(
            output_dim,
            input_dim,
            optimizer=optimizer,
            embeddings_initializer=embeddings_initializer,
            seed=seed,
            name=self.name,
        )
        self._rows = _tables.SavedRows(self._where, {self.name: self.table})
        # Gradients reach the table through this weight, which never changes.
        self._anchor = self.add_weight(name="anchor", shape=(), initializer="zeros", autocast=False, dtype="float32")
        self.built = True

    @property
    def _where(self) -> str:
        return f"CachedEmbedding '{self.name}'"

    def call(self, inputs: Any, weights: Any = None, training: bool | None = None) -> Any:
        """Reads the embeddings of `inputs`."""
        if not tf.is_tensor(inputs):
            inputs = tf.convert_to_tensor(inputs)
        bags = _inputs.read_inputs(self._where, self.name, self.table, inputs, weights, self.combiner, self.padding_id)
        self._rows.check_loaded()
        anchor = tf.convert_to_tensor(self._anchor)
        values = ops.lookup([bags.use], anchor, training=training is not False, trainable=self.trainable)[0]
        outputs = [tf.cast(bags.finish(value), self.compute_dtype) for value in values]
        return outputs if self.table.config.has_groups else outputs[0]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the ids other than 0, if `mask_zero`."""
        del mask
        return keras.ops.not_equal(inputs, 0) if self.mask_zero and self.combiner is None else None

    def compute_output_shape(self, input_shape: Any, weights_shape: Any = None) -> Any:
        """Shape of the output for ids of `input_shape`."""
        del weights_shape
        shapes = [_inputs.output_shape(self._where, input_shape, d, self.combiner) for d in self.table.output_dims]
        return shapes if self.table.config.has_groups else shapes[0]

    def compute_output_spec(self, inputs: Any, weights: Any = None, training: bool | None = None) -> Any:
        """Checks the dtype already while a functional model is built."""
        del weights, training
        _inputs.check_dtype(self._where, inputs.dtype)
        shapes = [_inputs.output_shape(self._where, inputs.shape, d, self.combiner) for d in self.table.output_dims]
        specs = [keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes]
        return specs if self.table.config.has_groups else specs[0]

    def get_config(self) -> dict[str, Any]:
        """Returns the settings; the rows are saved beside, see `save_assets`."""
        table = self.table.config.get_config()
        table.pop("name")
        return {
            **super().get_config(),
            **table,
            "combiner": self.combiner,
            "padding_id": self.padding_id,
            "mask_zero": self.mask_zero,
        }

    def save_own_variables(self, store: Any) -> None:
        """Writes what the rows are like; the rows themselves are assets, and the anchor is always 0."""
        self._rows.save_description(store)

    def load_own_variables(self, store: Any) -> None:
        """Checks that the saved rows fit this layer's table."""
        self._rows.load_description(store)

    def save_assets(self, inner_path: str) -> None:
        """Writes the table's rows beside the weights in the `.keras` file."""
        self._rows.save(inner_path)

    def load_assets(self, inner_path: str) -> None:
        """Reads the table's rows from the `.keras` file."""
        self._rows.load(inner_path)
