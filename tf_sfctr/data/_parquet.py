# SPDX-License-Identifier: Apache-2.0
"""Reader of Parquet files."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from absl import logging
from typing_extensions import Unpack

from tf_sfctr.data._columns import Buckets, Columns, MalformedError, is_text
from tf_sfctr.data._files import Files, GFileStream, is_remote, resolve
from tf_sfctr.data._options import CommonOptions, ReadOptions, Selection, read_options
from tf_sfctr.data._pipeline import Block, Task, concatenate, make_dataset

# Rows decoded at once: large enough that a call costs nothing, small enough that 40 columns stay in the L3 cache.
# Chosen with `bench input`.
BATCH_ROWS = 16384


def parquet(
    files: Files,
    batch_size: int,
    *,
    label: str,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    positive: str | None = None,
    missing: Sequence[str] = (),
    transform: str = "none",
    bucketize_numeric: Buckets = False,
    hash_ids: bool = True,
    **options: Unpack[CommonOptions],
) -> tf.data.Dataset:
    """Reads Parquet files.

    >>> dataset = parquet("part-*.parquet", batch_size=4096, label="click")  # doctest: +SKIP

    Args:
      files: a path, several with commas between, a pattern, or a list of these.
      batch_size: rows in an element.
      label: name of the label column.
      categorical: names of the columns that become ids; None means all columns of strings and integers but those of the
        label and `numeric`.
      numeric: names of the columns that become numbers; None means all columns of floats. A missing one is 0.
      positive: the label's text that counts as 1, all others as 0; None reads the label as a number.
      missing: texts that mean "no value", besides null and the empty one.
      transform: of the numbers: "none", or "log" for log(1 + max(x, 0)).
      bucketize_numeric: whether numeric columns also become ids, after the categorical ones: False; True for buckets
        that grow as log(x) ** 2; or name -> rising boundaries. A missing value has an id of its own.
      hash_ids: False passes integer ids through as they are (null is -1).
      **options: see `ReadOptions`. `on_error="skip"` leaves out rows whose label is missing.

    Returns:
      A `tf.data.Dataset` of `({"numeric": float32 [B, N], "categorical": int64 [B, F]}, label float32 [B, 1])`. An id
      is the fingerprint (strings) or the mixed bits (integers) of the value plus the fingerprint of the column's name;
      null has the id of the empty string.

    Raises:
      ValueError: an argument breaks its rule or names no column.
      TypeError: a column's type does not fit its use.
      FileNotFoundError: a file does not exist.
    """
    read = read_options("parquet", batch_size, options)
    paths = resolve("parquet", files)
    with _open(paths[0]) as file:
        schema = file.schema_arrow
    kinds = {field.name: field.type for field in schema}
    if numeric is None:
        given = {label, *(categorical or ())}
        numeric = [name for name, kind in kinds.items() if pa.types.is_floating(kind) and name not in given]
    if categorical is None:
        given = {label, *numeric}
        categorical = [name for name, kind in kinds.items() if _is_category(kind) and name not in given]
    columns = Columns(
        where="parquet",
        label=label,
        categorical=tuple(categorical),
        numeric=tuple(numeric),
        positive=positive,
        transform=transform,
        bucketize_numeric=bucketize_numeric,
        hash_ids=hash_ids,
        missing=("", *missing),
    )
    columns.require(list(kinds), paths[0])
    return make_dataset(functools.partial(_tasks, columns, paths, read), columns.numeric, columns.id_names, read)


def _is_category(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _open(path: str) -> pq.ParquetFile:
    source = pa.PythonFile(GFileStream(path), mode="r") if is_remote(path) else pa.memory_map(path)
    try:
        return pq.ParquetFile(source)
    except pa.ArrowInvalid as error:
        raise ValueError(f"parquet: files must be Parquet; got {path}: {error}") from error


def _num_rows(path: str) -> int:
    with _open(path) as file:
        return int(file.metadata.num_rows)


def _tasks(columns: Columns, paths: list[str], options: ReadOptions) -> Iterator[Task]:
    selection = options.selection(paths, _num_rows)
    for path in options.own_files(paths):
        with _open(path) as file:
            columns.require(file.schema_arrow.names, path)
            groups, first = [], None  # The row groups that hold rows to read, and the number of their first row.
            row = 0
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if not selection.before_start(path, row, count) and not selection.past_end(path, row):
                    groups.append(group)
                    first = row if first is None else first
                row += count
            row = first or 0
            if not groups:
                continue
            for batch in file.iter_batches(BATCH_ROWS, groups, columns=list(columns.needed), use_threads=True):
                yield functools.partial(_read_batch, columns, options, selection, path, batch, row)
                row += batch.num_rows


def _read_batch(
    columns: Columns, options: ReadOptions, selection: Selection, path: str, batch: pa.RecordBatch, row: int
) -> list[Block]:
    runs = selection.runs(path, row, batch.num_rows)
    if not runs:
        return []
    if len(runs) > 1:
        parts = [batch.slice(begin, end - begin) for begin, end in runs]
        table = pa.Table.from_batches(parts).combine_chunks()
        batch = table.to_batches()[0]
    elif runs != [(0, batch.num_rows)]:
        batch = batch.slice(runs[0][0], runs[0][1] - runs[0][0])
    try:
        return [columns.encode(batch)]
    except MalformedError as error:
        if options.on_error == "fail":
            raise ValueError(
                f"parquet: rows from {row} to {row + batch.num_rows - 1} of {path} {error}. Correct them, or pass "
                'on_error="skip" to leave such rows out.'
            ) from None
        return _good_rows(columns, options, path, batch, row)


def _good_rows(columns: Columns, options: ReadOptions, path: str, batch: pa.RecordBatch, row: int) -> list[Block]:
    """The rows that encode, found by halving."""
    blocks: list[Block] = []
    pending = [(batch, row)]
    while pending:
        part, first = pending.pop()
        try:
            blocks.append(columns.encode(part))
        except MalformedError as error:
            if part.num_rows == 1:
                assert options.skipped is not None
                if options.skipped.add(path, first):
                    logging.warning(
                        'parquet: row %d of %s %s. Such rows are left out (on_error="skip").', first, path, error
                    )
                continue
            half = part.num_rows // 2
            pending += [(part.slice(half), first + half), (part.slice(0, half), first)]
    return [concatenate(blocks)] if blocks else []
