# SPDX-License-Identifier: Apache-2.0
"""The ids of the benchmarks: the 26 columns of Criteo's Kaggle data set, scaled to a number of rows, power-law ids."""

from __future__ import annotations

import argparse
import os

import numpy as np

from tf_sfctr.data import CRITEO_TABLE_SIZES

NUM_FEATURES = len(CRITEO_TABLE_SIZES)
# Criteo's own number of rows, 33.76 M.
CRITEO_ROWS = sum(CRITEO_TABLE_SIZES)
# Spreads the frequent ids of a column over its range; any odd number would do.
_SCATTER = 2654435761


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the axes that the benchmarks of tables share."""
    parser.add_argument("--rows", type=int, default=CRITEO_ROWS, help="rows of all tables together [%(default)s]")
    parser.add_argument("--dim", type=int, default=16, help="width of an embedding [%(default)s]")
    parser.add_argument("--batch_size", type=int, default=4096, help="samples of a step [%(default)s]")
    parser.add_argument("--skew", type=float, default=1.05, help="exponent of the power law of ids [%(default)s]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of an op [%(default)s]")
    parser.add_argument("--steps", type=int, default=40, help="measured steps of each variant [%(default)s]")


def axes(args: argparse.Namespace) -> dict[str, object]:
    """The axes of one run, as the report prints them."""
    return {
        "rows": args.rows,
        "dim": args.dim,
        "batch_size": args.batch_size,
        "features": NUM_FEATURES,
        "skew": args.skew,
        "threads": args.threads,
    }


def table_sizes(rows: int) -> np.ndarray:
    """Sizes of the 26 columns when they have about `rows` rows together."""
    scaled = np.round(np.asarray(CRITEO_TABLE_SIZES) * (rows / CRITEO_ROWS)).astype(np.int64)
    return np.maximum(scaled, np.minimum(np.asarray(CRITEO_TABLE_SIZES), 3))


def ids(sizes: np.ndarray, batch_size: int, steps: int, skew: float, seed: int = 0) -> np.ndarray:
    """Ids of `steps` batches, int64 [steps, batch_size, features], each below the size of its column."""
    rng = np.random.default_rng(seed)
    out = np.empty((steps, batch_size, len(sizes)), np.int64)
    for feature, size in enumerate(sizes):
        uniform = rng.random((steps, batch_size))
        if abs(skew - 1) < 1e-9:
            value = np.exp(uniform * np.log(size + 1))
        else:
            value = (((size + 1) ** (1 - skew) - 1) * uniform + 1) ** (1 / (1 - skew))
        rank = np.clip(value.astype(np.int64) - 1, 0, size - 1)
        out[:, :, feature] = (rank * np.int64(_SCATTER)) % size
    return out


def offsets(sizes: np.ndarray) -> np.ndarray:
    """Where each column begins when all share one table."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]])
