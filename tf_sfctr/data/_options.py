# SPDX-License-Identifier: Apache-2.0
"""Options that all readers share, and the choice of rows that follows from them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TypedDict

import numpy as np


@dataclasses.dataclass
class SkippedLines:
    """Counts the malformed lines that a reader with `on_error="skip"` left out; pass it as `skipped=`.

    >>> skipped = SkippedLines()
    >>> dataset = criteo("train.tsv", 4096, on_error="skip", skipped=skipped)  # doctest: +SKIP

    Attributes:
      count: lines left out since this object was made, over all files and iterations.
      first: file -> the number (from 1) of the first line left out.
    """

    count: int = 0
    first: dict[str, int] = dataclasses.field(default_factory=dict)
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock, repr=False)

    def add(self, path: str, line: int) -> bool:
        """Counts one line; returns whether it is the first of its file."""
        with self._lock:
            self.count += 1
            new = path not in self.first
            self.first[path] = min(line, self.first.get(path, line))
            return new


class CommonOptions(TypedDict, total=False):
    """Keyword arguments that all readers take; see `ReadOptions` for what they mean."""

    shuffle_buffer: int
    seed: int | None
    reshuffle_each_iteration: bool
    num_workers: int
    worker_index: int
    drop_remainder: bool
    skip_rows: int
    max_rows: int | None
    fraction: tuple[float, float] | None
    on_error: str
    skipped: SkippedLines | None
    dict_features: bool


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """Options that all readers share.

    Attributes:
      where: the reader's name, for error texts.
      batch_size: rows in an element.
      shuffle_buffer: rows that are mixed with one another; 0 keeps the files' order.
      seed: of the shuffle; None draws one.
      reshuffle_each_iteration: whether each pass over the data set has an order of its own.
      num_workers: how many readers share the rows. Each row goes to exactly one: by file if there are at least as many
        files as workers, else by turns of `batch_size` rows.
      worker_index: which of them this is, from 0.
      drop_remainder: whether to leave out a last batch that is not full.
      skip_rows: rows to leave out from the start of the first file on. In a text file every line but the header is a
        row here, malformed ones too.
      max_rows: rows to read after those; None reads all.
      fraction: the part of all rows to read, such as (0.8, 1.0) for the last fifth; needs a count of the rows first.
      on_error: "fail", or "skip" to leave malformed lines out, with one warning per file.
      skipped: receives the count of lines left out.
      dict_features: whether an element has one entry per column, [B, 1], in place of "numeric" and "categorical".
    """

    where: str
    batch_size: int
    shuffle_buffer: int = 0
    seed: int | None = None
    reshuffle_each_iteration: bool = True
    num_workers: int = 1
    worker_index: int = 0
    drop_remainder: bool = False
    skip_rows: int = 0
    max_rows: int | None = None
    fraction: tuple[float, float] | None = None
    on_error: str = "fail"
    skipped: SkippedLines | None = None
    dict_features: bool = False

    def __post_init__(self) -> None:
        self._check(self.batch_size >= 1, "batch_size must be at least 1", self.batch_size, "Pass the rows of a batch.")
        self._check(self.shuffle_buffer >= 0, "shuffle_buffer must not be negative", self.shuffle_buffer, "Pass rows.")
        self._check(self.num_workers >= 1, "num_workers must be at least 1", self.num_workers, "Pass 1 to read all.")
        self._check(
            0 <= self.worker_index < self.num_workers,
            f"worker_index must be from 0 to num_workers - 1 = {self.num_workers - 1}",
            self.worker_index,
            "Number the workers from 0.",
        )
        self._check(self.skip_rows >= 0, "skip_rows must not be negative", self.skip_rows, "Pass 0 to skip none.")
        self._check(
            self.max_rows is None or self.max_rows >= 0,
            "max_rows must not be negative",
            self.max_rows,
            "Pass None to read all.",
        )
        self._check(
            self.fraction is None or 0 <= self.fraction[0] <= self.fraction[1] <= 1,
            "fraction must be a rising pair from 0 to 1",
            self.fraction,
            "Pass (0.8, 1.0) for the last fifth.",
        )
        self._check(
            self.fraction is None or (self.skip_rows == 0 and self.max_rows is None),
            "fraction must stand alone",
            f"skip_rows={self.skip_rows}, max_rows={self.max_rows} beside it",
            "Choose rows by part or by number.",
        )
        self._check(self.on_error in ("fail", "skip"), "on_error must be 'fail' or 'skip'", repr(self.on_error), "")

    def _check(self, good: bool, rule: str, value: object, advice: str) -> None:
        if not good:
            raise ValueError(f"{self.where}: {rule}; got {value}. {advice}".rstrip())

    def own_files(self, paths: list[str]) -> list[str]:
        """The files that this worker reads."""
        return paths[self.worker_index :: self.num_workers] if len(paths) >= self.num_workers else paths

    def selection(self, paths: list[str], num_rows: Callable[[str], int]) -> Selection:
        """The rows that this worker reads, counting rows only where that is needed."""
        first, stop = self.skip_rows, None if self.max_rows is None else self.skip_rows + self.max_rows
        starts: dict[str, int] = {}
        counted = self.fraction is not None or first or stop is not None or len(paths) < self.num_workers
        if counted and len(set(paths)) < len(paths):
            twice = next(path for path in paths if paths.count(path) > 1)
            raise ValueError(
                f"data: files must be distinct where rows are counted (fraction, skip_rows, max_rows, workers); got "
                f"{twice} twice. Name it once, and repeat the dataset."
            )
        if self.fraction is not None or first or (stop is not None):
            total = 0
            for path in paths:
                starts[path] = total
                total += num_rows(path)
            if self.fraction is not None:
                first, stop = (round(part * total) for part in self.fraction)
        elif len(paths) < self.num_workers:
            total = 0
            for path in paths:
                starts[path] = total
                total += num_rows(path) if path != paths[-1] else 0
        by_file = len(paths) >= self.num_workers
        turns = (1, 0) if by_file else (self.num_workers, self.worker_index)
        return Selection(starts, first, stop, self.batch_size, *turns)


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which rows to read; rows are numbered through all files."""

    starts: dict[str, int]  # path -> number of its first row; empty where numbers do not matter
    first: int
    stop: int | None
    stripe: int
    num_workers: int
    worker_index: int

    def everything(self) -> bool:
        return self.first == 0 and self.stop is None and self.num_workers == 1

    def past_end(self, path: str, row: int) -> bool:
        """Whether this and all later rows of the file are left out."""
        return self.stop is not None and self.starts.get(path, 0) + row >= self.stop

    def before_start(self, path: str, row: int, count: int) -> bool:
        """Whether all of these rows come before the first one to read."""
        return self.starts.get(path, 0) + row + count <= self.first

    def runs(self, path: str, row: int, count: int) -> list[tuple[int, int]]:
        """Of the rows [row, row + count) of a file, the runs [begin, end) to keep, counted from `row`."""
        if self.everything():
            return [(0, count)] if count else []
        start = self.starts.get(path, 0) + row
        begin = max(self.first - start, 0)
        end = count if self.stop is None else min(self.stop - start, count)
        if begin >= end:
            return []
        if self.num_workers == 1:
            return [(begin, end)]
        # The turns count from the first row that is read, so that together the workers' batches are the batches of
        # one reader with num_workers times the batch size.
        numbers = np.arange(start + begin, start + end) - self.first
        mine = (numbers // self.stripe) % self.num_workers == self.worker_index
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mine, [False]]).astype(np.int8))) + begin
        return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def read_options(where: str, batch_size: int, options: CommonOptions) -> ReadOptions:
    """Checks a reader's common keyword arguments; every data set that skips lines has somewhere to count them."""
    known = {field.name for field in dataclasses.fields(ReadOptions)} - {"where", "batch_size"}
    for name in options:
        if name not in known:
            raise TypeError(f"{where}: options must be among {', '.join(sorted(known))}; got {name!r}.")
    checked = ReadOptions(where=where, batch_size=batch_size, **options)
    return checked if checked.skipped is not None else dataclasses.replace(checked, skipped=SkippedLines())
