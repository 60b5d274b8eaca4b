# SPDX-License-Identifier: Apache-2.0
"""Reader of the Criteo display advertising format."""

from __future__ import annotations

import tensorflow as tf
from typing_extensions import Unpack

from tf_sfctr.data import _text
from tf_sfctr.data._columns import Columns
from tf_sfctr.data._files import Files, resolve
from tf_sfctr.data._options import CommonOptions, read_options
from tf_sfctr.data._pipeline import make_dataset

NUMERIC = tuple(f"I{i}" for i in range(1, 14))
CATEGORICAL = tuple(f"C{i}" for i in range(1, 27))


def criteo(
    files: Files,
    batch_size: int,
    *,
    transform: str = "log",
    bucketize_numeric: bool = False,
    **options: Unpack[CommonOptions],
) -> tf.data.Dataset:
    r"""Reads Criteo's tab-separated files: label, 13 counts, 26 categories, no header.

    >>> dataset = criteo("train.tsv", batch_size=4096, shuffle_buffer=100_000)  # doctest: +SKIP

    Args:
      files: a path, several with commas between, a pattern, or a list of these; decompressed if they end in `.gz`.
      batch_size: rows in an element.
      transform: of the counts: "log" for log(1 + max(x, 0)), or "none". A missing count is 0.
      bucketize_numeric: whether the counts also become 13 categorical columns, I1..I13 after C1..C26: a missing count
        and each value up to 2 have their own id, above it the bucket is floor(log(x) ** 2).
      **options: see `ReadOptions`.

    Returns:
      A `tf.data.Dataset` of `({"numeric": float32 [B, 13], "categorical": int64 [B, 26]}, label float32 [B, 1])`. An
      id is the category's fingerprint plus that of the column's name (C1..C26); a missing category is the empty string.

    Raises:
      ValueError: an argument breaks its rule. While reading, a malformed line is an error that names file and line.
      FileNotFoundError: a file does not exist.
    """
    read = read_options("criteo", batch_size, options)
    columns = Columns(
        where="criteo",
        label="label",
        categorical=CATEGORICAL,
        numeric=NUMERIC,
        binary_label=True,
        transform=transform,
        bucketize_numeric=bucketize_numeric,
    )
    form = _text.TextFormat(
        columns, ("label", *NUMERIC, *CATEGORICAL), delimiter="\t", quoting=False, skip_header=False
    )
    paths = resolve("criteo", files)
    return make_dataset(_text.tasks(form, paths, read), NUMERIC, columns.id_names, read)
