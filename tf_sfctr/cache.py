# SPDX-License-Identifier: Apache-2.0
"""MixCache: rows of tables in device memory, in front of their host stores (ScaleFreeCTR, arXiv 2104.08542)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_sfctr._loader import load_library
from tf_sfctr.config import CacheConfig

if TYPE_CHECKING:
    from tf_sfctr.table import EmbeddingTable

__all__ = ["STAGES", "CacheStats", "Interval", "MixCache"]

# As ops/core/stage_log.h numbers them.
STAGES = ("dedup", "plan", "write_back", "fetch", "wait", "train")


@dataclasses.dataclass(frozen=True)
class CacheStats:
    """Figures of one table in its cache, sums since its creation; differences of two are those of the time between.

    Attributes:
      batches: planned batches.
      ids: their ids, duplicates included.
      unique_ids: their distinct ids.
      rows_fetched: rows that were missing and came from the host.
      rows_written_back: changed rows that went to the host.
      batches_ready: batches whose rows had arrived, or were on their way, when their step asked for them.
      row_bytes: bytes of a row, optimizer state included.
      slots: rows that the whole cache holds at most; `slots_used` of them hold one.
      slots_used: see `slots`.
      directory_bytes: memory of the whole cache beside its rows.
      seconds: of the whole cache, per stage of `STAGES`.
    """

    batches: int
    ids: int
    unique_ids: int
    rows_fetched: int
    rows_written_back: int
    batches_ready: int
    row_bytes: int
    slots: int
    slots_used: int
    directory_bytes: int
    seconds: dict[str, float]

    @property
    def hit_rate(self) -> float:
        """Share of the distinct ids of batches that were found in the cache; NaN before the first batch."""
        return 1.0 - self.rows_fetched / self.unique_ids if self.unique_ids else float("nan")

    @property
    def unique_ratio(self) -> float:
        """Distinct ids per id of a batch; NaN before the first batch."""
        return self.unique_ids / self.ids if self.ids else float("nan")

    @property
    def bytes_fetched(self) -> int:
        """Bytes that came from the host."""
        return self.rows_fetched * self.row_bytes

    @property
    def bytes_written_back(self) -> int:
        """Bytes that went to the host."""
        return self.rows_written_back * self.row_bytes

    def since(self, before: CacheStats | None) -> CacheStats:
        """Returns the figures of the time after `before`."""
        if before is None:
            return self
        sums = ("batches", "ids", "unique_ids", "rows_fetched", "rows_written_back", "batches_ready")
        return dataclasses.replace(
            self,
            **{name: getattr(self, name) - getattr(before, name) for name in sums},
            seconds={stage: value - before.seconds[stage] for stage, value in self.seconds.items()},
        )


@dataclasses.dataclass(frozen=True)
class Interval:
    """When one stage worked on one batch.

    Attributes:
      stage: one of `STAGES`.
      batch: number of the batch; 0 for one that was not announced by `virtualize`.
      begin: seconds of a steady clock; `end` likewise.
      end: see `begin`.
    """

    stage: str
    batch: int
    begin: float
    end: float


class MixCache:
    """Slots in device memory for rows of one or several tables.

    ```python
    cache = sf.MixCache(sf.CacheConfig(rows=300_000))
    user = sf.EmbeddingTable(16, name="user", cache=cache)
    item = sf.EmbeddingTable(16, name="item", cache=cache)
    print(cache.summary())
    ```

    Tables of different widths may share a cache; a slot is as wide as the widest row of the tables that were there
    before the first training step.

    Args:
      config: its size and policy.
    """

    def __init__(self, config: CacheConfig) -> None:
        """See the class."""
        self.config = config
        self._tables: list[Any] = []
        with tf.init_scope(), tf.device("CPU:0"):
            self.handle = load_library().sfctr_cache(
                rows=config.rows or 0,
                bytes=config.bytes or 0,
                policy=config.policy,
                prepare_ahead=config.prepare_ahead,
                threads=config.threads,
                **config.emulated_link_arguments(),
            )

    def add(self, table: EmbeddingTable) -> None:
        """Notes a table for the summary."""
        self._tables.append((table.name, table.handle))

    def stats(self) -> dict[str, CacheStats]:
        """Returns the figures of each table, by name."""
        return {name: stats_of(handle) for name, handle in self._tables}

    def summary(self) -> str:
        """Returns the figures as a table of text."""
        lines = [f"{'table':<20}{'batches':>9}{'unique':>8}{'hits':>8}{'fetched':>22}{'written back':>22}{'ready':>8}"]
        stats = self.stats()
        for name, s in stats.items():
            fetched = f"{s.rows_fetched:,} rows {s.bytes_fetched / 1e6:,.1f} MB"
            written = f"{s.rows_written_back:,} rows {s.bytes_written_back / 1e6:,.1f} MB"
            ready = f"{s.batches_ready / s.batches:.0%}" if s.batches else "-"
            lines.append(
                f"{name:<20}{s.batches:>9,}{s.unique_ratio:>8.1%}{s.hit_rate:>8.1%}{fetched:>22}{written:>22}{ready:>8}"
            )
        for s in list(stats.values())[:1]:
            size = f"slots {s.slots_used:,} of {s.slots:,}, directory {s.directory_bytes / 1e6:,.1f} MB"
            stages = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in s.seconds.items())
            lines += [f"{size}, policy {self.config.policy}", f"stages: {stages}"]
            if self.config.emulated_link is not None:
                bandwidth, latency = self.config.emulated_link
                lines.append(f"EMULATED link to the host: {bandwidth / 1e9:g} GB/s, {latency * 1e6:g} us")
        return "\n".join(lines)

    def intervals(self) -> list[Interval]:
        """Returns the last few thousand intervals of all stages, by their begin."""
        if not self._tables:
            return []
        numbers, times = (value.numpy() for value in load_library().sfctr_cache_stages(self._tables[0][1]))
        found = [
            Interval(STAGES[stage], int(batch), float(begin), float(end))
            for (stage, batch), (begin, end) in zip(numbers, times, strict=True)
        ]
        return sorted(found, key=lambda interval: interval.begin)


def stats_of(handle: tf.Tensor) -> CacheStats:
    """Figures of the table with this handle."""
    counts, seconds = (np.asarray(value) for value in load_library().sfctr_cache_stats(handle))
    names = [field.name for field in dataclasses.fields(CacheStats)][:-1]
    figures: dict[str, Any] = {name: int(value) for name, value in zip(names, counts, strict=True)}
    figures["seconds"] = {stage: float(value) for stage, value in zip(STAGES, seconds, strict=True)}
    return CacheStats(**figures)
