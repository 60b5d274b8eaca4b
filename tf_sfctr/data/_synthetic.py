# SPDX-License-Identifier: Apache-2.0
"""Criteo-shaped data without end: power-law ids, counts, and clicks drawn from a known model.

Every value is a pure function of (seed, row, column), so any rows can be made in any order, by any number of workers.
The labels are drawn from a *teacher*: a logistic model with a weight and a short vector per id (a factorization
machine) and a weight per count. No model can rank the rows better than the teacher's own probabilities do on average,
so its AUC is the ceiling that training is measured against.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from tf_sfctr.data._columns import log_counts
from tf_sfctr.data._options import CommonOptions, ReadOptions, Selection, read_options
from tf_sfctr.data._pipeline import Block, Task, make_dataset
from tf_sfctr.data.ids import fingerprint

# Distinct values of the categorical columns of Criteo's Kaggle data set, 33.76 million together.
CRITEO_TABLE_SIZES = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)

_BLOCK_ROWS = 8192
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_CALIBRATION_ROWS = 65536


@dataclasses.dataclass(frozen=True)
class Rows:
    """Raw values of some rows, before any transform."""

    counts: np.ndarray  # float32 [B, N], NaN where missing
    ranks: np.ndarray  # int64 [B, F], from 0, the most frequent first
    logit: np.ndarray  # float64 [B], the teacher's
    label: np.ndarray  # float32 [B]


@dataclasses.dataclass(frozen=True)
class Synthetic:
    """The law of a synthetic data set.

    >>> source = Synthetic(seed=1, scale=0.001)
    >>> source.rows(0, 4).ranks.shape
    (4, 26)

    Attributes:
      seed: of everything.
      skew: exponent of the power law of ids: the k-th most frequent value of a column has a share near k ** -skew.
      scale: factor on the table sizes, for small tests; a table keeps at least 2 values.
      table_sizes: distinct values of each categorical column.
      num_numeric: number of columns of counts.
      missing: share of the counts that are missing.
      positive_rate: share of the labels that are 1.
      signal: standard deviation of the teacher's logits; more of it makes a higher ceiling.
      interaction: share of the logits' variance that comes from pairs of ids, which a linear model cannot learn.
    """

    seed: int = 0
    skew: float = 1.05
    scale: float = 1.0
    table_sizes: Sequence[int] = CRITEO_TABLE_SIZES
    num_numeric: int = 13
    missing: float = 0.2
    positive_rate: float = 0.25
    signal: float = 1.5
    interaction: float = 0.4

    def __post_init__(self) -> None:
        if self.skew <= 0:
            raise ValueError(f"Synthetic: skew must be above 0; got {self.skew}. Criteo's ids have about 1.05.")
        if self.scale <= 0:
            raise ValueError(f"Synthetic: scale must be above 0; got {self.scale}. Pass 1.0 for the real sizes.")
        if not self.table_sizes or min(self.table_sizes) < 1:
            raise ValueError(
                f"Synthetic: table_sizes must be positive; got {self.table_sizes}. Name a column at least."
            )
        for name in ("missing", "positive_rate", "interaction"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"Synthetic: {name} must be from 0 to 1; got {getattr(self, name)}. It is a share.")

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Distinct values of each column, scaled: int64 [F]."""
        return np.maximum(np.round(np.asarray(self.table_sizes) * self.scale), 2).astype(np.int64)

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the categorical columns."""
        return tuple(f"C{i}" for i in range(1, len(self.table_sizes) + 1))

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the columns of counts."""
        return tuple(f"I{i}" for i in range(1, self.num_numeric + 1))

    def rows(self, begin: int, end: int) -> Rows:
        """The raw rows [begin, end)."""
        counts, ranks, linear, pairs = self._features(begin, end)
        center, scale, bias = self._calibration
        logit = bias + (np.stack([linear, pairs], axis=1) - center) @ scale
        chance = _uniform(self._bits(begin, end, 2))[:, 0]
        label = (chance < 1 / (1 + np.exp(-logit))).astype(np.float32)
        return Rows(counts, ranks, logit, label)

    def ids(self, ranks: np.ndarray, hash_ids: bool = True) -> np.ndarray:
        """int64 ids of ranks [B, F]: by the law of integer columns, or the ranks themselves."""
        if not hash_ids:
            return ranks
        salts = np.array([fingerprint(name) for name in self.categorical], np.int64)
        return _mix(ranks.view(np.uint64)).view(np.int64) + salts

    def teacher_auc(self, num_rows: int, skip_rows: int = 0) -> float:
        """AUC of the teacher's own logits on some rows: the ceiling for any model."""
        parts = [
            self.rows(a, min(a + 65536, skip_rows + num_rows)) for a in range(skip_rows, skip_rows + num_rows, 65536)
        ]
        return auc(np.concatenate([part.label for part in parts]), np.concatenate([part.logit for part in parts]))

    def _bits(self, begin: int, end: int, stream: int, width: int = 1) -> np.ndarray:
        """Random uint64 [B, width], a function of seed, row, stream and column."""
        key = _mix(np.array([self.seed % (1 << 64)], np.uint64) + np.array([stream + 1], np.uint64) * _GOLDEN)
        row = _mix(np.arange(begin, end, dtype=np.uint64) * _GOLDEN + key)
        return _mix(row[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN)

    def _features(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        ranks = _power_law(_uniform(self._bits(begin, end, 0, len(self.sizes))), self.sizes, self.skew)
        # Log-normal counts, a different spread per column; sums of uniforms are near enough to normal.
        bits = self._bits(begin, end, 1, self.num_numeric)
        normal = (_pieces(bits).sum(-1) - 2.0) * np.sqrt(3.0)
        spread = 0.5 + (np.arange(self.num_numeric) % 5) * 0.5
        counts = np.floor(np.exp(1.0 + spread * normal)).astype(np.float32)
        counts[_uniform(_mix(bits)) < self.missing] = np.nan

        # The teacher: per (column, rank) a weight and a vector of 4, per count a weight.
        salt = self._bits(0, 1, 3, len(self.sizes))[0]
        hashes = _mix(ranks.view(np.uint64) + salt)
        vectors = _pieces(hashes) - 0.5
        linear = (_uniform(_mix(hashes + _GOLDEN)) - 0.5).sum(1)
        weights = _uniform(_mix(salt[:1] + np.arange(1, self.num_numeric + 1, dtype=np.uint64))) - 0.5
        linear = linear + (log_counts(counts.copy()) - 1.0) @ weights * 0.5
        pairs = ((vectors.sum(1) ** 2 - (vectors**2).sum(1)) / 2).sum(-1)
        return counts, ranks, linear, pairs

    @functools.cached_property
    def _calibration(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Center and scale of the teacher's two parts, and the bias that gives the positive rate."""
        _, _, linear, pairs = self._features(0, _CALIBRATION_ROWS)
        parts = np.stack([linear, pairs], axis=1)
        center, spread = parts.mean(0), np.maximum(parts.std(0), 1e-9)
        scale = self.signal * np.sqrt([1 - self.interaction, self.interaction]) / spread
        logit = (parts - center) @ scale
        low, high = -50.0, 50.0
        for _ in range(60):
            bias = (low + high) / 2
            low, high = (bias, high) if (1 / (1 + np.exp(-logit - bias))).mean() < self.positive_rate else (low, bias)
        return center, scale, bias


def synthetic(
    num_rows: int,
    batch_size: int,
    *,
    source: Synthetic | None = None,
    transform: str = "log",
    hash_ids: bool = True,
    **options: Unpack[CommonOptions],
) -> tf.data.Dataset:
    """Makes Criteo-shaped data: 26 columns of power-law ids, 13 counts, clicks drawn from a known teacher model.

    >>> dataset = synthetic(1_000_000, batch_size=4096, source=Synthetic(scale=0.01))
    >>> ceiling = Synthetic(scale=0.01).teacher_auc(100_000)

    Args:
      num_rows: rows in all, over all workers.
      batch_size: rows in an element.
      source: the law of the data; None means `Synthetic()`, with the table sizes of Criteo's Kaggle data set.
      transform: of the counts: "log" for log(1 + max(x, 0)), or "none".
      hash_ids: False gives ranks within each column, from 0, in place of 64-bit ids.
      **options: see `ReadOptions`.

    Returns:
      A `tf.data.Dataset` of `({"numeric": float32 [B, 13], "categorical": int64 [B, 26]}, label float32 [B, 1])`.

    Raises:
      ValueError: an argument breaks its rule.
    """
    read = read_options("synthetic", batch_size, options)
    if num_rows < 0:
        raise ValueError(f"synthetic: num_rows must not be negative; got {num_rows}.")
    if transform not in ("none", "log"):
        raise ValueError(f"synthetic: transform must be 'none' or 'log'; got {transform!r}.")
    law = source or Synthetic()
    tasks = functools.partial(_tasks, law, num_rows, read, transform == "log", hash_ids)
    return make_dataset(tasks, law.numeric, law.categorical, read)


def _tasks(law: Synthetic, num_rows: int, options: ReadOptions, log: bool, hash_ids: bool) -> Iterator[Task]:
    selection = options.selection(["rows"], lambda _: num_rows)
    for row in range(0, num_rows, _BLOCK_ROWS):
        yield functools.partial(_make, law, selection, row, min(row + _BLOCK_ROWS, num_rows), log, hash_ids)


def _make(law: Synthetic, selection: Selection, begin: int, end: int, log: bool, hash_ids: bool) -> list[Block]:
    blocks = []
    for first, last in selection.runs("rows", begin, end - begin):
        rows = law.rows(begin + first, begin + last)
        numbers = log_counts(rows.counts) if log else np.nan_to_num(rows.counts)
        blocks.append(Block(numbers, law.ids(rows.ranks, hash_ids), rows.label[:, None]))
    return blocks


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve, ties counted half; NaN if all labels are the same."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place.reshape(-1)]
    positive = label.reshape(-1) > 0
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    if not num_positive or not num_negative:
        return float("nan")
    return float((rank[positive].sum() - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative))


def _mix(bits: np.ndarray) -> np.ndarray:
    """Mix64 of ops/core/hash.h."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _uniform(bits: np.ndarray) -> np.ndarray:
    return (bits >> np.uint64(11)) * 2.0**-53


def _pieces(bits: np.ndarray) -> np.ndarray:
    """Four uniform float32 from each uint64, along a new last axis."""
    pieces = np.ascontiguousarray(bits).view(np.uint16).reshape(*bits.shape, 4)
    return (pieces.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-16)


def _power_law(uniform: np.ndarray, sizes: np.ndarray, skew: float) -> np.ndarray:
    """Ranks [B, F] by inversion of the continuous power law on [1, size + 1)."""
    limit = sizes + 1.0
    if abs(skew - 1) < 1e-9:
        value = np.exp(uniform * np.log(limit))
    else:
        value = (1 + uniform * (limit ** (1 - skew) - 1)) ** (1 / (1 - skew))
    return np.minimum(value.astype(np.int64) - 1, sizes - 1)
