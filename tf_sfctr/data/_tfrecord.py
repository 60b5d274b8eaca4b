# SPDX-License-Identifier: Apache-2.0
"""Reader of TFRecord files of `tf.train.Example`, batched before they are parsed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging
from typing_extensions import Unpack

from tf_sfctr.data._files import Files, resolve
from tf_sfctr.data._options import CommonOptions, ReadOptions, read_options
from tf_sfctr.data._pipeline import split_columns
from tf_sfctr.data.ids import hash_ids as to_ids

# Records that are looked at for names, dtypes and sizes.
_LOOK_AT_RECORDS = 256

_KINDS = {"bytes_list": tf.string, "float_list": tf.float32, "int64_list": tf.int64}


@dataclasses.dataclass(frozen=True)
class _Feature:
    """How a feature of the file is parsed."""

    name: str
    kind: tf.DType
    size: int

    @property
    def columns(self) -> list[str]:
        return [self.name] if self.size == 1 else [f"{self.name}_{i}" for i in range(self.size)]


def tfrecord(
    files: Files,
    batch_size: int,
    *,
    label: str,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    transform: str = "none",
    hash_ids: bool = True,
    compression: str | None = None,
    **options: Unpack[CommonOptions],
) -> tf.data.Dataset:
    """Reads TFRecord files of `tf.train.Example`; dtypes and sizes are those seen in the first records.

    >>> dataset = tfrecord("part-*.tfrecord", batch_size=4096, label="click")  # doctest: +SKIP

    Args:
      files: a path, several with commas between, a pattern, or a list of these.
      batch_size: rows in an element.
      label: name of the label feature.
      categorical: names of the features that become ids; None means all of bytes and integers but those of the label
        and `numeric`. A feature of k > 1 values is k columns, NAME_0 to NAME_(k-1), each hashed under its own name.
      numeric: names of the features that become numbers; None means all of floats. A missing one is 0.
      transform: of the numbers: "none", or "log" for log(1 + max(x, 0)).
      hash_ids: False passes integer ids through as they are.
      compression: "GZIP", "ZLIB" or ""; None goes by the first file's suffix `.gz`.
      **options: see `ReadOptions`. `on_error="skip"` leaves out batches that do not parse, and the rest of a file from
        a broken record on.

    Returns:
      A `tf.data.Dataset` of `({"numeric": float32 [B, N], "categorical": int64 [B, F]}, label float32 [B, 1])`, with
      ids as the `parquet` reader makes them. A missing category has the id of the empty string, or of 0 for integers.

    Raises:
      ValueError: an argument breaks its rule or names no feature.
      TypeError: a feature's type does not fit its use.
      FileNotFoundError: a file does not exist.
    """
    read = read_options("tfrecord", batch_size, options)
    paths = resolve("tfrecord", files)
    if compression is None:
        compression = "GZIP" if paths[0].endswith(".gz") else ""
    if transform not in ("none", "log"):
        raise ValueError(f"tfrecord: transform must be 'none' or 'log'; got {transform!r}.")
    found = _first_features(paths, compression)
    if numeric is None:
        given = {label, *(categorical or ())}
        numeric = [name for name, feature in found.items() if feature.kind == tf.float32 and name not in given]
    if categorical is None:
        given = {label, *numeric}
        categorical = [name for name, feature in found.items() if feature.kind != tf.float32 and name not in given]
    _check(found, paths[0], label, categorical, numeric, hash_ids)

    numeric_columns = [column for name in numeric for column in found[name].columns]
    id_columns = [column for name in categorical for column in found[name].columns]
    spec = {name: _parse_spec(found[name]) for name in (*numeric, *categorical)}
    spec[label] = tf.io.FixedLenFeature([1], found[label].kind)
    # An integer feature may be numeric, and a feature may be both: parse it once, as it is stored.

    def parse(records: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        parsed = tf.io.parse_example(records, spec)
        features = {}
        if numeric:
            numbers = tf.concat([tf.cast(parsed[name], tf.float32) for name in numeric], axis=1)
            numbers = tf.where(tf.math.is_nan(numbers), 0.0, numbers)
            features["numeric"] = tf.math.log1p(tf.maximum(numbers, 0.0)) if transform == "log" else numbers
        if categorical:
            columns = [
                to_ids(part, column) if hash_ids else part
                for name in categorical
                for column, part in zip(
                    found[name].columns, tf.split(parsed[name], found[name].size, axis=1), strict=True
                )
            ]
            features["categorical"] = tf.concat(columns, axis=1)
        if read.dict_features:
            features = split_columns(features, numeric_columns, id_columns)
        return features, tf.cast(parsed[label], tf.float32)

    dataset = _records(paths, compression, read).map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if read.on_error == "skip":
        dataset = dataset.ignore_errors(log_warning=True)
    return dataset.prefetch(2)


def _records(paths: list[str], compression: str, options: ReadOptions) -> tf.data.Dataset:
    """Batches of the serialized records that this worker reads."""

    def count(path: str) -> int:
        records = tf.data.TFRecordDataset(path, compression).batch(4096)
        return int(records.reduce(np.int64(0), lambda total, batch: total + tf.size(batch, tf.int64)))

    selection = options.selection(paths, count)
    by_file = len(paths) >= options.num_workers
    every = selection.first == 0 and selection.stop is None
    if by_file and (every or options.num_workers == 1):
        own = options.own_files(paths)
        dataset = tf.data.TFRecordDataset(own, compression)
        if not every:
            dataset = _window(dataset, selection.first, selection.stop)
    elif by_file:
        dataset = None
        for path in options.own_files(paths):
            start = selection.starts[path]
            stop = None if selection.stop is None else max(selection.stop - start, 0)
            part = _window(tf.data.TFRecordDataset(path, compression), max(selection.first - start, 0), stop)
            dataset = part if dataset is None else dataset.concatenate(part)
        assert dataset is not None
    else:
        dataset = _window(tf.data.TFRecordDataset(paths, compression), selection.first, selection.stop)
        dataset = dataset.batch(options.batch_size).shard(options.num_workers, options.worker_index).unbatch()
    if options.on_error == "skip":
        dataset = dataset.ignore_errors(log_warning=True)
        logging.log_first_n(logging.INFO, "tfrecord: broken records are left out (on_error=%r).", 1, options.on_error)
    if options.shuffle_buffer > 1:
        dataset = dataset.shuffle(
            options.shuffle_buffer, seed=options.seed, reshuffle_each_iteration=options.reshuffle_each_iteration
        )
    return dataset.batch(options.batch_size, drop_remainder=options.drop_remainder)


def _window(dataset: tf.data.Dataset, first: int, stop: int | None) -> tf.data.Dataset:
    dataset = dataset.skip(first) if first else dataset
    return dataset if stop is None else dataset.take(max(stop - first, 0))


def _parse_spec(feature: _Feature) -> tf.io.FixedLenFeature:
    default = [b"" if feature.kind == tf.string else 0] * feature.size
    return tf.io.FixedLenFeature([feature.size], feature.kind, default)


def _first_features(paths: list[str], compression: str) -> dict[str, _Feature]:
    """The features of the first records, in order of name: a record may leave out what is missing."""
    features: dict[str, _Feature] = {}
    num_records = 0
    records = tf.data.TFRecordDataset(paths, compression).take(_LOOK_AT_RECORDS)
    for record in records.ignore_errors():  # A broken record is for the reading itself to report.
        num_records += 1
        for name, value in tf.train.Example.FromString(record.numpy()).features.feature.items():
            kind = value.WhichOneof("kind")
            if kind is not None and (size := len(getattr(value, kind).value)):
                features.setdefault(name, _Feature(name, _KINDS[kind], size))
    if not num_records:
        raise ValueError(f"tfrecord: files must hold a record; got none in {', '.join(paths[:3])}. Check the path.")
    return dict(sorted(features.items()))


def _check(
    found: Mapping[str, _Feature],
    path: str,
    label: str,
    categorical: Sequence[str],
    numeric: Sequence[str],
    hash_ids: bool,
) -> None:
    for role, names in (("label", (label,)), ("categorical", categorical), ("numeric", numeric)):
        for name in names:
            if name not in found:
                raise ValueError(
                    f"tfrecord: {role} must name features of {path}; got {name!r}. Its first records have: "
                    f"{', '.join(list(found)[:50])}."
                )
            if role != "categorical" and found[name].kind == tf.string:
                raise TypeError(f"tfrecord: {role} feature {name!r} must hold numbers; got bytes. Convert it first.")
            if role == "categorical" and found[name].kind == tf.float32:
                raise TypeError(f"tfrecord: categorical feature {name!r} must hold bytes or integers; got floats.")
            if role == "categorical" and not hash_ids and found[name].kind == tf.string:
                raise TypeError(
                    f"tfrecord: categorical feature {name!r} must hold integers with hash_ids=False; got bytes. "
                    "Leave hash_ids=True for strings."
                )
    if not categorical and not numeric:
        raise ValueError("tfrecord: categorical and numeric must name a feature between them; got none.")
