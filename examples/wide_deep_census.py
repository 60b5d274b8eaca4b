# SPDX-License-Identifier: Apache-2.0
"""Trains Wide & Deep on a CSV file like that of the census income data; without arguments on made-up rows."""

import argparse
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

import tf_sfctr as sf
from tf_sfctr import callbacks, models

NUMERIC = ["age", "hours_per_week"]
CATEGORICAL = ["education", "occupation", "relationship"]


def write_people(path: pathlib.Path, num_rows: int) -> None:
    """Writes made-up people, whose income depends on all columns and on education together with occupation."""
    rng = np.random.default_rng(0)
    age, hours = rng.integers(17, 80, num_rows), rng.integers(10, 70, num_rows)
    education, occupation, relationship = (rng.integers(0, size, num_rows) for size in (16, 14, 6))
    liking = rng.normal(size=(16, 14))
    logit = 0.03 * (age - 45) + 0.04 * (hours - 40) + 0.2 * (education - 8) + 2 * liking[education, occupation]
    rich = rng.random(num_rows) < 1 / (1 + np.exp(-logit))
    with path.open("w") as file:
        file.write("age,hours_per_week,education,occupation,relationship,income\n")
        for row in zip(age, hours, education, occupation, relationship, rich, strict=True):
            a, h, e, o, r, y = row
            file.write(f"{a},{h},school-{e},job-{o},kin-{r},{'>50K' if y else '<=50K'}\n")


def main() -> None:
    """Trains and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", default="", help="CSV file with these columns; made up by default")
    parser.add_argument("--rows", type=int, default=20_000, help="rows to make up [%(default)s]")
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    keras.utils.set_random_seed(0)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(args.train or pathlib.Path(folder) / "people.csv")
        if not args.train:
            write_people(path, args.rows)

        def read(part: tuple[float, float], shuffle_buffer: int = 0) -> tf.data.Dataset:
            # Numbers also become ids, by buckets, so that the wide part sees them.
            return sf.data.csv(
                path,
                batch_size=256,
                label="income",
                positive=">50K",
                numeric=NUMERIC,
                categorical=CATEGORICAL,
                transform="log",
                bucketize_numeric=True,
                fraction=part,
                shuffle_buffer=shuffle_buffer,
            )

        train, test = read((0.0, 0.8), shuffle_buffer=100_000), read((0.8, 1.0))
        model = models.WideDeep(
            num_numeric=len(NUMERIC),
            num_categorical=len(CATEGORICAL) + len(NUMERIC),
            dim=8,
            hidden_units=(64, 32),
            crosses=[(CATEGORICAL.index("education"), CATEGORICAL.index("occupation"))],
            wide_optimizer=sf.optimizers.Ftrl(0.5, l1_regularization_strength=1e-5),
            deep_optimizer=sf.optimizers.Adagrad(0.05),
        )
        model.compile(keras.optimizers.Adagrad(0.05), keras.losses.BinaryCrossentropy())
        held_out = callbacks.HeldOut(test)
        model.fit(train, epochs=args.epochs, callbacks=[held_out], verbose=2)
        print(f"held-out AUC {held_out.result['auc']:.4f}")


if __name__ == "__main__":
    main()
