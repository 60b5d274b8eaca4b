# SPDX-License-Identifier: Apache-2.0
"""The law from raw categorical values to 64-bit ids, by this package's ops and by stock TensorFlow ops.

    string  -> Fingerprint64(bytes) + Fingerprint64(feature name)
    integer -> Mix64(value) + Fingerprint64(feature name)

Both wrap around in 64 bits. The law never changes: ids are what checkpoints are keyed by. The `stock_` functions give
the same ids from TensorFlow's own ops, for a serving graph that must run without this package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_sfctr._loader import load_library

__all__ = ["fingerprint", "hash_ids", "hash_strings", "stock_hash_ids", "stock_hash_strings"]

_MIX_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


@functools.lru_cache(maxsize=65536)
def fingerprint(name: str | bytes) -> int:
    """Returns FarmHash's Fingerprint64 of a name, as a signed 64-bit integer.

    >>> fingerprint("") == -7286425919675154353
    True

    Args:
      name: the bytes to hash; a `str` is encoded as UTF-8.
    """
    data = name.encode() if isinstance(name, str) else name
    with tf.init_scope():
        return int(tf.fingerprint(tf.constant([data])).numpy().view("<i8")[0, 0])


def hash_strings(values: Any, name: str = "") -> Any:
    """Hashes strings to ids.

    >>> ids = hash_strings(tf.constant(["a", "b"]), name="city")  # int64 [2]

    Args:
      values: strings of any shape: a tensor, `tf.RaggedTensor`, `tf.SparseTensor` or what converts to a tensor. An
        empty string is a value like any other; equal strings get equal ids.
      name: the feature's name, whose fingerprint is added, so that one table can serve several features.

    Returns:
      int64 ids of the same shape and kind. There is no gradient.

    Raises:
      TypeError: the values are no strings.
    """
    return _map_values(values, lambda flat: _strings(flat, name, _fingerprint_op))


def hash_ids(values: Any, name: str = "") -> Any:
    """Hashes integers (or strings) to ids; distinct integers of one feature never collide.

    >>> ids = hash_ids(tf.constant([3, 5, 3]), name="user")  # int64 [3]

    Args:
      values: integers of any width, booleans, or strings, of any shape: a tensor, `tf.RaggedTensor`, `tf.SparseTensor`
        or what converts to a tensor. Negative and huge values are values like any other; uint64 keeps all its bits.
      name: the feature's name, whose fingerprint is added, so that one table can serve several features.

    Returns:
      int64 ids of the same shape and kind. There is no gradient.

    Raises:
      TypeError: the values are floats or of another dtype that is no integer.
    """
    return _map_values(values, lambda flat: _integers(flat, name, _fingerprint_op, _mix_op))


def stock_hash_strings(values: Any, name: str = "") -> Any:
    """`hash_strings` from stock TensorFlow ops: the same ids, for a serving graph without this package."""
    return _map_values(values, lambda flat: _strings(flat, name, _stock_fingerprint))


def stock_hash_ids(values: Any, name: str = "") -> Any:
    """`hash_ids` from stock TensorFlow ops: the same ids, for a serving graph without this package."""
    return _map_values(values, lambda flat: _integers(flat, name, _stock_fingerprint, _stock_mix))


def _map_values(values: Any, fn: Callable[[tf.Tensor], tf.Tensor]) -> Any:
    if isinstance(values, tf.RaggedTensor):
        return tf.ragged.map_flat_values(fn, values)
    if isinstance(values, tf.SparseTensor):
        return tf.SparseTensor(values.indices, fn(values.values), values.dense_shape)
    return fn(tf.convert_to_tensor(values))


def _strings(values: tf.Tensor, name: str, law: Callable[[tf.Tensor, int], tf.Tensor]) -> tf.Tensor:
    if values.dtype != tf.string:
        raise TypeError(
            f"hash_strings: values must be strings; got {values.dtype.name}. Pass integers to hash_ids instead."
        )
    return law(values, fingerprint(name))


def _integers(
    values: tf.Tensor,
    name: str,
    string_law: Callable[[tf.Tensor, int], tf.Tensor],
    integer_law: Callable[[tf.Tensor, int], tf.Tensor],
) -> tf.Tensor:
    if values.dtype == tf.string:
        return string_law(values, fingerprint(name))
    if values.dtype == tf.uint64:
        values = tf.bitcast(values, tf.int64)
    elif values.dtype.is_integer or values.dtype.is_bool:
        values = tf.cast(values, tf.int64)
    else:
        raise TypeError(
            f"hash_ids: values must be integers; got {values.dtype.name}. Cast them, or cut them into buckets first."
        )
    return integer_law(values, fingerprint(name))


def _fingerprint_op(values: tf.Tensor, salt: int) -> tf.Tensor:
    return load_library().sfctr_fingerprint_strings(values=values, salt=tf.constant(salt, tf.int64))


def _mix_op(values: tf.Tensor, salt: int) -> tf.Tensor:
    return load_library().sfctr_mix_ids(values=values, salt=tf.constant(salt, tf.int64))


def _stock_fingerprint(values: tf.Tensor, salt: int) -> tf.Tensor:
    hashes = tf.bitcast(tf.fingerprint(tf.reshape(values, [-1])), tf.int64)
    return tf.reshape(hashes, tf.shape(values)) + tf.constant(salt, tf.int64)


def _stock_mix(values: tf.Tensor, salt: int) -> tf.Tensor:
    def shift(bits: tf.Tensor, count: int) -> tf.Tensor:  # Logical: it must not drag the sign along.
        unsigned = tf.bitcast(bits, tf.uint64)
        return tf.bitcast(tf.bitwise.right_shift(unsigned, tf.constant(count, tf.uint64)), tf.int64)

    for count, factor in _MIX_STEPS:
        values = tf.bitwise.bitwise_xor(values, shift(values, count)) * tf.constant(factor - (1 << 64), tf.int64)
    return tf.bitwise.bitwise_xor(values, shift(values, 31)) + tf.constant(salt, tf.int64)
