# SPDX-License-Identifier: Apache-2.0
"""From tasks that each make a block of rows to a `tf.data.Dataset` of batches.

A background thread draws tasks (it reads the file), a small pool runs them (they parse and hash, outside Python's
global lock for the most part), and the data set's generator takes their blocks in order, shuffles and cuts batches.
Nothing here looks at single rows.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from tf_sfctr.data._options import ReadOptions

# Rows of a block when the shuffle's buffer is emptied at the end.
_LAST_ROWS = 8192


@dataclasses.dataclass(frozen=True)
class Block:
    """Some rows, ready for training. Arrays are C-contiguous."""

    numeric: np.ndarray  # float32 [B, N]
    categorical: np.ndarray  # int64 [B, F]
    label: np.ndarray  # float32 [B, 1]

    def __len__(self) -> int:
        return len(self.label)

    def rows(self, which: slice) -> Block:
        """The rows of a slice, without a copy."""
        return Block(self.numeric[which], self.categorical[which], self.label[which])

    def take(self, places: np.ndarray) -> Block:
        """A copy of the rows of an index array."""
        return Block(self.numeric.take(places, 0), self.categorical.take(places, 0), self.label.take(places, 0))

    def put(self, places: slice | np.ndarray, block: Block) -> None:
        """Overwrites rows with those of a block."""
        self.numeric[places] = block.numeric
        self.categorical[places] = block.categorical
        self.label[places] = block.label


def concatenate(blocks: Sequence[Block]) -> Block:
    """The rows of all blocks, in order."""
    if len(blocks) == 1:
        return blocks[0]
    return Block(
        np.concatenate([block.numeric for block in blocks]),
        np.concatenate([block.categorical for block in blocks]),
        np.concatenate([block.label for block in blocks]),
    )


Task = Callable[[], list[Block]]


def run_in_order(tasks: Iterable[Task], num_threads: int, depth: int) -> Iterator[Block]:
    """Runs tasks on a pool, and yields their blocks in the order of the tasks.

    Args:
      tasks: drawn by one background thread.
      num_threads: of the pool.
      depth: tasks that may be drawn ahead of the caller, which bounds the memory.
    """
    pool = concurrent.futures.ThreadPoolExecutor(num_threads, thread_name_prefix="tf_sfctr_parse")
    futures: queue.Queue[concurrent.futures.Future[list[Block]] | None] = queue.Queue(depth)
    stop = threading.Event()

    def draw() -> None:
        try:
            for task in tasks:
                if stop.is_set():
                    return
                futures.put(pool.submit(task))
        except BaseException as error:  # Handed to the caller in its turn.
            failed: concurrent.futures.Future[list[Block]] = concurrent.futures.Future()
            failed.set_exception(error)
            futures.put(failed)
        finally:
            futures.put(None)

    reader = threading.Thread(target=draw, name="tf_sfctr_read", daemon=True)
    reader.start()
    try:
        while (future := futures.get()) is not None:
            yield from future.result()
    finally:
        stop.set()
        while reader.is_alive():  # It may be waiting for room in the queue.
            try:
                futures.get(timeout=0.01)
            except queue.Empty:
                continue
        pool.shutdown(wait=True, cancel_futures=True)


def shuffle(blocks: Iterable[Block], buffer_rows: int, rng: np.random.Generator) -> Iterator[Block]:
    """Mixes rows in a buffer: rows that come take the places of as many random ones, which leave."""
    pool: Block | None = None
    num_held = 0
    for block in blocks:
        if pool is None:
            pool = _empty_like(block, buffer_rows)
        for begin in range(0, len(block), buffer_rows):
            piece = block.rows(slice(begin, begin + buffer_rows))
            room = min(buffer_rows - num_held, len(piece))
            if room:
                pool.put(slice(num_held, num_held + room), piece.rows(slice(0, room)))
                num_held += room
                piece = piece.rows(slice(room, None))
            if len(piece):
                places = rng.choice(buffer_rows, len(piece), replace=False)
                yield pool.take(places)
                pool.put(places, piece)
    if pool is not None:
        order = rng.permutation(num_held)
        for begin in range(0, num_held, _LAST_ROWS):
            yield pool.take(order[begin : begin + _LAST_ROWS])


def _empty_like(block: Block, num_rows: int) -> Block:
    arrays = (block.numeric, block.categorical, block.label)
    return Block(*(np.empty((num_rows, array.shape[1]), array.dtype) for array in arrays))


def rebatch(blocks: Iterable[Block], batch_size: int, drop_remainder: bool) -> Iterator[Block]:
    """Cuts blocks of any size into batches; a batch within one block is not copied."""
    held: list[Block] = []
    num_held = 0
    for block in blocks:
        begin = 0
        if num_held:
            begin = min(batch_size - num_held, len(block))
            held.append(block.rows(slice(0, begin)))
            num_held += begin
            if num_held < batch_size:
                continue
            yield concatenate(held)
            held, num_held = [], 0
        while begin + batch_size <= len(block):
            yield block.rows(slice(begin, begin + batch_size))
            begin += batch_size
        if begin < len(block):
            held, num_held = [block.rows(slice(begin, None))], len(block) - begin
    if num_held and not drop_remainder:
        yield concatenate(held)


def make_dataset(
    tasks: Callable[[], Iterable[Task]], numeric: Sequence[str], categorical: Sequence[str], options: ReadOptions
) -> tf.data.Dataset:
    """A data set of batches from the blocks of tasks.

    Args:
      tasks: called once per iteration.
      numeric: names of the columns of `Block.numeric`.
      categorical: names of the columns of `Block.categorical`.
      options: batch size, shuffle and form of the elements.

    Returns:
      Elements `({"numeric": float32 [B, N], "categorical": int64 [B, F]}, label float32 [B, 1])`; what has no columns
      is left out. With `dict_features`, one [B, 1] entry per column instead.
    """
    num_threads = max(2, os.cpu_count() or 1)
    iterations = itertools.count()
    seed = options.seed if options.seed is not None else int(np.random.SeedSequence().generate_state(1)[0])

    def batches() -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        iteration = next(iterations) if options.reshuffle_each_iteration else 0
        blocks: Iterator[Block] = run_in_order(tasks(), num_threads, depth=2 * num_threads)
        rows: Iterable[Block] = blocks
        if options.shuffle_buffer > 1:
            rng = np.random.default_rng([seed % (1 << 63), iteration, options.worker_index])
            rows = shuffle(rows, options.shuffle_buffer, rng)
        try:
            for batch in rebatch(rows, options.batch_size, options.drop_remainder):
                features = {}
                if numeric:
                    features["numeric"] = batch.numeric
                if categorical:
                    features["categorical"] = batch.categorical
                yield features, batch.label
        finally:
            blocks.close()  # type: ignore[attr-defined]

    size = options.batch_size if options.drop_remainder else None
    spec = {}
    if numeric:
        spec["numeric"] = tf.TensorSpec([size, len(numeric)], tf.float32)
    if categorical:
        spec["categorical"] = tf.TensorSpec([size, len(categorical)], tf.int64)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=(spec, tf.TensorSpec([size, 1], tf.float32)))
    if options.dict_features:
        dataset = dataset.map(lambda features, label: (split_columns(features, numeric, categorical), label))
    return dataset.prefetch(2)


def split_columns(
    features: dict[str, tf.Tensor], numeric: Sequence[str], categorical: Sequence[str]
) -> dict[str, tf.Tensor]:
    """One [B, 1] entry per column. A column that is both keeps its name for the number, and gets `NAME_id`."""
    columns: dict[str, tf.Tensor] = {}
    if numeric:
        columns.update(zip(numeric, tf.split(features["numeric"], len(numeric), axis=1), strict=True))
    if categorical:
        names = [f"{name}_id" if name in columns else name for name in categorical]
        columns.update(zip(names, tf.split(features["categorical"], len(names), axis=1), strict=True))
    return columns
