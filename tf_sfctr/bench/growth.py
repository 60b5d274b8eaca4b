# SPDX-License-Identifier: Apache-2.0
"""Memory of a table, and how long single insertions take while it grows."""

from __future__ import annotations

import argparse
import time

import numpy as np
import tensorflow as tf

from tf_sfctr import optimizers
from tf_sfctr.bench import _tables, _trace
from tf_sfctr.bench._report import OURS, Report
from tf_sfctr.data import hash_ids
from tf_sfctr.table import EmbeddingTable

_INDEX_LIMIT_BYTES = 16
_ROW_LIMIT = 1.15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    parser.add_argument("--rows", type=int, default=_trace.CRITEO_ROWS, help="rows to insert [%(default)s]")
    parser.add_argument("--dim", type=int, default=16, help="width of an embedding [%(default)s]")
    parser.add_argument("--insert_rows", type=int, default=8192, help="new rows of one insertion [%(default)s]")
    parser.add_argument("--threads", type=int, default=2, help="threads of an op [%(default)s]")


def run(args: argparse.Namespace) -> int:
    """Runs the benchmark: inserts rows of unknown ids and prints, for each doubling, the time of insertions."""
    _tables.set_threads(args.threads)
    report = Report("growth", json=args.json)
    axes = {"rows": args.rows, "dim": args.dim, "insert_rows": args.insert_rows, "threads": args.threads}
    table = EmbeddingTable(args.dim, optimizer=optimizers.Adagrad(), name="growth", seed=0)
    rows = tf.fill([args.insert_rows, args.dim], 0.01)
    hash_ids(tf.range(args.insert_rows, dtype=tf.int64), "growth")
    before = _tables.resident_bytes()
    milliseconds = []
    for begin in range(0, args.rows - args.insert_rows + 1, args.insert_rows):
        ids = hash_ids(tf.range(begin, begin + args.insert_rows, dtype=tf.int64), "growth")
        start = time.perf_counter()
        table.assign(ids, rows)
        milliseconds.append(1e3 * (time.perf_counter() - start))
    resident = _tables.resident_bytes() - before
    stats = table.stats()

    part = 1
    slowest = {}
    while part < len(milliseconds):
        window = milliseconds[part : 2 * part]
        size = 2 * part * args.insert_rows
        report.add(OURS, {**axes, "rows": min(size, stats.num_rows)}, window, "ms", slowest=round(max(window), 3))
        # The 99.9th percentile tells a pause of the table from a pause of the machine.
        slowest[str(size)] = round(float(np.percentile(window, 99.9)), 3)
        part *= 2
    row_bytes = 2 * 4 * args.dim
    limit = _ROW_LIMIT * row_bytes + _INDEX_LIMIT_BYTES
    measured = report.add(OURS, axes, [resident / stats.num_rows], "bytes/row", limit=limit)
    report.summary(
        {"memory limit": round(limit / measured, 3)},
        counted_bytes_per_row=round((stats.row_bytes + stats.index_bytes) / stats.num_rows, 3),
        insertion_ms_p999=slowest,
    )
    return 0
