# SPDX-License-Identifier: Apache-2.0
"""What the layers over tables have in common: the anchor, the saving of rows, and what Keras must know of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_sfctr import ops
from tf_sfctr.layers import _inputs, _tables
from tf_sfctr.table import EmbeddingTable


class TableLayer(keras.layers.Layer):
    """A layer whose trainable state are the rows of tables."""

    def __init__(self, **kwargs: Any) -> None:
        """See `keras.layers.Layer`."""
        super().__init__(**kwargs)
        if self.compute_dtype == "float16":
            raise ValueError(
                f"{self._where}: dtype must not compute in float16; got policy '{self.dtype_policy.name}'. Keras "
                "scales the loss for it, and a table's update cannot undo that. Use mixed_bfloat16."
            )
        # XLA knows none of the ops; and ids may be ragged, sparse or strings, which Keras would convert.
        self.supports_jit = False
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True

    @property
    def _where(self) -> str:
        return f"{type(self).__name__} '{self.name}'"

    def _add_tables(self, tables: Mapping[str, EmbeddingTable]) -> None:
        self._rows = _tables.SavedRows(self._where, tables)
        # Gradients reach the tables through this weight, which never changes.
        self._anchor = self.add_weight(name="anchor", shape=(), initializer="zeros", autocast=False, dtype="float32")
        self.built = True

    def _lookup(self, uses: list[ops.Use], training: bool | None) -> list[list[tf.Tensor]]:
        self._rows.check_loaded()
        anchor = tf.convert_to_tensor(self._anchor)
        return ops.lookup(uses, anchor, training=training is not False, trainable=self.trainable)

    def _finish(self, bags: _inputs.Bags, values: list[tf.Tensor]) -> Any:
        outputs = [tf.cast(bags.finish(value), self.compute_dtype) for value in values]
        return outputs if bags.use.table.config.has_groups else outputs[0]

    def _output_spec(self, where: str, table: EmbeddingTable, ids: Any, combiner: str | None) -> Any:
        _inputs.check_dtype(where, ids.dtype)
        specs = [
            keras.KerasTensor(_inputs.output_shape(where, ids.shape, dim, combiner), dtype=self.compute_dtype)
            for dim in table.output_dims
        ]
        return specs if table.config.has_groups else specs[0]

    def save_own_variables(self, store: Any) -> None:
        """Writes what the rows are like; the rows themselves are assets, and the anchor is always 0."""
        self._rows.save_description(store)

    def load_own_variables(self, store: Any) -> None:
        """Checks that the saved rows fit this layer's tables."""
        self._rows.load_description(store)

    def save_assets(self, inner_path: str) -> None:
        """Writes the tables' rows beside the weights in the `.keras` file."""
        self._rows.save(inner_path)

    def load_assets(self, inner_path: str) -> None:
        """Reads the tables' rows from the `.keras` file."""
        self._rows.load(inner_path)
