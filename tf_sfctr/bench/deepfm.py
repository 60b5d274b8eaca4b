# SPDX-License-Identifier: Apache-2.0
"""A training step of DeepFM, against the same model with its embeddings given for free."""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_sfctr import layers, optimizers
from tf_sfctr.bench import _tables, _trace
from tf_sfctr.bench._report import OURS, Report

_LEARNING_RATE = 0.01
_FREE = "embeddings for free"
_KERAS_STEPS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    _trace.add_trace_arguments(parser)
    parser.set_defaults(rows="1000000,10000000,33762577,100000000")
    for action in parser._actions:
        if action.dest == "rows":
            action.type = None
            action.help = "comma-separated sizes of the table: the step is to be the same at all [%(default)s]"
    parser.add_argument("--hidden", default="400,400,400", help="widths of the MLP [%(default)s]")
    parser.add_argument("--baseline_rows", type=int, default=_trace.CRITEO_ROWS, help="rows of the Keras baselines")
    parser.add_argument(
        "--baselines",
        default="keras,tf_keras",
        help="comma-separated: keras (Keras 3), tf_keras (legacy, where installed) [%(default)s]",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the benchmark."""
    _tables.set_threads(args.threads)
    report = Report("deepfm", json=args.json)
    hidden = [int(width) for width in args.hidden.split(",")]
    label = tf.cast(tf.random.uniform((args.batch_size, 1), seed=0) < 0.25, tf.float32)
    sizes = [int(rows) for rows in str(args.rows).split(",")]
    free = _free_step(args, hidden, label)
    free_batches = _free_batches(args)
    ratios: dict[str, float] = {}
    medians: dict[int, float] = {}
    overheads: dict[int, float] = {}
    for rows in sizes:
        columns = _trace.table_sizes(rows)
        batches = _batches(args, columns)
        step = _our_step(args, hidden, label, int(columns.sum()))
        times = _tables.time_in_turns({OURS: step, _FREE: free}, {OURS: batches, _FREE: free_batches}, args.steps, 8)
        axes = {**_trace.axes(args), "rows": rows}
        medians[rows] = report.add(OURS, axes, [1e3 * s for s in times[OURS]], "ms")
        floor = report.add(_FREE, axes, [1e3 * s for s in times[_FREE]], "ms")
        overheads[rows] = round(medians[rows] / floor, 3)
        ratios[f"{_FREE} rows={rows}"] = round(floor / medians[rows], 3)
        del step
        gc.collect()

    columns = _trace.table_sizes(args.baseline_rows)
    for name in args.baselines.split(",") if args.baselines else []:
        if importlib.util.find_spec(name) is None:
            continue
        step = _keras_step(name, args, hidden, label, int(columns.sum()))
        steps = _KERAS_STEPS if name == "keras" else max(4, args.steps // 4)
        seconds = _tables.time_in_turns({name: step}, {name: _batches(args, columns)}, steps, rounds=1)[name]
        axes = {**_trace.axes(args), "rows": args.baseline_rows}
        base = report.add(name, axes, [1e3 * s for s in seconds], "ms")
        nearest = min(medians, key=lambda rows: abs(rows - args.baseline_rows))
        ratios[name] = round(base / medians[nearest], 3)
        del step
        gc.collect()
    report.summary(
        ratios,
        step_over_free={str(rows): value for rows, value in overheads.items()},
        slowest_over_fastest_rows=round(max(medians.values()) / min(medians.values()), 3),
    )
    return 0


def _dense_part(ops: Any, layers_module: Any, embeddings: Any, wide: Any, hidden: Sequence[int]) -> Any:
    """Everything of DeepFM but its tables, from embeddings [B, F, dim] and first-order weights [B, F, 1]."""
    total = ops.sum(embeddings, 1)
    pairs = 0.5 * ops.sum(total * total - ops.sum(embeddings * embeddings, 1), -1, keepdims=True)
    deep = layers_module.Flatten()(embeddings)
    for width in hidden:
        deep = layers_module.Dense(width, "relu")(deep)
    return layers_module.Activation("sigmoid")(layers_module.Dense(1)(deep) + pairs + ops.sum(wide, 1))


def _batches(args: argparse.Namespace, columns: np.ndarray[Any, Any]) -> list[tf.Tensor]:
    keys = _trace.ids(columns, args.batch_size, 16, args.skew) + _trace.offsets(columns)
    return [tf.constant(batch) for batch in keys]


def _free_batches(args: argparse.Namespace) -> list[Any]:
    shape = (args.batch_size, _trace.NUM_FEATURES)
    return [
        [tf.random.normal((*shape, args.dim), stddev=0.01), tf.random.normal((*shape, 1), stddev=0.01)]
        for _ in range(8)
    ]


def _train(model: Any, label: tf.Tensor, inputs_too: bool) -> Callable[[Any], None]:
    @tf.function
    def step(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            if inputs_too:
                tape.watch(inputs)
            loss = tf.reduce_mean(keras.losses.binary_crossentropy(label, model(inputs, training=True)))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [*variables, *inputs] if inputs_too else variables)
        model.optimizer.apply_gradients(zip(gradients[: len(variables)], variables, strict=True))
        return loss, gradients[len(variables) :]

    def wait(inputs: Any) -> None:
        step(inputs)[0].numpy()

    return wait


def _free_step(args: argparse.Namespace, hidden: Sequence[int], label: tf.Tensor) -> Callable[[Any], None]:
    embeddings = keras.Input((_trace.NUM_FEATURES, args.dim))
    wide = keras.Input((_trace.NUM_FEATURES, 1))
    model = keras.Model([embeddings, wide], _dense_part(keras.ops, keras.layers, embeddings, wide, hidden))
    model.compile(keras.optimizers.Adagrad(_LEARNING_RATE), "binary_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return _train(model, label, inputs_too=True)


def _our_step(args: argparse.Namespace, hidden: Sequence[int], label: tf.Tensor, rows: int) -> Callable[[Any], None]:
    ids = keras.Input((_trace.NUM_FEATURES,), dtype="int64")
    embedding = layers.CachedEmbedding([1, args.dim], rows, optimizer=optimizers.Adagrad(_LEARNING_RATE), seed=0)
    _tables.fill(embedding.table, rows, hashed=False)
    wide, embeddings = embedding(ids)
    model = keras.Model(ids, _dense_part(keras.ops, keras.layers, embeddings, wide, hidden))
    model.compile(keras.optimizers.Adagrad(_LEARNING_RATE), "binary_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return _train(model, label, inputs_too=False)


def _keras_step(
    module: str, args: argparse.Namespace, hidden: Sequence[int], label: tf.Tensor, rows: int
) -> Callable[[Any], None]:
    k = importlib.import_module(module)
    # Legacy Keras has no keras.ops; TensorFlow's functions work on its tensors.
    sums: Any = keras.ops if module == "keras" else _TensorFlowOps
    ids = k.Input((_trace.NUM_FEATURES,), dtype="int64")
    constant = k.initializers.Constant(0.01)
    embeddings = k.layers.Embedding(rows, args.dim, embeddings_initializer=constant)(ids)
    wide = k.layers.Embedding(rows, 1, embeddings_initializer=constant)(ids)
    model = k.Model(ids, _dense_part(sums, k.layers, embeddings, wide, hidden))
    model.compile(k.optimizers.Adagrad(_LEARNING_RATE), "binary_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return _train(model, label, inputs_too=False)


class _TensorFlowOps:
    @staticmethod
    def sum(x: Any, axis: int, keepdims: bool = False) -> Any:
        return tf.reduce_sum(x, axis, keepdims)
