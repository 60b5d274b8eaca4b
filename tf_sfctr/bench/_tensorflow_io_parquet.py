# SPDX-License-Identifier: Apache-2.0
"""The baseline of tensorflow-io's Parquet reader: run as a script, it prints rows a second, one line per pass.

It has a process of its own because tensorflow-io ends the process on a file that it cannot read, such as one with
missing values; and it imports nothing of this package, because tensorflow-io brings another Apache Arrow.
"""

from __future__ import annotations

import sys
import time

import tensorflow as tf
import tensorflow_io as tfio

NUMERIC = tuple(f"I{i}" for i in range(1, 14))
CATEGORICAL = tuple(f"C{i}" for i in range(1, 27))


def main(path: str, batch_size: int, passes: int) -> None:
    """Reads the file some times, as a training script would."""

    def parse(row: dict[str | bytes, tf.Tensor]) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        row = {name.decode() if isinstance(name, bytes) else name: value for name, value in row.items()}
        numbers = tf.math.log1p(tf.maximum(tf.stack([row[name] for name in NUMERIC], axis=1), 0.0))
        ids = tf.stack([row[name] for name in CATEGORICAL], axis=1)
        return {"numeric": numbers, "categorical": ids}, tf.cast(row["label"], tf.float32)[:, None]

    rows = tfio.IODataset.from_parquet(path)
    dataset = rows.batch(batch_size).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    for _ in range(passes):
        begin = time.perf_counter()
        count = sum(label.shape[0] for _, label in dataset)
        print(count / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
