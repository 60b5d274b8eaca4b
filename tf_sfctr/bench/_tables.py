# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of tables do alike: set the threads, fill tables, time steps in turns."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_sfctr.data import hash_ids
from tf_sfctr.table import EmbeddingTable

_FILL_ROWS = 1 << 19


def set_threads(threads: int) -> None:
    """Sets the threads of TensorFlow's ops. Must come before the first op."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def fill(table: EmbeddingTable, rows: int, hashed: bool) -> None:
    """Creates rows 0 ... rows - 1 of a table (the hashes of these ids, if `hashed`)."""
    for begin in range(0, rows, _FILL_ROWS):
        keys = tf.range(begin, min(begin + _FILL_ROWS, rows), dtype=tf.int64)
        table.assign(hash_ids(keys, "bench") if hashed else keys, tf.fill([len(keys), sum(table.output_dims)], 0.01))


def time_in_turns(
    variants: Mapping[str, Callable[[Any], Any]], batches: Mapping[str, Sequence[Any]], steps: int, rounds: int = 4
) -> dict[str, list[float]]:
    """Seconds of each step of each variant.

    The variants run a part of their steps each in turns, so that a disturbance of the machine meets them all.

    Args:
      variants: name -> step, which takes one batch and ends when its result is there.
      batches: name -> its batches, used one after the other and from the start again.
      steps: of each variant in all.
      rounds: turns.
    """
    for name, step in variants.items():
        for batch in batches[name][:3]:
            step(batch)
    # As timeit does: a collection of Python's garbage is no part of any variant.
    gc.collect()
    gc.disable()
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, step in variants.items():
            for _ in range(max(1, steps // rounds)):
                batch = batches[name][len(seconds[name]) % len(batches[name])]
                begin = time.perf_counter()
                step(batch)
                seconds[name].append(time.perf_counter() - begin)
    gc.enable()
    return seconds


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def rates(amount: float, seconds: Sequence[float]) -> list[float]:
    """Amount per second of each step."""
    return list(amount / np.asarray(seconds))
