# SPDX-License-Identifier: Apache-2.0
"""Files of synthetic rows, for tests, demos and benchmarks."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import tensorflow as tf

from tf_sfctr.data._synthetic import Synthetic

_ROWS_AT_ONCE = 65536

Path = str | os.PathLike[str]


def write_criteo_tsv(path: Path, num_rows: int, source: Synthetic | None = None) -> None:
    """Writes synthetic rows in Criteo's format, compressed if the path ends in `.gz`.

    >>> write_criteo_tsv("train.tsv", 10_000, Synthetic(scale=0.001))  # doctest: +SKIP

    Args:
      path: of the file.
      num_rows: rows to write, from row 0.
      source: the law of the data; None means `Synthetic()`.
    """
    options = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    opener = gzip.open if os.fspath(path).endswith(".gz") else open
    with opener(path, "wb") as stream:
        for table in _tables(num_rows, source or Synthetic(), strings=True):
            pa_csv.write_csv(table, stream, options)


def write_parquet(path: Path, num_rows: int, source: Synthetic | None = None, *, strings: bool = True) -> None:
    """Writes synthetic rows to a Parquet file of columns label, I1.., C1.. .

    Args:
      path: of the file.
      num_rows: rows to write, from row 0.
      source: the law of the data; None means `Synthetic()`.
      strings: whether categories are strings of 8 hexadecimal digits, as in Criteo's files, or the ranks as int64.
    """
    writer = None
    for table in _tables(num_rows, source or Synthetic(), strings):
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def write_tfrecord(path: Path, num_rows: int, source: Synthetic | None = None, *, strings: bool = True) -> None:
    """Writes synthetic rows to a TFRecord file of `tf.train.Example`s with the columns of `write_parquet`.

    Slow, a row at a time: for samples. Missing counts are left out of the Example.
    """
    compression = "GZIP" if os.fspath(path).endswith(".gz") else ""
    with tf.io.TFRecordWriter(os.fspath(path), compression) as writer:
        for table in _tables(num_rows, source or Synthetic(), strings):
            for row in table.to_pylist():
                features = {name: _feature(value) for name, value in row.items() if value is not None}
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _feature(value: object) -> tf.train.Feature:
    if isinstance(value, str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def _tables(num_rows: int, source: Synthetic, strings: bool) -> Iterator[pa.Table]:
    kinds = [("label", pa.int64()), *((name, pa.float32()) for name in source.numeric)]
    if strings:  # Counts in Criteo's files have no decimal point.
        kinds = [(name, pa.int64()) for name, _ in kinds]
    schema = pa.schema([*kinds, *((name, pa.string() if strings else pa.int64()) for name in source.categorical)])
    for begin in range(0, max(num_rows, 1), _ROWS_AT_ONCE):
        rows = source.rows(begin, min(begin + _ROWS_AT_ONCE, num_rows))
        columns = [pa.array(rows.label.astype(np.int64))]
        for index in range(source.num_numeric):
            counts = pa.array(np.ascontiguousarray(rows.counts[:, index]), from_pandas=True)
            columns.append(pc.cast(counts, schema.field(1 + index).type))
        for index in range(len(source.categorical)):
            ranks = np.ascontiguousarray(rows.ranks[:, index])
            columns.append(_hex(ranks, index) if strings else pa.array(ranks))
        yield pa.Table.from_arrays(columns, schema=schema)


def _hex(ranks: np.ndarray, column: int) -> pa.Array:
    """Strings of 8 hexadecimal digits; different ranks of a column have different ones."""
    # A bijection of 32 bits: odd factors and shifts by half the word.
    bits = ranks.astype(np.uint32) + np.uint32((column * 0x9E3779B9) % (1 << 32))
    for factor in (0x7FEB352D, 0x846CA68B):
        bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(factor)
    bits ^= bits >> np.uint32(16)
    nibbles = (bits[:, None] >> np.arange(28, -4, -4, dtype=np.uint32)) & np.uint32(15)
    text = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
    offsets = np.arange(0, 8 * len(ranks) + 1, 8, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(ranks), [None, pa.py_buffer(offsets), pa.py_buffer(text.tobytes())])
