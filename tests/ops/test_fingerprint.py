# SPDX-License-Identifier: Apache-2.0
"""The ops that hash whole columns, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tf_sfctr._loader import load_library

COLUMNS = [[b"a", b"", b"ccc", b"a"], [b"x" * 100, b"\xff\x00", b"", b"a"]]
SALTS = [5, -(1 << 63)]
OpError = tf.errors.InvalidArgumentError


def fingerprint(value: bytes) -> int:
    return int(tf.fingerprint([value]).numpy().view("<i8")[0, 0])


def wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def arrow(values: list[bytes], dtype: Any = np.int32, pad: bytes = b"") -> tuple[np.ndarray, np.ndarray]:
    """Bytes and offsets of a column; `pad` comes before the first value."""
    data = np.frombuffer(pad + b"".join(values), np.uint8)
    return data, (np.cumsum([0, *map(len, values)]) + len(pad)).astype(dtype)


def run(data: Any, offsets: Any, salts: Any) -> tf.Tensor:
    return load_library().sfctr_fingerprint(data=data, offsets=offsets, salts=np.asarray(salts, np.int64))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("pad", [b"", b"zz"])
@pytest.mark.parametrize("graph", [False, True])
def test_strings_in_arrow_layout(dtype: Any, pad: bytes, graph: bool) -> None:
    data, offsets = zip(*(arrow(column, dtype, pad) for column in COLUMNS), strict=True)
    call = tf.function(run) if graph else run
    ids = call(list(data), list(offsets), SALTS)
    expected = [
        [wrap(fingerprint(column[i]) + salt) for column, salt in zip(COLUMNS, SALTS, strict=True)] for i in range(4)
    ]
    assert ids.numpy().tolist() == expected


def test_many_rows_of_many_columns() -> None:
    rng = np.random.default_rng(0)
    columns = [[bytes(rng.bytes(int(n))) for n in rng.integers(0, 9, 5000)] for _ in range(3)]
    data, offsets = zip(*(arrow(column) for column in columns), strict=True)
    ids = run(list(data), list(offsets), [0, 1, 2])
    for index, column in enumerate(columns):
        expected = tf.fingerprint(tf.constant(column)).numpy().view("<i8")[:, 0] + index
        np.testing.assert_array_equal(ids[:, index], expected)


def test_no_values() -> None:
    assert run([np.empty(0, np.uint8)], [np.zeros(1, np.int32)], [0]).shape == [0, 1]
    assert load_library().sfctr_mix_columns(values=[np.empty(0, np.int64)], salts=np.zeros(1, np.int64)).shape == [0, 1]


def test_integer_columns_equal_the_tensor_op() -> None:
    values = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, (3, 4000))
    ids = load_library().sfctr_mix_columns(values=list(values), salts=np.arange(3))
    for index in range(3):
        one = load_library().sfctr_mix_ids(values=values[index], salt=tf.constant(index, tf.int64))
        np.testing.assert_array_equal(ids[:, index], one)


@pytest.mark.parametrize(
    ("data", "offsets", "salts", "text"),
    [
        ([[1, 2]], [[0, 3]], [0], r"SfctrFingerprint: offsets\[0\] must end within the data of 2 bytes; got 3"),
        ([[1, 2]], [[-1, 2]], [0], r"SfctrFingerprint: offsets\[0\] must not be negative; got -1 at position 0"),
        ([[1, 2]], [[0, 2, 1]], [0], r"SfctrFingerprint: offsets\[0\] must not decrease; got 2 then 1 at position 2"),
        ([[1], [1]], [[0, 1], [0, 1, 1]], [0, 0], r"SfctrFingerprint: offsets\[1\] must have n \+ 1 elements"),
        ([[1]], [[]], [0], r"SfctrFingerprint: offsets\[0\] must have n \+ 1 elements"),
        ([[[1]]], [[0, 1]], [0], r"SfctrFingerprint: data\[0\] must be a vector; got shape \[1,1\]"),
        ([[1]], [[[0, 1]]], [0], r"SfctrFingerprint: offsets\[0\] must be a vector; got shape \[1,2\]"),
        (
            [[1]],
            [[0, 1]],
            [0, 0],
            r"SfctrFingerprint: salts must be a vector of one int64 per column, 1; got shape \[2\]",
        ),
    ],
)
def test_bad_columns_are_refused(data: list, offsets: list, salts: list, text: str) -> None:
    with pytest.raises(OpError, match=text):
        run([np.array(d, np.uint8) for d in data], [np.array(o, np.int32) for o in offsets], salts)


def test_bad_integer_columns_are_refused() -> None:
    ops = load_library()
    with pytest.raises(OpError, match=r"SfctrMixColumns: values\[1\] must have as many rows as column 0, 2; got 3"):
        ops.sfctr_mix_columns(values=[np.zeros(2, np.int64), np.zeros(3, np.int64)], salts=np.zeros(2, np.int64))
    with pytest.raises(OpError, match=r"SfctrMixColumns: salts must be a vector of one int64 per column, 1"):
        ops.sfctr_mix_columns(values=[np.zeros(2, np.int64)], salts=np.zeros(2, np.int64))
    for op, values in (
        (ops.sfctr_mix_ids, tf.constant([1], tf.int64)),
        (ops.sfctr_fingerprint_strings, tf.constant(["a"])),
    ):
        with pytest.raises(OpError, match=r": salt must be a scalar; got shape \[1\]"):
            op(values=values, salt=tf.constant([0], tf.int64))


def test_static_shapes() -> None:
    ops = load_library()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8), tf.TensorSpec([8], tf.int32)])
    def strings(data: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
        ids = ops.sfctr_fingerprint(data=[data, data], offsets=[offsets, offsets], salts=tf.zeros([2], tf.int64))
        assert ids.shape == [7, 2]
        return ids

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.int64), tf.TensorSpec([None], tf.int64)])
    def integers(values: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
        assert ops.sfctr_mix_columns(values=[column], salts=tf.zeros([1], tf.int64)).shape.as_list() == [None, 1]
        ids = ops.sfctr_mix_ids(values=values, salt=tf.constant(0, tf.int64))
        assert ids.shape.as_list() == [None, 3]
        return ids

    strings.get_concrete_function()
    integers.get_concrete_function()
