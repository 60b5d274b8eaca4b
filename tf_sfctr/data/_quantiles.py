# SPDX-License-Identifier: Apache-2.0
"""Boundaries for `bucketize_numeric` from the data itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


def quantile_boundaries(
    dataset: tf.data.Dataset, numeric: Sequence[str], num_buckets: int, max_rows: int = 100_000
) -> dict[str, list[float]]:
    """Boundaries that cut each numeric column into buckets of about as many rows each.

    >>> dataset = csv("train.csv", 4096, label="click", numeric=["age"])  # doctest: +SKIP
    >>> bounds = quantile_boundaries(dataset, ["age"], num_buckets=10)  # doctest: +SKIP
    >>> dataset = csv("train.csv", 4096, label="click", numeric=["age"], bucketize_numeric=bounds)  # doctest: +SKIP

    Args:
      dataset: of a reader with `transform="none"`, and without `dict_features`.
      numeric: names of the numeric columns, in the reader's order.
      num_buckets: buckets per column; a column of few values gets fewer.
      max_rows: rows to look at, from the start.

    Returns:
      name -> rising boundaries, for `bucketize_numeric=` of the readers.

    Raises:
      ValueError: `num_buckets` is below 2, or the data set has no rows.
    """
    if num_buckets < 2:
        raise ValueError(f"quantile_boundaries: num_buckets must be at least 2; got {num_buckets}. Try 10.")
    parts: list[np.ndarray] = []
    num_rows = 0
    for features, _ in dataset:
        parts.append(features["numeric"].numpy())
        num_rows += len(parts[-1])
        if num_rows >= max_rows:
            break
    if not num_rows:
        raise ValueError("quantile_boundaries: dataset must have rows; got none. Check the files.")
    values = np.concatenate(parts)[:max_rows]
    cuts = np.quantile(values, np.arange(1, num_buckets) / num_buckets, axis=0, method="higher")
    return {name: np.unique(cuts[:, index]).tolist() for index, name in enumerate(numeric)}
