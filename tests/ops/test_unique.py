# SPDX-License-Identifier: Apache-2.0
"""`ops.unique` eagerly, in tf.function and in tf.data, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tf_sfctr as sf

INT64 = st.integers(-(2**63), 2**63 - 1)


def oracle(ids, padding_id=None):
    flat = np.ravel(ids)
    order: list[int] = []
    numbers: dict[int, int] = {}
    for i in flat:
        if i != padding_id and i not in numbers:
            numbers[i] = len(order)
            order.append(i)
    inverse = [numbers.get(i, -1) for i in flat]
    return np.array(order, np.int64), np.array(inverse, np.int32).reshape(np.shape(ids))


@given(st.lists(st.one_of(INT64, st.integers(-3, 3)), max_size=60), st.one_of(st.none(), st.integers(-3, 3)))
@settings(deadline=None, max_examples=50)
def test_equals_the_oracle(ids, padding_id):
    for result, expected in zip(
        sf.ops.unique(np.array(ids, np.int64), padding_id), oracle(np.array(ids, np.int64), padding_id), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [1000, 200_000])
def test_large_batches_with_many_duplicates(size):
    ids = np.random.default_rng(0).zipf(1.2, size) % 10**12
    unique_ids, inverse = sf.ops.unique(ids)
    expected = oracle(ids)
    np.testing.assert_array_equal(unique_ids, expected[0])
    np.testing.assert_array_equal(inverse, expected[1])


def test_shapes_in_a_function():
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.int32)])
    def run(ids):
        unique_ids, inverse = sf.ops.unique(ids)
        assert unique_ids.shape.as_list() == [None]
        assert inverse.shape.as_list() == [None, 3]
        return unique_ids, inverse

    unique_ids, inverse = run(tf.constant([[5, 5, -1]]))
    np.testing.assert_array_equal(unique_ids, [5, -1])
    np.testing.assert_array_equal(inverse, [[0, 0, 1]])


def test_in_a_dataset():
    data = tf.data.Dataset.from_tensor_slices(np.array([[3, 3], [4, 3]])).map(sf.ops.unique, num_parallel_calls=2)
    results = [(list(u.numpy()), list(i.numpy())) for u, i in data]
    assert results == [([3], [0, 0]), ([4, 3], [0, 1])]


def test_float_ids():
    with pytest.raises(TypeError, match=r"ops.unique: ids must be int32 or int64; got float32. Cast them, or hash"):
        sf.ops.unique(tf.constant([1.0]))
