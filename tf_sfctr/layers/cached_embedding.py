"""A drop-in for `keras.layers.Embedding` over a table in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_sfctr.config import check_combiner
from tf_sfctr.layers import _inputs
from tf_sfctr.layers._base import TableLayer
from tf_sfctr.table import EmbeddingTable
from tf_sfctr.virtual import VirtualIds


@keras.saving.register_keras_serializable(package="tf_sfctr")
class CachedEmbedding(TableLayer):
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
      padding_id: id (a string where ids are strings) that reads as zeros and gets no update; None for none.
      mask_zero: as in Keras: id 0 is masked for later layers.
      seed: of the initial values.
      cache: `CacheConfig`, or a `MixCache` to share: rows in device memory in front of the table; None for none.
      **kwargs: of `keras.layers.Layer`.

    Call with:
      inputs: int32, int64, uint64 or string ids: dense of any shape, `tf.RaggedTensor` whose last axis is ragged, or
        `tf.SparseTensor` of rank 2 in row-major order (with a combiner); or the `VirtualIds` that
        `tf_sfctr.data.virtualize` makes of dense ids. Strings and uint64 go through
        `tf_sfctr.data.hash_strings` and `hash_ids`, without a feature's name: a table's ids are its own.
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
        padding_id: int | str | None = None,
        mask_zero: bool = False,
        seed: int | None = None,
        cache: Any = None,
        **kwargs: Any,
    ) -> None:
        """See the class."""
        super().__init__(**kwargs)
        check_combiner(self._where, combiner)
        self.combiner = combiner
        self.padding_id = padding_id
        self.mask_zero = mask_zero
        self.supports_masking = mask_zero
        self.table = EmbeddingTable(
            output_dim,
            input_dim,
            optimizer=optimizer,
            embeddings_initializer=embeddings_initializer,
            seed=seed,
            name=self.name,
            cache=cache,
        )
        self._add_tables({self.name: self.table})

    def call(self, inputs: Any, weights: Any = None, training: bool | None = None) -> Any:
        """Reads the embeddings of `inputs`."""
        inputs = inputs if tf.is_tensor(inputs) else tf.convert_to_tensor(inputs)
        bags = _inputs.read_inputs(self._where, self.table, inputs, weights, self.combiner, self.padding_id)
        return self._finish(bags, self._lookup([bags.use], training)[0])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the ids other than 0, if `mask_zero`."""
        del mask
        inputs = inputs.ids() if isinstance(inputs, VirtualIds) else inputs
        return keras.ops.not_equal(inputs, 0) if self.mask_zero and self.combiner is None else None

    def compute_output_shape(self, input_shape: Any, weights_shape: Any = None) -> Any:
        """Shape of the output for ids of `input_shape`."""
        del weights_shape
        shapes = [_inputs.output_shape(self._where, input_shape, d, self.combiner) for d in self.table.output_dims]
        return shapes if self.table.config.has_groups else shapes[0]

    def compute_output_spec(self, inputs: Any, weights: Any = None, training: bool | None = None) -> Any:
        """Checks the dtype already while a functional model is built."""
        del weights, training
        return self._output_spec(self._where, self.table, inputs, self.combiner)

    def get_config(self) -> dict[str, Any]:
        """Returns the settings; the rows are saved beside."""
        table = self.table.get_config()
        table.pop("name")
        return {
            **super().get_config(),
            **table,
            "combiner": self.combiner,
            "padding_id": self.padding_id,
            "mask_zero": self.mask_zero,
        }
