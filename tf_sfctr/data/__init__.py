# SPDX-License-Identifier: Apache-2.0
"""Readers that turn files of clicks into `tf.data.Dataset`s of numbers, 64-bit ids and labels."""

from tf_sfctr.data._criteo import criteo
from tf_sfctr.data._csv import csv
from tf_sfctr.data._options import ReadOptions, SkippedLines
from tf_sfctr.data._parquet import parquet
from tf_sfctr.data._quantiles import quantile_boundaries
from tf_sfctr.data._synthetic import CRITEO_TABLE_SIZES, Synthetic, synthetic
from tf_sfctr.data._tfrecord import tfrecord
from tf_sfctr.data._virtualize import virtualize
from tf_sfctr.data._writers import write_criteo_tsv, write_parquet, write_tfrecord
from tf_sfctr.data.ids import fingerprint, hash_ids, hash_strings, stock_hash_ids, stock_hash_strings

__all__ = [
    "CRITEO_TABLE_SIZES",
    "ReadOptions",
    "SkippedLines",
    "Synthetic",
    "criteo",
    "csv",
    "fingerprint",
    "hash_ids",
    "hash_strings",
    "parquet",
    "quantile_boundaries",
    "stock_hash_ids",
    "stock_hash_strings",
    "synthetic",
    "tfrecord",
    "virtualize",
    "write_criteo_tsv",
    "write_parquet",
    "write_tfrecord",
]
