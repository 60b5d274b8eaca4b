# SPDX-License-Identifier: Apache-2.0
"""The Parquet reader against plain Python."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from reader_oracle import integer_id, read_all, text_id

import tf_sfctr.data as data
from tf_sfctr.data import _parquet

ROWS: dict[str, list[Any]] = {
    "click": [1, 0, 1, 0, 1],
    "price": [1.5, None, -2.0, float("nan"), 4.0],
    "count": [3, 0, None, 7, -1],
    "city": ["a", None, "", "b", "a"],
    "user": [7, -1, None, (1 << 63) - 1, 7],
    "big": [(1 << 64) - 1, 0, 1, 2, 3],
    "flag": [True, False, None, True, False],
}


def table(**kinds: pa.DataType) -> pa.Table:
    types = {"big": pa.uint64(), **kinds}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in ROWS.items()})


def id_of(value: Any, name: str) -> int:
    return text_id(value or "", name) if value is None or isinstance(value, str) else integer_id(int(value), name)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=2)
    return tmp_path / "a.parquet"


def test_reads_every_type_and_null(path: pathlib.Path) -> None:
    numbers, ids, labels, sizes = read_all(data.parquet(path, 2, label="click"))
    assert numbers[:, 0].tolist() == [1.5, 0, -2, 0, 4]
    names = ["count", "city", "user", "big", "flag"]
    expected = [[id_of(ROWS[name][row], name) for name in names] for row in range(5)]
    assert ids.tolist() == expected
    assert labels[:, 0].tolist() == ROWS["click"]
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize(
    "kinds",
    [
        {"city": pa.large_string()},
        {"city": pa.binary()},
        {"city": pa.dictionary(pa.int32(), pa.string())},
        {"count": pa.int8(), "click": pa.bool_()},
        {"click": pa.float64(), "price": pa.float32()},
    ],
)
def test_storage_type_does_not_show(path: pathlib.Path, tmp_path: pathlib.Path, kinds: dict[str, pa.DataType]) -> None:
    one = table()
    other = pa.table({name: pc.cast(one[name], kinds.get(name, one[name].type)) for name in one.column_names})
    pq.write_table(other, tmp_path / "b.parquet")
    options: dict[str, Any] = {"label": "click", "numeric": ["price"], "categorical": ["count", "city", "user"]}
    for one, two in zip(
        read_all(data.parquet(path, 9, **options))[:3],
        read_all(data.parquet(tmp_path / "b.parquet", 9, **options))[:3],
        strict=True,
    ):
        assert one.tolist() == two.tolist()


def test_integers_as_numbers_and_log(path: pathlib.Path) -> None:
    dataset = data.parquet(path, 9, label="click", numeric=["count", "flag"], categorical=[], transform="log")
    numbers, _, _, _ = read_all(dataset)
    assert numbers.round(4).tolist() == [
        pytest.approx(row) for row in [[1.3863, 0.6931], [0, 0], [0, 0], [2.0794, 0.6931], [0, 0]]
    ]


def test_integers_pass_through(path: pathlib.Path) -> None:
    _, ids, _, _ = read_all(data.parquet(path, 9, label="click", categorical=["user", "big"], hash_ids=False))
    assert ids.tolist() == [[7, -1], [-1, 0], [-1, 1], [(1 << 63) - 1, 2], [7, 3]]


def test_positive_label(path: pathlib.Path) -> None:
    _, _, labels, _ = read_all(data.parquet(path, 9, label="user", categorical=["city"], positive="7", on_error="skip"))
    assert labels[:, 0].tolist() == [1, 0, 0, 1]


def test_missing_label_fails_or_is_skipped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"y": [1.0, None, 0.0, float("nan"), 1.0], "c": ["a", "b", "c", "d", "e"]}), path)
    text = f"parquet: rows from 0 to 4 of {path} must have a number in label column y; got none. Correct them"
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(text)):
        list(data.parquet(path, 2, label="y"))
    skipped = data.SkippedLines()
    _, ids, _, _ = read_all(data.parquet(path, 2, label="y", on_error="skip", skipped=skipped))
    assert ids[:, 0].tolist() == [text_id(value, "c") for value in "ace"]
    assert (skipped.count, skipped.first) == (2, {str(path): 1})


@pytest.mark.parametrize("batch_rows", [1, 3, 64])
@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("window", [{}, {"skip_rows": 11, "max_rows": 50}, {"fraction": (0.7, 1.0)}])
def test_workers_and_ranges(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    batch_rows: int,
    num_workers: int,
    window: dict[str, Any],
) -> None:
    monkeypatch.setattr(_parquet, "BATCH_ROWS", batch_rows)
    for part, (begin, end) in enumerate([(0, 40), (40, 40), (40, 91)]):
        rows = list(range(begin, end))
        pq.write_table(
            pa.table(
                {"y": [0] * len(rows), "n": pa.array(rows, pa.int64()), "s": pa.array(map(str, rows), pa.string())}
            ),
            tmp_path / f"p{part}.parquet",
            row_group_size=8,
        )
    first, stop = {0: (0, 91), 2: (11, 61), 1: (64, 91)}[len(window)]
    for files in (str(tmp_path / "p*.parquet"), [tmp_path / "p0.parquet", tmp_path / "p2.parquet"]):
        shares: list[float] = []
        for worker in range(num_workers):
            dataset = data.parquet(
                files,
                4,
                label="y",
                categorical=["s"],
                numeric=["n"],
                num_workers=num_workers,
                worker_index=worker,
                **window,
            )
            numbers, ids, _, _ = read_all(dataset)
            shares += [] if numbers is None else numbers[:, 0].tolist()
            for number, row in zip(
                numbers[:, 0] if numbers is not None else [], ids if ids is not None else [], strict=True
            ):
                assert row[0] == text_id(str(int(number)), "s")
        assert sorted(shares) == list(range(first, stop))


def test_reads_real_file(real_file: Callable[[str], str]) -> None:
    path = real_file("fuxictr_tiny/fuxictr_tiny_train.parquet")
    rows = pq.read_table(path).to_pylist()
    _, ids, labels, _ = read_all(data.parquet(path, 32, label="clk", categorical=["userid", "brand"]))
    assert labels[:, 0].tolist() == [row["clk"] for row in rows]
    assert ids.tolist() == [[id_of(row["userid"], "userid"), id_of(row["brand"], "brand")] for row in rows]


def test_bad_column_is_named(path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=r"parquet: label must name columns of .*; got 'y'. It has: click, price"):
        data.parquet(path, 4, label="y")
    with pytest.raises(tf.errors.OpError, match="categorical column 'price' must hold strings or integers; got double"):
        list(data.parquet(path, 4, label="click", categorical=["price"]))
    with pytest.raises(tf.errors.OpError, match="categorical column 'city' must hold integers with hash_ids=False"):
        list(data.parquet(path, 4, label="click", categorical=["city"], hash_ids=False))


def test_file_that_is_no_parquet_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.parquet").write_text("hello, this is text")
    with pytest.raises(ValueError, match=r"parquet: files must be Parquet; got .*a\.parquet"):
        data.parquet(tmp_path / "a.parquet", 4, label="y")
