# SPDX-License-Identifier: Apache-2.0
"""The Criteo reader against plain Python."""

from __future__ import annotations

import gzip
import math
import pathlib
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from reader_oracle import CATEGORICAL, NUMERIC, criteo_line, criteo_rows, integer_id, read_all, text_id, write_lines

import tf_sfctr.data as data
from tf_sfctr.data import _text


def check(dataset: tf.data.Dataset, lines: list[str]) -> None:
    numbers, ids, labels, _ = read_all(dataset)
    expected_numbers, expected_ids, expected_labels = criteo_rows(lines)
    np.testing.assert_allclose(numbers, expected_numbers, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(labels, expected_labels)
    assert (numbers.dtype, ids.dtype, labels.dtype) == (np.float32, np.int64, np.float32)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_reads_every_row(tmp_path: pathlib.Path, end: str) -> None:
    lines = write_lines(tmp_path / "a.tsv", range(23), end)
    check(data.criteo(str(tmp_path / "a.tsv"), 5), lines)


def test_reads_real_file(real_file: Callable[[str], str]) -> None:
    path = real_file("criteo_wide_resdnn/train.tsv")
    check(data.criteo(path, 1000), pathlib.Path(path).read_text().splitlines())


def test_reads_gzip_by_suffix(tmp_path: pathlib.Path) -> None:
    lines = write_lines(tmp_path / "plain", range(9))
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    check(data.criteo(tmp_path / "a.tsv.gz", 4), lines)


def test_last_line_needs_no_line_end(tmp_path: pathlib.Path) -> None:
    lines = [criteo_line(1), criteo_line(2)]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    check(data.criteo(tmp_path / "a.tsv", 4), lines)


@pytest.mark.parametrize("chunk_bytes", [1, 97, 300, 1000, 4096])
def test_chunks_do_not_show(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(_text, "CHUNK_BYTES", chunk_bytes)
    lines = write_lines(tmp_path / "a.tsv", range(17))
    check(data.criteo(tmp_path / "a.tsv", 3), lines)


def test_several_files_and_patterns(tmp_path: pathlib.Path) -> None:
    first, second = write_lines(tmp_path / "p-0", range(3)), write_lines(tmp_path / "p-1", range(3, 8))
    check(data.criteo(str(tmp_path / "p-*"), 4), first + second)
    check(data.criteo(f"{tmp_path / 'p-1'},{tmp_path / 'p-0'}", 4), second + first)
    check(data.criteo([tmp_path / "p-0", tmp_path / "p-1"], 4), first + second)


def test_empty_file_has_no_batches(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"")
    assert list(data.criteo(tmp_path / "a.tsv", 4)) == []


def test_element_spec(tmp_path: pathlib.Path) -> None:
    write_lines(tmp_path / "a.tsv", range(3))
    features, label = data.criteo(tmp_path / "a.tsv", 2).element_spec
    assert features == {
        "numeric": tf.TensorSpec([None, 13], tf.float32),
        "categorical": tf.TensorSpec([None, 26], tf.int64),
    }
    assert label == tf.TensorSpec([None, 1], tf.float32)
    features, _ = data.criteo(tmp_path / "a.tsv", 2, drop_remainder=True).element_spec
    assert features["numeric"].shape == [2, 13]


def test_dict_features_has_one_entry_per_column(tmp_path: pathlib.Path) -> None:
    lines = write_lines(tmp_path / "a.tsv", range(3))
    numbers, ids, _ = criteo_rows(lines)
    features, _ = next(iter(data.criteo(tmp_path / "a.tsv", 3, dict_features=True)))
    assert sorted(features) == sorted(NUMERIC + CATEGORICAL)
    np.testing.assert_allclose(features["I4"], numbers[:, 3:4], rtol=1e-6)
    np.testing.assert_array_equal(features["C9"], ids[:, 8:9])


def test_transform_none_keeps_counts(tmp_path: pathlib.Path) -> None:
    lines = write_lines(tmp_path / "a.tsv", range(6))
    numbers, _, _, _ = read_all(data.criteo(tmp_path / "a.tsv", 4, transform="none"))
    expected = [[float(text or 0) for text in line.split("\t")[1:14]] for line in lines]
    np.testing.assert_array_equal(numbers, expected)


def test_bucketize_numeric_adds_ids_of_counts(tmp_path: pathlib.Path) -> None:
    lines = write_lines(tmp_path / "a.tsv", range(50))
    _, ids, _, _ = read_all(data.criteo(tmp_path / "a.tsv", 16, bucketize_numeric=True))
    assert ids.shape == (50, 39)
    for line, row in zip(lines, ids, strict=True):
        for index, text in enumerate(line.split("\t")[1:14]):
            if not text:
                bucket = -(1 << 63)
            else:
                count = int(text)
                bucket = math.floor(math.log(count) ** 2) + 2 if count > 2 else count
            assert row[26 + index] == integer_id(bucket, NUMERIC[index])


def test_missing_category_is_the_empty_string(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tsv").write_text("1" + "\t" * 39 + "\n")
    numbers, ids, _, _ = read_all(data.criteo(tmp_path / "a.tsv", 4))
    assert numbers.tolist() == [[0.0] * 13]
    assert ids.tolist() == [[text_id("", name) for name in CATEGORICAL]]


def test_quotes_are_ordinary_characters(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tsv").write_text("1" + "\t" * 14 + '"a' + "\t" * 25 + "\n")
    _, ids, _, _ = read_all(data.criteo(tmp_path / "a.tsv", 4))
    assert ids[0, 0] == text_id('"a', "C1")


def test_bytes_that_are_no_utf8_are_hashed_as_they_are(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"1" + b"\t" * 14 + b"\xff\xfe" + b"\t" * 25 + b"\n")
    _, ids, _, _ = read_all(data.criteo(tmp_path / "a.tsv", 4))
    assert ids[0, 0] == text_id(b"\xff\xfe", "C1")


def test_several_iterations_and_an_abandoned_one(tmp_path: pathlib.Path) -> None:
    lines = write_lines(tmp_path / "a.tsv", range(500))
    dataset = data.criteo(tmp_path / "a.tsv", 3)
    next(iter(dataset))
    check(dataset, lines)
    check(dataset, lines)


def test_runs_in_keras_style_map_and_repeat(tmp_path: pathlib.Path) -> None:
    write_lines(tmp_path / "a.tsv", range(10))
    dataset = data.criteo(tmp_path / "a.tsv", 4).map(lambda features, label: (features["categorical"] % 7, label))
    assert [len(label) for _, label in dataset.repeat(2)] == [4, 4, 2, 4, 4, 2]
