# SPDX-License-Identifier: Apache-2.0
"""Ids of a batch after the data loader has removed duplicates: the Virtual Sparse Ids of ScaleFreeCTR."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.types import internal

from tf_sfctr._loader import load_library

__all__ = ["VirtualIds"]


# NativeObject is what `tf.is_tensor` asks for: Keras takes these for tensors, as it does `tf.RaggedTensor`.
class VirtualIds(tf.experimental.ExtensionType, internal.NativeObject):  # type: ignore[misc]
    """Ids of one feature as `tf_sfctr.data.virtualize` gives them, in the place and with the shape of the raw ids.

    Layers of tf_sfctr take them for ids. Anything else that wants a tensor gets the raw ids.

    Attributes:
      values: int32 of the shape of the ids: positions among the distinct ids of the batch, -1 for padding.
      batch: variant scalar, the distinct ids; features of the same tables share it.
      padding_id: what padding was among the raw ids.
    """

    __name__ = "tf_sfctr.VirtualIds"

    values: tf.Tensor
    batch: tf.Tensor
    padding_id: int = 0

    @property
    def shape(self) -> tf.TensorShape:
        """Shape of the ids."""
        return self.values.shape

    @property
    def dtype(self) -> tf.DType:
        """int64, as the ids are."""
        return tf.int64

    def ids(self) -> tf.Tensor:
        """Returns the raw ids, int64 of the shape of `values`."""
        return load_library().sfctr_raw_ids(self.values, self.batch, padding_id=self.padding_id)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> tf.Tensor:
        """The raw ids, for whatever needs a tensor."""
        del name
        ids = self.ids()
        return ids if dtype is None else tf.cast(ids, dtype)


@tf.experimental.dispatch_for_api(tf.shape, {"input": VirtualIds})
def _shape(input: VirtualIds, out_type: Any = None, name: str | None = None) -> tf.Tensor:
    return tf.shape(input.values, out_type=out_type or tf.int32, name=name)
