"""From what users pass to layers (dense, ragged, sparse; integers, strings) to ids and bags."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_sfctr import ops
from tf_sfctr.data.ids import hash_ids, hash_strings
from tf_sfctr.table import EmbeddingTable
from tf_sfctr.virtual import VirtualIds

ACCEPTED = "integers (int32, int64, uint64, ...) or strings"


@dataclasses.dataclass
class Bags:
    """Ids of one feature as the lookup op takes them, and how its result becomes the layer's output.

    Attributes:
      use: what the op reads.
      finish: from a value of the op to an output of the layer.
    """

    use: ops.Use
    finish: Callable[[tf.Tensor], Any]


def check_dtype(where: str, dtype: Any) -> None:
    """Raises TypeError unless ids may have this dtype."""
    name = getattr(dtype, "name", str(dtype))
    if name not in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string"):
        raise TypeError(f"{where}: ids must be {ACCEPTED}; got {name}. Cast them or hash strings first.")


def check_rank(where: str, rank: int | None, combiner: str | None) -> None:
    """Raises ValueError unless dense ids of this rank fit the combiner."""
    if combiner is not None and rank is not None and rank < 2:
        raise ValueError(
            f"{where}: ids must have rank 2 or more for combiner '{combiner}', which reduces the last axis; got rank "
            f"{rank}. Add an axis, or leave out the combiner."
        )


def output_shape(where: str, input_shape: Any, dim: int, combiner: str | None) -> tuple[int | None, ...]:
    """Shape of an output for ids of `input_shape`."""
    check_rank(where, len(input_shape), combiner)
    return (*(input_shape if combiner is None else input_shape[:-1]), dim)


def read_inputs(
    where: str,
    table: EmbeddingTable,
    ids: Any,
    weights: Any,
    combiner: str | None,
    padding_id: int | str | None,
) -> Bags:
    """Turns the ids of one feature into a use of its table.

    Args:
      where: layer and feature, for error texts.
      table: its table.
      ids: dense of any rank, also `VirtualIds`, ragged with a ragged last axis, or sparse of rank 2 (with a combiner).
      weights: of the same structure as ids, or None.
      combiner: reduces the last axis; None keeps it.
      padding_id: see `ops.Use`.

    Raises:
      TypeError: wrong dtype.
      ValueError: wrong rank, or weights without combiner.
    """
    batch = None
    if isinstance(ids, VirtualIds):
        batch, ids = ids.batch, ids.values
    if weights is not None and combiner is None:
        raise ValueError(
            f"{where}: weights must come with a combiner; got combiner None. Set combiner='sum' or another."
        )

    def use(flat: tf.Tensor, splits: tf.Tensor | None, flat_weights: Any) -> ops.Use:
        flat, padding = (flat, None) if batch is not None else to_int64(where, flat, padding_id)
        if flat_weights is not None:
            flat_weights = tf.reshape(tf.cast(flat_weights, tf.float32), [-1])
        return ops.Use(table, flat, where, padding, combiner, splits, flat_weights, batch)

    if isinstance(ids, tf.SparseTensor):
        return _read_sparse(where, ids, weights, combiner, use)
    if isinstance(ids, tf.RaggedTensor):
        return _read_ragged(where, ids, weights, combiner, use)
    ids = tf.convert_to_tensor(ids)
    check_rank(where, ids.shape.rank, combiner)
    if combiner is None:
        return Bags(use(ids, None, None), lambda value: value)
    if ids.shape.rank is None:
        raise ValueError(
            f"{where}: ids must have a known rank for combiner '{combiner}'; got an unknown one. "
            "Set their shape with tf.ensure_shape."
        )
    length = tf.shape(ids, tf.int64)[-1]
    num_bags = tf.reduce_prod(tf.shape(ids, tf.int64)[:-1])
    leading = ids.shape[:-1]
    if weights is not None and not tf.convert_to_tensor(weights).shape.is_compatible_with(ids.shape):
        raise ValueError(
            f"{where}: weights must have the shape of ids, {ids.shape}; got {tf.convert_to_tensor(weights).shape}. "
            "Give every id one weight."
        )

    def finish(value: tf.Tensor) -> tf.Tensor:
        dim = value.shape[-1]
        value = tf.reshape(value, tf.concat([tf.shape(ids)[:-1], [dim]], 0))
        return tf.ensure_shape(value, [*leading, dim])

    splits = tf.range(num_bags + 1) * length
    return Bags(use(tf.reshape(ids, [-1]), splits, weights), finish)


def to_int64(where: str, ids: tf.Tensor, padding_id: Any) -> tuple[tf.Tensor, int | None]:
    """Ids of a table, and its padding id, by the same law. A table's ids are its own: no feature's name salts them."""
    check_dtype(where, ids.dtype)
    is_text = ids.dtype == tf.string
    if padding_id is not None and isinstance(padding_id, str) != is_text:
        raise ValueError(
            f"{where}: padding_id must be {'a string' if is_text else 'an integer'}, as the ids are; got "
            f"{padding_id!r}. Pass the value that stands for absent ids."
        )
    if ids.dtype not in (tf.string, tf.uint64):
        return tf.cast(ids, tf.int64), padding_id
    if padding_id is not None:
        with tf.init_scope():
            padding_id = int(hash_ids(tf.constant([padding_id], ids.dtype))[0])
    return (hash_strings(ids) if is_text else hash_ids(ids)), padding_id


def _read_ragged(where: str, ids: Any, weights: Any, combiner: str | None, use: Any) -> Bags:
    if ids.flat_values.shape.rank != 1:
        raise ValueError(
            f"{where}: ragged ids must have a ragged last axis; got shape {ids.shape} with flat values of rank "
            f"{ids.flat_values.shape.rank}. Use tf.RaggedTensor.from_row_splits on a vector of ids."
        )
    if combiner is None:
        return Bags(use(ids.flat_values, None, None), ids.with_flat_values)
    inner = ids
    outer = []
    while inner.ragged_rank > 1:
        outer.append(inner.row_splits)
        inner = inner.values
    flat_weights = None
    if weights is not None:
        if not isinstance(weights, tf.RaggedTensor):
            raise ValueError(
                f"{where}: weights of ragged ids must be ragged; got {type(weights).__name__}. "
                "Build them with the row_splits of the ids."
            )
        innermost = weights
        while innermost.ragged_rank > 1:
            innermost = innermost.values
        flat_weights = _aligned(where, weights.flat_values, innermost.row_splits, inner.row_splits)

    def finish(value: tf.Tensor) -> Any:
        if not outer:
            return tf.ensure_shape(value, [ids.shape[0], value.shape[-1]])
        result: Any = tf.RaggedTensor.from_nested_row_splits(value, outer)
        # [B, F, (L)] with a fixed F gives a dense [B, F, dim].
        return result.to_tensor() if ids.shape.rank == 3 and ids.shape[1] is not None else result

    return Bags(use(ids.flat_values, tf.cast(inner.row_splits, tf.int64), flat_weights), finish)


def _read_sparse(where: str, ids: Any, weights: Any, combiner: str | None, use: Any) -> Bags:
    if combiner is None or ids.shape.rank != 2:
        raise ValueError(
            f"{where}: sparse ids must have rank 2 and a combiner; got rank {ids.shape.rank} and combiner "
            f"{combiner!r}. Set combiner='sum', 'mean' or 'sqrtn', or pass dense or ragged ids."
        )
    if weights is not None and not isinstance(weights, tf.SparseTensor):
        raise ValueError(
            f"{where}: weights of sparse ids must be sparse; got {type(weights).__name__}. "
            "Build them with the indices of the ids."
        )
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(ids.indices[:, 0]), ids.indices[:, 0], ids.dense_shape[0])
    splits = tf.concat([[0], tf.cumsum(lengths)], 0)
    flat_weights = None if weights is None else _aligned(where, weights.values, weights.indices, ids.indices)
    return Bags(
        use(ids.values, splits, flat_weights), lambda value: tf.ensure_shape(value, [ids.shape[0], value.shape[-1]])
    )


def _aligned(where: str, weights: tf.Tensor, structure: tf.Tensor, ids_structure: tf.Tensor) -> tf.Tensor:
    """Weights, after a check that they are arranged as the ids are."""
    check = tf.debugging.assert_equal(
        tf.cast(structure, tf.int64),
        tf.cast(ids_structure, tf.int64),
        message=f"{where}: weights must be arranged as the ids are. Build them with the splits or indices of the ids.",
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(weights)
