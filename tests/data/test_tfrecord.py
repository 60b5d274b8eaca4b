# SPDX-License-Identifier: Apache-2.0
"""The TFRecord reader against plain Python."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from reader_oracle import CATEGORICAL, NUMERIC, integer_id, read_all, text_id

import tf_sfctr.data as data


def example(**features: Any) -> bytes:
    found = {}
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], bytes):
            found[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            found[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            found[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature=found)).SerializeToString()


def write(path: pathlib.Path, records: Sequence[bytes], compression: str = "") -> None:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)


def numbered(begin: int, end: int) -> list[bytes]:
    return [example(y=i % 2, n=float(i), c=f"v{i}".encode(), u=-i) for i in range(begin, end)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reads_every_kind(tmp_path: pathlib.Path, suffix: str) -> None:
    path = tmp_path / f"a.tfrecord{suffix}"
    write(path, numbered(0, 7), "GZIP" if suffix else "")
    numbers, ids, labels, sizes = read_all(data.tfrecord(path, 3, label="y"))
    assert numbers.tolist() == [[float(i)] for i in range(7)]
    assert ids.tolist() == [[text_id(f"v{i}", "c"), integer_id(-i, "u")] for i in range(7)]
    assert labels.tolist() == [[float(i % 2)] for i in range(7)]
    assert sizes == [3, 3, 1]


def test_lists_become_columns_with_names_of_their_own(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", [example(y=1.0, d=[0.5, -1.5], s=[b"x", b"x"])])
    numbers, ids, _, _ = read_all(data.tfrecord(tmp_path / "a", 3, label="y"))
    assert numbers.tolist() == [[0.5, -1.5]]
    assert ids.tolist() == [[text_id("x", "s_0"), text_id("x", "s_1")]]


def test_absent_features_are_missing_values(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", [example(y=1), example(y=0, n=2.0, c=b"a"), example(y=0, n=float("nan"))])
    numbers, ids, _, _ = read_all(data.tfrecord(tmp_path / "a", 3, label="y", transform="log"))
    np.testing.assert_allclose(numbers[:, 0], [0, np.log(3), 0], rtol=1e-6)
    assert ids[:, 0].tolist() == [text_id("", "c"), text_id("a", "c"), text_id("", "c")]


@pytest.mark.parametrize("name", ["criteo_sample.tr.tfrecords", "criteo_sample.te.tfrecords"])
def test_reads_real_file(real_file: Callable[[str], str], name: str) -> None:
    path = real_file(f"deepctr_samples/{name}")
    numbers, ids, labels, _ = read_all(
        data.tfrecord(path, 32, label="label", numeric=NUMERIC, categorical=CATEGORICAL, dict_features=False)
    )
    rows = [tf.train.Example.FromString(r.numpy()).features.feature for r in tf.data.TFRecordDataset(path)]
    assert labels[:, 0].tolist() == [row["label"].float_list.value[0] for row in rows]
    assert numbers.tolist() == [[row[name].float_list.value[0] for name in NUMERIC] for row in rows]
    assert ids.tolist() == [[integer_id(row[name].int64_list.value[0], name) for name in CATEGORICAL] for row in rows]


def test_reads_real_file_with_lists(real_file: Callable[[str], str]) -> None:
    dataset = data.tfrecord(real_file("paddlerec_wd_tfrecord/wd.tfrecord"), 32, label="label")
    numbers, ids, labels, sizes = read_all(dataset)
    assert (numbers.shape, ids.shape, labels.shape) == ((100, 13), (100, 26), (100, 1))
    assert labels.sum() == 29
    assert sizes == [32, 32, 32, 4]


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("window", [{}, {"skip_rows": 11, "max_rows": 20}, {"fraction": (0.5, 1.0)}])
@pytest.mark.parametrize("several", [False, True])
def test_workers_and_ranges(tmp_path: pathlib.Path, num_workers: int, window: dict[str, Any], several: bool) -> None:
    for part, (begin, end) in enumerate([(0, 15), (15, 22), (22, 40)] if several else [(0, 40)]):
        write(tmp_path / f"p{part}", numbered(begin, end))
    first, stop = {0: (0, 40), 2: (11, 31), 1: (20, 40)}[len(window)]
    rows: list[float] = []
    for worker in range(num_workers):
        numbers, _, _, _ = read_all(
            data.tfrecord(str(tmp_path / "p*"), 4, label="y", num_workers=num_workers, worker_index=worker, **window)
        )
        rows += [] if numbers is None else numbers[:, 0].tolist()
    assert sorted(rows) == list(range(first, stop))


def test_shuffle_is_a_permutation_by_seed(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", numbered(0, 50))
    one, two = (
        read_all(data.tfrecord(tmp_path / "a", 8, label="y", shuffle_buffer=20, seed=5))[0][:, 0].tolist()
        for _ in range(2)
    )
    assert one == two
    assert one != sorted(one)
    assert sorted(one) == list(range(50))


def test_broken_record_fails_or_ends_the_file(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", numbered(0, 10))
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-5])
    with pytest.raises(tf.errors.DataLossError, match="truncated record"):
        list(data.tfrecord(tmp_path / "a", 4, label="y"))
    numbers, _, _, _ = read_all(data.tfrecord(tmp_path / "a", 4, label="y", on_error="skip"))
    assert numbers[:, 0].tolist() == list(range(9))


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        (
            {"label": "z"},
            ValueError,
            r"tfrecord: label must name features of .*a; got 'z'. Its first records have",
        ),
        ({"label": "c"}, TypeError, "tfrecord: label feature 'c' must hold numbers; got bytes"),
        ({"label": "y", "categorical": ["n"]}, TypeError, "categorical feature 'n' must hold bytes or integers"),
        (
            {"label": "y", "hash_ids": False},
            TypeError,
            "feature 'c' must hold integers with hash_ids=False",
        ),
        ({"label": "y", "numeric": [], "categorical": []}, ValueError, "must name a feature between them; got none"),
    ],
)
def test_bad_feature_is_named(tmp_path: pathlib.Path, options: dict, kind: type[Exception], text: str) -> None:
    write(tmp_path / "a", numbered(0, 2))
    with pytest.raises(kind, match=text):
        data.tfrecord(tmp_path / "a", 4, **options)


def test_file_without_records(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", [])
    with pytest.raises(ValueError, match="tfrecord: files must hold a record; got none in"):
        data.tfrecord(tmp_path / "a", 4, label="y")
