# SPDX-License-Identifier: Apache-2.0
"""Which rows arrive, in which order, in which batches: shuffling, sharding, ranges of rows."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_oracle import read_all, row_numbers, write_lines

import tf_sfctr.data as data
from tf_sfctr.data import _text
from tf_sfctr.data._pipeline import Block, rebatch, shuffle

NUM_ROWS = 101


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "CHUNK_BYTES", 2000)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    write_lines(tmp_path / "a.tsv", range(NUM_ROWS))
    return tmp_path / "a.tsv"


@pytest.fixture
def parts(tmp_path: pathlib.Path) -> list[pathlib.Path]:
    """The same rows in 5 files of different sizes, one of them empty."""
    bounds = [0, 7, 7, 40, 41, NUM_ROWS]
    paths = [tmp_path / f"part-{i}" for i in range(5)]
    for file, begin, end in zip(paths, bounds[:-1], bounds[1:], strict=True):
        write_lines(file, range(begin, end))
    return paths


def rows_of(files: Any, batch_size: int = 8, **options: Any) -> list[int]:
    return row_numbers(data.criteo(files, batch_size, **options), NUM_ROWS)


def make_block(begin: int, end: int) -> Block:
    rows = np.arange(begin, end)
    return Block(rows[:, None].astype(np.float32), np.stack([rows, -rows], 1), rows[:, None].astype(np.float32))


def cut(sizes: list[int]) -> list[Block]:
    bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    return [make_block(a, b) for a, b in itertools.pairwise(bounds)]


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 20), max_size=12), batch_size=st.integers(1, 30), drop=st.booleans())
def test_rebatch_keeps_order_and_cuts_full_batches(sizes: list[int], batch_size: int, drop: bool) -> None:
    batches = list(rebatch(cut(sizes), batch_size, drop))
    total = sum(sizes) // batch_size * batch_size if drop else sum(sizes)
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * max(len(batches) - 1, 0)
    assert [value for batch in batches for value in batch.categorical[:, 0]] == list(range(total))


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 40), max_size=8), buffer_rows=st.integers(1, 60), seed=st.integers(0, 9))
def test_shuffle_is_a_permutation_of_whole_rows(sizes: list[int], buffer_rows: int, seed: int) -> None:
    blocks = list(shuffle(cut(sizes), buffer_rows, np.random.default_rng(seed)))
    rows = [value for block in blocks for value in block.categorical[:, 0]]
    assert sorted(rows) == list(range(sum(sizes)))
    for block in blocks:
        np.testing.assert_array_equal(block.categorical[:, 0], -block.categorical[:, 1])
        np.testing.assert_array_equal(block.categorical[:, 0], block.label[:, 0])
        np.testing.assert_array_equal(block.label, block.numeric)


def test_shuffle_moves_rows_far() -> None:
    blocks = cut([100] * 20)
    rows = np.concatenate([block.categorical[:, 0] for block in shuffle(blocks, 1000, np.random.default_rng(0))])
    assert np.abs(rows - np.arange(2000)).mean() > 200


@pytest.mark.parametrize("buffer_rows", [2, 10, 60, 1000])
def test_shuffled_reader_delivers_each_row_once(path: pathlib.Path, buffer_rows: int) -> None:
    rows = rows_of(path, shuffle_buffer=buffer_rows, seed=1)
    assert rows != list(range(NUM_ROWS))
    assert sorted(rows) == list(range(NUM_ROWS))


def test_seed_fixes_the_order_of_every_pass(path: pathlib.Path) -> None:
    first, second, other = (data.criteo(path, 8, shuffle_buffer=50, seed=seed) for seed in (3, 3, 4))
    one, two = row_numbers(first, NUM_ROWS), row_numbers(first, NUM_ROWS)
    assert one != two
    assert [row_numbers(second, NUM_ROWS), row_numbers(second, NUM_ROWS)] == [one, two]
    assert row_numbers(other, NUM_ROWS) != one


def test_reshuffle_each_iteration_off_repeats_the_order(path: pathlib.Path) -> None:
    for seed in (3, None):
        dataset = data.criteo(path, 8, shuffle_buffer=50, seed=seed, reshuffle_each_iteration=False)
        assert row_numbers(dataset, NUM_ROWS) == row_numbers(dataset, NUM_ROWS)


@pytest.mark.parametrize("batch_size", [1, 7, 101, 200])
@pytest.mark.parametrize("drop", [False, True])
def test_batch_sizes(path: pathlib.Path, batch_size: int, drop: bool) -> None:
    _, _, _, sizes = read_all(data.criteo(path, batch_size, drop_remainder=drop))
    rest = NUM_ROWS % batch_size
    assert sizes == [batch_size] * (NUM_ROWS // batch_size) + ([rest] if rest and not drop else [])


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("window", [{}, {"skip_rows": 9, "max_rows": 60}, {"fraction": (0.3, 0.9)}])
def test_workers_share_the_rows(
    path: pathlib.Path, parts: list[pathlib.Path], num_workers: int, several: bool, window: dict[str, Any]
) -> None:
    files: Any = parts if several else path
    expected = rows_of(files, **window)
    shares = [rows_of(files, num_workers=num_workers, worker_index=i, **window) for i in range(num_workers)]
    assert sorted(row for share in shares for row in share) == expected
    assert all(share == sorted(share) for share in shares)


def test_workers_batches_together_are_the_batches_of_one_reader(path: pathlib.Path) -> None:
    shares = [rows_of(path, 4, num_workers=3, worker_index=i, skip_rows=5) for i in range(3)]
    for step in range(6):
        together = [row for share in shares for row in share[4 * step : 4 * step + 4]]
        assert together == list(range(5 + 12 * step, 5 + 12 * step + 12))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"skip_rows": 90}, range(90, NUM_ROWS)),
        ({"max_rows": 3}, range(3)),
        ({"max_rows": 0}, range(0)),
        ({"skip_rows": 6, "max_rows": 40}, range(6, 46)),
        ({"skip_rows": 500}, range(0)),
        ({"fraction": (0.0, 0.8)}, range(81)),
        ({"fraction": (0.8, 1.0)}, range(81, NUM_ROWS)),
        ({"fraction": (0.5, 0.5)}, range(0)),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_range_of_rows(
    path: pathlib.Path, parts: list[pathlib.Path], several: bool, window: dict[str, Any], expected: range
) -> None:
    assert rows_of(parts if several else path, **window) == list(expected)


def test_error_reaches_the_caller_and_leaves_no_thread(path: pathlib.Path) -> None:
    dataset = data.criteo(path, 8)
    path.unlink()
    with pytest.raises(tf.errors.OpError, match="No such file"):
        list(dataset)


def test_a_file_named_twice_is_refused_where_rows_are_counted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("label,a\n1,2\n0,3\n")
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"files must be distinct where rows are counted .*; got .*rows.csv twice"
    ):
        list(data.csv([str(path), str(path)], 1, label="label", categorical=["a"], fraction=(0.0, 0.5)))
