# SPDX-License-Identifier: Apache-2.0
"""Reader of delimited text files."""

from __future__ import annotations

import csv as python_csv
from collections.abc import Sequence

import tensorflow as tf
from typing_extensions import Unpack

from tf_sfctr.data import _text
from tf_sfctr.data._columns import Buckets, Columns
from tf_sfctr.data._files import Files, resolve
from tf_sfctr.data._options import CommonOptions, read_options
from tf_sfctr.data._pipeline import make_dataset


def csv(
    files: Files,
    batch_size: int,
    *,
    label: str,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] = (),
    header: Sequence[str] | None = None,
    delimiter: str = ",",
    positive: str | None = None,
    missing: Sequence[str] = (),
    strip: bool = False,
    transform: str = "none",
    bucketize_numeric: Buckets = False,
    hash_ids: bool = True,
    **options: Unpack[CommonOptions],
) -> tf.data.Dataset:
    r"""Reads delimited text, one row a line; values may be in double quotes, but hold no line break.

    >>> dataset = csv("clicks.csv", batch_size=4096, label="click", numeric=["price"])  # doctest: +SKIP

    Args:
      files: a path, several with commas between, a pattern, or a list of these; decompressed if they end in `.gz`.
      batch_size: rows in an element.
      label: name of the label column.
      categorical: names of the columns that become ids; None means all that are neither label nor numeric. A column may
        be both categorical and numeric.
      numeric: names of the columns that become numbers; a missing one is 0.
      header: the columns' names for files without a first line of names; None takes them from the first file.
      delimiter: one character between values.
      positive: the label's text that counts as 1, all others as 0; None reads the label as a number.
      missing: texts that mean "no value", besides the empty one, such as "?".
      strip: whether to cut white space around values, and a full stop after the label (the census files have both).
      transform: of the numbers: "none", or "log" for log(1 + max(x, 0)).
      bucketize_numeric: whether numeric columns also become ids, after the categorical ones: False; True for buckets
        that grow as log(x) ** 2; or name -> rising boundaries. A missing value has an id of its own.
      hash_ids: False reads categorical columns as integers and passes them through (a missing one is -1).
      **options: see `ReadOptions`.

    Returns:
      A `tf.data.Dataset` of `({"numeric": float32 [B, N], "categorical": int64 [B, F]}, label float32 [B, 1])`. An id
      is the value's fingerprint plus that of the column's name; a missing category is the empty string.

    Raises:
      ValueError: an argument breaks its rule or names no column. While reading, a malformed line is an error that names
        file and line.
      FileNotFoundError: a file does not exist.
    """
    read = read_options("csv", batch_size, options)
    paths = resolve("csv", files)
    if len(delimiter) != 1:
        raise ValueError(f"csv: delimiter must be one character; got {delimiter!r}. Pass ',' or a tab.")
    names = tuple(header) if header is not None else _header(paths[0], delimiter, strip)
    for path in paths[1:] if header is None else ():
        if (other := _header(path, delimiter, strip)) != names:
            raise ValueError(
                f"csv: files must have the same header; got {list(other)} in {path}. Expected {list(names)}."
            )
    if categorical is None:
        categorical = [name for name in names if name != label and name not in numeric]
    columns = Columns(
        where="csv",
        label=label,
        categorical=tuple(categorical),
        numeric=tuple(numeric),
        positive=positive,
        transform=transform,
        bucketize_numeric=bucketize_numeric,
        hash_ids=hash_ids,
        missing=("", *missing),
        strip=strip,
    )
    columns.require(names, paths[0])
    form = _text.TextFormat(columns, names, delimiter, quoting=True, skip_header=header is None)
    return make_dataset(_text.tasks(form, paths, read), columns.numeric, columns.id_names, read)


def _header(path: str, delimiter: str, strip: bool) -> tuple[str, ...]:
    line = _text.header_of(path)
    if not line:
        raise ValueError(f"csv: files must begin with a line of column names; got none in {path}. Or pass header=.")
    names = next(python_csv.reader([line], delimiter=delimiter))
    return tuple(name.strip() for name in names) if strip else tuple(names)
