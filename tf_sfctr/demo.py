# SPDX-License-Identifier: Apache-2.0
"""`python -m tf_sfctr.demo`: about a minute of DeepFM on made-up data, with a report."""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence

import keras

from tf_sfctr import callbacks, data, models, optimizers
from tf_sfctr._train.run import Clock, SampleCount

# The tables of Criteo's Kaggle data set, made smaller so that a minute of data can fill them.
_SOURCE = data.Synthetic(seed=7, scale=0.001, signal=2.0, interaction=0.2)
_EVAL_SHARE = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tf_sfctr.demo", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_200_000, help="rows of data [%(default)s]")
    parser.add_argument("--batch_size", type=int, default=2048, help="rows in a step [%(default)s]")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the data [%(default)s]")
    parser.add_argument("--hidden", default="400,400,400", help="widths of the perceptron's layers [%(default)s]")
    args = parser.parse_args(arguments)
    if args.rows < 100 or args.batch_size < 1 or args.epochs < 1:
        parser.error("--rows must be at least 100, --batch_size and --epochs at least 1")
    with tempfile.TemporaryDirectory(prefix="tf_sfctr_demo_") as folder:
        _run(args, pathlib.Path(folder) / "clicks.tsv")
    return 0


def _run(args: argparse.Namespace, path: pathlib.Path) -> None:
    keras.utils.set_random_seed(0)
    begin = time.perf_counter()
    data.write_criteo_tsv(path, args.rows, _SOURCE)
    size = path.stat().st_size / 2**20
    seconds = time.perf_counter() - begin
    print(f"Data: {args.rows:,} rows in Criteo's format, {size:.0f} MiB, made in {seconds:.0f} s.", flush=True)

    train = data.criteo(path, args.batch_size, fraction=(0, 1 - _EVAL_SHARE), shuffle_buffer=100_000, seed=0)
    test = data.criteo(path, args.batch_size, fraction=(1 - _EVAL_SHARE, 1))
    model = models.DeepFM(
        dim=8,
        hidden_units=[int(width) for width in args.hidden.split(",")],
        embedding_optimizer=optimizers.Adagrad(0.05),
        embeddings_initializer=keras.initializers.RandomNormal(stddev=0.01),
    )
    model.compile(keras.optimizers.Adam(0.001), keras.losses.BinaryCrossentropy(), metrics=[SampleCount()])
    clock = Clock(args.batch_size)
    print("Training DeepFM, with its embeddings in a table in host memory ...", flush=True)
    with warnings.catch_warnings():
        # The readers do not know how many batches there are, which Keras warns of.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        model.fit(train, epochs=args.epochs, callbacks=[clock], verbose=0, shuffle=False)

    measured = callbacks.evaluate_exactly(model, test)
    num_test = int(measured["samples"])
    ceiling = _SOURCE.teacher_auc(num_test, skip_rows=args.rows - num_test)
    rows, table_bytes = callbacks.table_figures(model)
    seconds = time.perf_counter() - begin
    print(f"Measured on the last {num_test:,} rows, which it has not seen; {seconds:.0f} s in all.")
    print("The labels are drawn from a known model, whose own AUC is the most that any model can reach.")
    print()
    print(f"AUC         {measured['auc']:.4f}  (ceiling {ceiling:.4f}, log loss {measured['log_loss']:.4f})")
    print(f"samples/s   {clock.samples_per_s():,.0f}  ({clock.steps} steps of {args.batch_size} rows)")
    print(f"table size  {rows:,} rows, {table_bytes / 2**20:.1f} MiB  ({table_bytes / rows:.0f} bytes a row)")


if __name__ == "__main__":
    sys.exit(main())
