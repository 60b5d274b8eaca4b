# SPDX-License-Identifier: Apache-2.0
"""Malformed input: the error names file and line, or the line is left out and counted."""

from __future__ import annotations

import pathlib
import re

import pytest
import tensorflow as tf
from absl import logging
from reader_oracle import criteo_line, read_all, row_numbers

import tf_sfctr.data as data
from tf_sfctr.data import _text

ReadError = tf.errors.InvalidArgumentError

BAD_LABEL = "2" + "\t" * 39
FEW_COLUMNS = "\t".join(["1"] * 39)
BAD_COUNT = "\t".join(["1", "3", "x7", *[""] * 37])


def write(path: pathlib.Path, bad: dict[int, str], num_lines: int = 20) -> None:
    """Writes numbered lines, some replaced; line numbers from 1."""
    lines = [bad.get(number, criteo_line(number - 1)) for number in range(1, num_lines + 1)]
    path.write_text("".join(line + "\n" for line in lines))


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (BAD_LABEL, "must have the label 0 or 1; got 2."),
        ("\t" * 39, "must have the label 0 or 1; got none."),
        (FEW_COLUMNS, "must have 40 columns; got 39."),
        (FEW_COLUMNS + "\t1\t1", "must have 40 columns; got 41."),
        (BAD_COUNT, "must have a number in column I2; got 'x7'."),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [64, 4 << 20])
def test_malformed_line_fails_with_file_and_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, line: str, rule: str, chunk_bytes: int
) -> None:
    monkeypatch.setattr(_text, "CHUNK_BYTES", chunk_bytes)
    path = tmp_path / "a.tsv"
    write(path, {13: line, 17: FEW_COLUMNS})
    text = re.escape(f"criteo: line 13 of {path} {rule} Correct the line, or pass on_error=")
    with pytest.raises(ReadError, match=text):
        list(data.criteo(path, 4))


def test_batches_before_the_malformed_chunk_arrive(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "CHUNK_BYTES", 64)
    write(tmp_path / "a.tsv", {13: BAD_LABEL})
    batches = iter(data.criteo(tmp_path / "a.tsv", 4))
    assert [len(next(batches)[1]) for _ in range(2)] == [4, 4]
    with pytest.raises(ReadError, match="line 13"):
        list(batches)


def test_line_number_counts_lines_that_are_not_read(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.tsv", {13: BAD_LABEL})
    with pytest.raises(ReadError, match="line 13 of"):
        list(data.criteo(tmp_path / "a.tsv", 4, skip_rows=7))
    with pytest.raises(ReadError, match="line 13 of"):
        list(data.criteo(tmp_path / "a.tsv", 4, num_workers=2, worker_index=1))
    assert len(list(data.criteo(tmp_path / "a.tsv", 4, max_rows=12))) == 3


def test_skip_leaves_out_and_counts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    path = tmp_path / "a.tsv"
    write(path, {1: FEW_COLUMNS, 7: BAD_LABEL, 8: BAD_COUNT, 20: FEW_COLUMNS})
    skipped = data.SkippedLines()
    rows = row_numbers(data.criteo(path, 4, on_error="skip", skipped=skipped), 20)
    assert rows == [number for number in range(20) if number + 1 not in (1, 7, 8, 20)]
    assert skipped.count == 4
    assert skipped.first == {str(path): 1}
    assert len(warnings) == 1
    assert f"criteo: line 1 of {path} must have 40 columns; got 39." in warnings[0]


def test_skip_survives_a_file_of_another_format(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tsv").write_text("not,a,criteo,file\n" * 50)
    skipped = data.SkippedLines()
    assert list(data.criteo(tmp_path / "a.tsv", 4, on_error="skip", skipped=skipped)) == []
    assert skipped.count == 50


def test_csv_counts_the_header_as_line_1(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("click,price,city\r\n1,2.5,a\r\n0,cheap,b\r\n")
    with pytest.raises(ReadError, match=f"csv: line 3 of {path} must have a number in column price"):
        list(data.csv(path, 4, label="click", numeric=["price"]))


def test_csv_text_where_integers_pass_through(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("click,city\n1,7\n0,b\n")
    with pytest.raises(ReadError, match=r"line 3 of .* must have an integer in column city; got 'b'"):
        list(data.csv(tmp_path / "a.csv", 4, label="click", hash_ids=False))


def test_csv_line_without_label(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("click,city\n1,a\n,b\n")
    with pytest.raises(ReadError, match=r"line 3 of .* must have a number in label column click; got none"):
        list(data.csv(tmp_path / "a.csv", 4, label="click"))
    with pytest.raises(ReadError, match=r"line 3 of .* must have a value in label column click"):
        list(data.csv(tmp_path / "a.csv", 4, label="click", positive="1"))


def test_csv_cells_with_quoted_delimiters_are_judged_as_parsed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text('click,city\n1,"a,b"\n0,"c,d",e\n')
    with pytest.raises(ReadError, match=r"line 3 of .* must have 2 columns; got 3"):
        list(data.csv(tmp_path / "a.csv", 4, label="click"))
    _, _, labels, _ = read_all(data.csv(tmp_path / "a.csv", 4, label="click", on_error="skip"))
    assert labels.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "criteo: batch_size must be at least 1; got 0."),
        ({"shuffle_buffer": -1}, "criteo: shuffle_buffer must not be negative; got -1."),
        ({"num_workers": 2, "worker_index": 2}, "criteo: worker_index must be from 0 to num_workers - 1 = 1; got 2."),
        ({"num_workers": 0}, "criteo: num_workers must be at least 1; got 0."),
        ({"skip_rows": -3}, "criteo: skip_rows must not be negative; got -3."),
        ({"max_rows": -3}, "criteo: max_rows must not be negative; got -3."),
        ({"fraction": (0.5, 0.2)}, "criteo: fraction must be a rising pair from 0 to 1; got (0.5, 0.2)."),
        ({"fraction": (0.5, 1), "skip_rows": 3}, "criteo: fraction must stand alone; got skip_rows=3"),
        ({"on_error": "ignore"}, "criteo: on_error must be 'fail' or 'skip'; got 'ignore'."),
        ({"transform": "sqrt"}, "criteo: transform must be 'none' or 'log'; got 'sqrt'."),
    ],
)
def test_bad_option_is_named(tmp_path: pathlib.Path, options: dict, text: str) -> None:
    write(tmp_path / "a.tsv", {})
    with pytest.raises(ValueError, match=re.escape(text)):
        data.criteo(tmp_path / "a.tsv", **{"batch_size": 4, **options})


def test_unknown_option_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=r"criteo: options must be among .*; got 'shufle'"):
        data.criteo(tmp_path / "a.tsv", 4, shufle=1)  # type: ignore[call-arg]


def test_absent_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"criteo: files must exist; got 'absent-\*.tsv'. Check"):
        data.criteo("absent-*.tsv", 4)
    with pytest.raises(ValueError, match="criteo: files must name at least one file; got ''"):
        data.criteo("", 4)


def test_unknown_file_system_says_what_to_do() -> None:
    with pytest.raises(
        ImportError, match=r"criteo: files must be on a file system that TensorFlow knows; got 'nosuch://a'"
    ):
        data.criteo("nosuch://a", 4)


def test_missing_tensorflow_io_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorflow_io", None)
    with pytest.raises(ImportError, match=r"got 's3://bucket/a.tsv', which needs tensorflow-io .*pip install"):
        data.criteo("s3://bucket/a.tsv", 4)
