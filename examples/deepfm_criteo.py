# SPDX-License-Identifier: Apache-2.0
"""Trains DeepFM on files in Criteo's format; without arguments on made-up ones."""

import argparse
import pathlib
import tempfile

import keras

import tf_sfctr as sf
from tf_sfctr import callbacks, models


def main() -> None:
    """Trains, measures, saves and loads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", default="", help="files, commas between; made up by default")
    parser.add_argument("--rows", type=int, default=20_000, help="rows to make up [%(default)s]")
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    keras.utils.set_random_seed(0)

    with tempfile.TemporaryDirectory() as folder:
        files = args.train or str(pathlib.Path(folder) / "clicks.tsv")
        if not args.train:
            sf.data.write_criteo_tsv(files, args.rows, sf.data.Synthetic(scale=0.001, signal=3.0))

        train = sf.data.criteo(files, args.batch_size, fraction=(0.0, 0.8), shuffle_buffer=100_000)
        test = sf.data.criteo(files, args.batch_size, fraction=(0.8, 1.0))

        # The table has an optimizer of its own; the one given to compile() trains the dense layers.
        model = models.DeepFM(
            num_numeric=13,
            num_categorical=26,
            dim=8,
            hidden_units=(64, 32),
            embedding_optimizer=sf.optimizers.Adagrad(learning_rate=0.05),
        )
        model.compile(keras.optimizers.Adam(0.002), keras.losses.BinaryCrossentropy())
        model.fit(train, epochs=args.epochs, callbacks=[callbacks.HeldOut(test), callbacks.TableFigures()], verbose=2)

        # The rows of the table are in the file, too.
        path = pathlib.Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        print(f"held-out AUC {callbacks.evaluate_exactly(loaded, test)['auc']:.4f}, {len(loaded.table):,} rows")


if __name__ == "__main__":
    main()
