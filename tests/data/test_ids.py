# SPDX-License-Identifier: Apache-2.0
"""The law of ids: ours, stock TensorFlow's and plain Python's are the same."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from reader_oracle import fingerprint64, integer_id, signed, text_id

import tf_sfctr.data as data

TEXTS = ["", "a", "b", "a", "68fd1e64", "x" * 15, "y" * 40, "z" * 1000, "Grüße", "0"]
INTEGERS = [0, 1, -1, 7, 7, (1 << 63) - 1, -(1 << 63), 123456789012345678]


def test_law_is_fixed_for_all_time() -> None:
    assert data.fingerprint("") == -7286425919675154353
    assert data.hash_ids(tf.constant([1]), "").numpy().tolist() == [signed(0x5692161D100B05E5 + fingerprint64(""))]


@pytest.mark.parametrize(
    "hash_strings", [data.hash_strings, data.stock_hash_strings, data.hash_ids, data.stock_hash_ids]
)
@pytest.mark.parametrize("shape", [[10], [2, 5], [5, 1, 2]])
@pytest.mark.parametrize("graph", [False, True])
def test_strings(hash_strings, shape: list[int], graph: bool) -> None:  # type: ignore[no-untyped-def]
    run = tf.function(lambda values: hash_strings(values, "city")) if graph else lambda v: hash_strings(v, "city")
    ids = run(tf.reshape(tf.constant(TEXTS), shape))
    assert ids.shape == shape
    assert ids.dtype == tf.int64
    assert ids.numpy().reshape(-1).tolist() == [text_id(text, "city") for text in TEXTS]


@pytest.mark.parametrize("hash_ids", [data.hash_ids, data.stock_hash_ids])
@pytest.mark.parametrize("graph", [False, True])
def test_integers(hash_ids, graph: bool) -> None:  # type: ignore[no-untyped-def]
    run = tf.function(lambda values: hash_ids(values, "user")) if graph else lambda v: hash_ids(v, "user")
    ids = run(tf.constant([INTEGERS, INTEGERS], tf.int64))
    assert ids.numpy().tolist() == [[integer_id(value, "user") for value in INTEGERS]] * 2


@pytest.mark.parametrize("hash_ids", [data.hash_ids, data.stock_hash_ids])
@pytest.mark.parametrize("dtype", [tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool])
def test_dtype_does_not_show(hash_ids, dtype: tf.DType) -> None:  # type: ignore[no-untyped-def]
    values = tf.cast([0, 1, 1], dtype)
    assert hash_ids(values, "f").numpy().tolist() == [integer_id(value, "f") for value in (0, 1, 1)]


@pytest.mark.parametrize("hash_ids", [data.hash_ids, data.stock_hash_ids])
def test_uint64_keeps_all_bits(hash_ids) -> None:  # type: ignore[no-untyped-def]
    values = [(1 << 64) - 1, 1 << 63, 5]
    assert hash_ids(tf.constant(values, tf.uint64), "f").numpy().tolist() == [
        integer_id(value, "f") for value in values
    ]


def test_distinct_integers_do_not_collide() -> None:
    ids = data.hash_ids(np.arange(-500_000, 500_000), "f").numpy()
    assert len(np.unique(ids)) == len(ids)


def test_ragged_and_sparse_keep_their_form() -> None:
    ragged = data.hash_ids(tf.ragged.constant([[1, 2], [], [3]]), "f")
    assert ragged.to_list() == [[integer_id(1, "f"), integer_id(2, "f")], [], [integer_id(3, "f")]]
    sparse = data.hash_strings(tf.sparse.from_dense([["", "a"], ["b", ""]]), "f")
    assert sparse.values.numpy().tolist() == [text_id("a", "f"), text_id("b", "f")]
    assert sparse.dense_shape.numpy().tolist() == [2, 2]


def test_empty_and_lists() -> None:
    assert data.hash_ids(tf.zeros([0, 3], tf.int64), "f").shape == [0, 3]
    assert data.stock_hash_strings(tf.zeros([0], tf.string), "f").shape == [0]
    assert data.hash_strings(["a"], "f").numpy().tolist() == [text_id("a", "f")]


def test_works_in_tf_data_with_unknown_shape() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3).map(lambda texts: data.hash_strings(texts, "f"))
    assert [value for batch in dataset for value in batch.numpy()] == [text_id(text, "f") for text in TEXTS]


@pytest.mark.parametrize("hash_ids", [data.hash_ids, data.stock_hash_ids])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.complex64])
def test_floats_are_refused(hash_ids, dtype: tf.DType) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match=f"hash_ids: values must be integers; got {dtype.name}. Cast them"):
        hash_ids(tf.cast([1, 2], dtype), "f")


def test_integers_are_no_strings() -> None:
    with pytest.raises(TypeError, match=r"hash_strings: values must be strings; got int32. Pass integers to hash_ids"):
        data.hash_strings([1, 2], "f")
