# SPDX-License-Identifier: Apache-2.0
"""Rows a second that the readers deliver, beside stock tf.data and tensorflow-io."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

import tensorflow as tf

from tf_sfctr import data
from tf_sfctr.bench._report import OURS, Report, measure

_LABEL = ("label",)
_NUMERIC = tuple(f"I{i}" for i in range(1, 14))
_CATEGORICAL = tuple(f"C{i}" for i in range(1, 27))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the sample files (default: %(default)s)")
    parser.add_argument("--batch_size", type=int, default=4096, help="rows of a batch (default: %(default)s)")
    parser.add_argument("--shuffle_buffer", type=int, default=0, help="rows that are shuffled (default: %(default)s)")
    parser.add_argument("--skew", type=float, default=1.05, help="power law of the ids (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="passes that are measured (default: %(default)s)")
    parser.add_argument(
        "--baseline_rows", type=int, default=20_000, help="rows for slow baselines (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=0, help="CPU cores to use; 0 means all (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Writes sample files to a temporary folder, reads them with each variant, and reports."""
    if args.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    report = Report("input", json=args.json)
    with tempfile.TemporaryDirectory(prefix="tf_sfctr_bench_") as folder:
        _run(args, report, pathlib.Path(folder))
    report.summary()
    return 0


def _run(args: argparse.Namespace, report: Report, folder: pathlib.Path) -> None:
    source = data.Synthetic(skew=args.skew)
    files = {
        "tsv": str(folder / "sample.tsv"),
        "parquet_int64": str(folder / "integers.parquet"),
        "parquet_string": str(folder / "strings.parquet"),
        "tfrecord": str(folder / "sample.tfrecord"),
    }
    data.write_criteo_tsv(files["tsv"], args.rows, source)
    data.write_parquet(files["parquet_int64"], args.rows, source, strings=False)
    data.write_parquet(files["parquet_string"], args.rows, source, strings=True)
    num_slow = min(args.baseline_rows, args.rows)
    data.write_tfrecord(files["tfrecord"], num_slow, source)
    small = str(folder / "small.parquet")
    # tensorflow-io cannot read missing values.
    data.write_parquet(small, num_slow, dataclasses.replace(source, missing=0.0), strings=False)

    size, shuffle = args.batch_size, args.shuffle_buffer
    axes = {"columns": 40, "batch_size": size, "shuffle_buffer": shuffle, "threads": _num_threads()}

    def add(variant: str, form: str, rows: int, repeats: int, dataset: tf.data.Dataset) -> None:
        rates = measure(lambda: _consume(dataset), repeats)
        report.add(variant, {"format": form, **axes}, rates, "rows/s", rows=rows)

    def parquet(path: str) -> tf.data.Dataset:
        return data.parquet(
            path,
            size,
            label="label",
            numeric=_NUMERIC,
            categorical=_CATEGORICAL,
            transform="log",
            shuffle_buffer=shuffle,
        )

    add(OURS, "tsv", args.rows, args.repeats, data.criteo(files["tsv"], size, shuffle_buffer=shuffle))
    add("tf.data decode_csv", "tsv", args.rows, args.repeats, _decode_csv(files["tsv"], size, shuffle))
    add(OURS, "parquet_int64", args.rows, args.repeats, parquet(files["parquet_int64"]))
    add(OURS, "parquet_string", args.rows, args.repeats, parquet(files["parquet_string"]))
    if not shuffle and (rates := _io_parquet(small, size)):
        report.add("tensorflow-io", {"format": "parquet_int64", **axes}, rates, "rows/s", rows=num_slow)
    examples = data.tfrecord(
        files["tfrecord"],
        size,
        label="label",
        numeric=_NUMERIC,
        categorical=_CATEGORICAL,
        transform="log",
        shuffle_buffer=shuffle,
    )
    add(OURS, "tfrecord", num_slow, args.repeats, examples)
    add("tf.data single examples", "tfrecord", num_slow, args.repeats, _parse_single(files["tfrecord"], size, shuffle))


def _consume(dataset: tf.data.Dataset) -> float:
    rows = 0
    for _, label in dataset:
        rows += label.shape[0]
    return float(rows)


def _num_threads() -> int:
    return len(os.sched_getaffinity(0))


def _decode_csv(path: str, batch_size: int, shuffle_buffer: int) -> tf.data.Dataset:
    """Stock TensorFlow at its best: whole batches of lines are decoded and hashed at once, in parallel."""
    defaults = [[0.0]] + [[0.0]] * len(_NUMERIC) + [[""]] * len(_CATEGORICAL)

    def parse(lines: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        fields = tf.io.decode_csv(lines, defaults, field_delim="\t", use_quote_delim=False)
        numbers = tf.math.log1p(tf.maximum(tf.stack(fields[1:14], axis=1), 0.0))
        ids = tf.stack([tf.strings.to_hash_bucket_fast(field, 1 << 40) for field in fields[14:]], axis=1)
        return {"numeric": numbers, "categorical": ids}, fields[0][:, None]

    lines = tf.data.TextLineDataset(path)
    lines = lines.shuffle(shuffle_buffer) if shuffle_buffer else lines
    return lines.batch(batch_size).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def _parse_single(path: str, batch_size: int, shuffle_buffer: int) -> tf.data.Dataset:
    """The form that most examples have: parse, then batch."""
    spec = {name: tf.io.FixedLenFeature([], tf.float32, 0.0) for name in _NUMERIC}
    spec |= {name: tf.io.FixedLenFeature([], tf.string, "") for name in _CATEGORICAL}
    # The sample's counts and label are stored as integers.
    spec |= {name: tf.io.FixedLenFeature([], tf.int64, 0) for name in (*_NUMERIC, *_LABEL)}

    def parse(record: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        row = tf.io.parse_single_example(record, spec)
        numbers = tf.stack([tf.cast(row[name], tf.float32) for name in _NUMERIC])
        ids = tf.strings.to_hash_bucket_fast(tf.stack([row[name] for name in _CATEGORICAL]), 1 << 40)
        label = tf.cast(row["label"], tf.float32)[None]
        return {"numeric": tf.math.log1p(tf.maximum(numbers, 0.0)), "categorical": ids}, label

    records = tf.data.TFRecordDataset(path)
    records = records.shuffle(shuffle_buffer) if shuffle_buffer else records
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(2)


def _io_parquet(path: str, batch_size: int) -> list[float]:
    """Rows a second of tensorflow-io; none where it is not installed, or built for another TensorFlow."""
    script = pathlib.Path(__file__).with_name("_tensorflow_io_parquet.py")
    command = [sys.executable, str(script), path, str(batch_size), "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        return []
    return [float(line) for line in done.stdout.split()][1:]  # The first pass warms up.
