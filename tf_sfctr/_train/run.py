# SPDX-License-Identifier: Apache-2.0
"""Training as the settings say."""

from __future__ import annotations

import json
import math
import os
import pathlib
import sys
import time
import warnings
from typing import Any

import keras
import tensorflow as tf

from tf_sfctr import callbacks, data, models, optimizers
from tf_sfctr._train.settings import Settings, UsageError


class SampleCount(keras.metrics.Metric):
    """Counts the rows of an epoch, whose last batch may be short."""

    def __init__(self, name: str = "samples") -> None:
        """See the class."""
        super().__init__(name=name, dtype="int64")
        self.count = self.add_variable((), "zeros", dtype="int64", name="count")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds the rows of a batch."""
        del y_pred, sample_weight
        self.count.assign_add(tf.shape(y_true, tf.int64)[0])

    def result(self) -> Any:
        """Rows since the last reset."""
        return self.count


class Clock(keras.callbacks.Callback):
    """Times the training steps, without those that trace the graph, and without what happens between epochs."""

    def __init__(self, batch_size: int) -> None:
        """See the class."""
        super().__init__()
        self.batch_size = batch_size
        self.steps = self.samples = 0
        self.seconds = 0.0
        self._begin = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Starts the clock."""
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Starts it anew after the very first step, which traces."""
        self.steps += 1
        if self.steps == 1:
            self._first_seconds = time.perf_counter() - self._begin
            self._begin = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Stops the clock."""
        self.seconds += time.perf_counter() - self._begin
        self.samples += int((logs or {})["samples"])

    def samples_per_s(self) -> float:
        """Rows a second; of the only step, if there was no other."""
        if self.steps == 1:
            return self.samples / self._first_seconds
        return max(0, self.samples - min(self.batch_size, self.samples // self.steps)) / self.seconds


def run(settings: Settings) -> dict[str, Any]:
    """Trains, measures and saves.

    Returns:
      What the command prints as JSON.

    Raises:
      UsageError: a file or column that is not there.
    """
    keras.utils.set_random_seed(settings.seed)
    output = _output_folder(settings.output)
    skipped = data.SkippedLines()
    train, test = _datasets(settings, skipped)
    model = _model(settings, train.element_spec[0])
    model.compile(_dense_optimizer(settings), keras.losses.BinaryCrossentropy(), metrics=[SampleCount()])

    clock = Clock(settings.batch_size)
    held_out = callbacks.HeldOut(test) if test is not None else None
    watchers: list[Any] = [clock, *([held_out] if held_out else []), callbacks.TableFigures()]
    if output:
        watchers.append(keras.callbacks.TensorBoard(str(output / "logs"), write_graph=False))
    with warnings.catch_warnings():
        # The readers do not know how many batches there are, which Keras warns of after the first epoch.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        verbose = "auto" if sys.stderr.isatty() else 2
        model.fit(train, epochs=settings.epochs, callbacks=watchers, verbose=verbose, shuffle=False)
    if clock.steps == 0:
        raise UsageError(f"--train must hold rows; got none in {','.join(settings.train)}")

    measured = held_out.result if held_out else {}
    rows, table_bytes = callbacks.table_figures(model)
    result = {
        "model": settings.model,
        "auc": _finite(measured.get("auc")),
        "log_loss": _finite(measured.get("log_loss")),
        "eval_samples": int(measured.get("samples", 0)),
        "samples": clock.samples,
        "samples_per_s": round(clock.samples_per_s(), 1),
        "steps": clock.steps,
        "rows": rows,
        "table_bytes": table_bytes,
        "skipped_lines": skipped.count // settings.epochs,
        "seed": settings.seed,
    }
    if output:
        # Loading the model is not to need what only this command has.
        model.compile(model.optimizer, keras.losses.BinaryCrossentropy(), metrics=[keras.metrics.AUC(name="auc")])
        model.save(output / "model.keras")
        (output / "metrics.json").write_text(json.dumps(result) + "\n")
    return result


def _finite(value: float | None) -> float | None:
    """Six digits; None where there is no figure, since JSON knows no NaN."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def _output_folder(name: str) -> pathlib.Path | None:
    if not name:
        return None
    folder = pathlib.Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output must be a folder; got {name!r}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output must be a folder that can be written; got {name!r}")
    return folder


def _datasets(settings: Settings, skipped: data.SkippedLines) -> tuple[tf.data.Dataset, tf.data.Dataset | None]:
    reader = getattr(data, settings.format)
    share = settings.eval_fraction if not settings.eval else 0.0
    common: dict[str, Any] = {"on_error": settings.on_error, "skipped": skipped, **settings.reader}
    shuffle: dict[str, Any] = {"shuffle_buffer": settings.shuffle_buffer, "seed": settings.seed}

    def read(files: list[str], **options: Any) -> tf.data.Dataset:
        try:
            return reader(files, settings.batch_size, **common, **options)
        except (ImportError, OSError, ValueError, TypeError) as error:
            raise UsageError(str(error)) from error

    if share:
        shuffle["fraction"] = (0.0, 1.0 - share)
    train = read(settings.train, **shuffle)
    if settings.eval:
        test = read(settings.eval)
        if test.element_spec != train.element_spec:
            raise UsageError("--eval must have the columns of --train; got others. Name them with --categorical")
        return train, test
    return train, read(settings.train, fraction=(1.0 - share, 1.0)) if share else None


def _model(settings: Settings, features: dict[str, tf.TensorSpec]) -> keras.Model:
    if "categorical" not in features:
        raise UsageError("--categorical must name a column; got none. Or let numbers become ids with --bucketize")
    table = optimizers.get(
        {
            "kind": settings.embedding_optimizer,
            "learning_rate": settings.embedding_learning_rate,
            "l2": settings.l2,
        }
    )
    common: dict[str, Any] = {
        "num_numeric": features["numeric"].shape[1] if "numeric" in features else 0,
        "num_categorical": features["categorical"].shape[1],
        "dim": settings.dim,
        "hidden_units": settings.hidden,
        "dropout": settings.dropout,
        "embeddings_initializer": keras.initializers.RandomNormal(stddev=0.01),
        "seed": settings.seed,
    }
    if settings.model == "deepfm":
        return models.DeepFM(embedding_optimizer=table, **common)
    wide = optimizers.Ftrl(settings.wide_learning_rate, l1_regularization_strength=settings.wide_l1)
    return models.WideDeep(wide_optimizer=wide, deep_optimizer=table, crosses=_crosses(settings), **common)


def _crosses(settings: Settings) -> list[tuple[int, int]]:
    """Positions of the columns of each cross."""
    if not settings.crosses:
        return []
    names, numeric = settings.categorical, settings.numeric or []
    if settings.format == "criteo":
        names, numeric = [f"C{i}" for i in range(1, 27)], [f"I{i}" for i in range(1, 14)]
    if not names:
        raise UsageError("--crosses must go with --categorical, whose order counts; got none. Name the columns")
    names = [*names, *(numeric if settings.bucketize else [])]
    for pair in settings.crosses:
        for name in pair:
            if name not in names:
                raise UsageError(
                    f"--crosses must name categorical columns; got {name!r}. There are: {', '.join(names)}"
                )
    return [(names.index(a), names.index(b)) for a, b in settings.crosses]


def _dense_optimizer(settings: Settings) -> keras.optimizers.Optimizer:
    kinds = {"adam": keras.optimizers.AdamW, "adagrad": keras.optimizers.Adagrad, "sgd": keras.optimizers.SGD}
    decay = settings.weight_decay or None
    if settings.optimizer == "adam" and decay is None:
        return keras.optimizers.Adam(settings.learning_rate)
    return kinds[settings.optimizer](settings.learning_rate, weight_decay=decay)
