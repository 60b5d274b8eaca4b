# SPDX-License-Identifier: Apache-2.0
"""Lookup, gradient and update of embedding tables, without a model around them."""

from __future__ import annotations

import argparse
import gc
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tf_sfctr import ops, optimizers
from tf_sfctr.bench import _tables, _trace
from tf_sfctr.bench._report import OURS, Report
from tf_sfctr.data import hash_ids
from tf_sfctr.table import EmbeddingTable

_LEARNING_RATE = 0.01
_EPSILON = 1e-7
# Keras touches the whole table in a step, seconds at Criteo's size: a few steps show it.
_KERAS_STEPS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    _trace.add_trace_arguments(parser)
    parser.add_argument(
        "--baselines",
        default="tensorflow,keras,tf_keras",
        help="comma-separated: tensorflow (gather, unique, segment sum, sparse Adagrad op), keras (Keras 3 Embedding), "
        "tf_keras (legacy Embedding, where installed) [%(default)s]",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the benchmark."""
    _tables.set_threads(args.threads)
    report = Report("embedding", json=args.json)
    axes = _trace.axes(args)
    sizes = _trace.table_sizes(args.rows)
    rows = int(sizes.sum())
    keys = _trace.ids(sizes, args.batch_size, min(args.steps, 30), args.skew) + _trace.offsets(sizes)
    vocabulary = [tf.constant(batch) for batch in keys]
    hashed = [hash_ids(batch, "bench") for batch in vocabulary]
    gradient = tf.random.normal((args.batch_size, _trace.NUM_FEATURES, args.dim), stddev=0.01, seed=0)
    amount = keys[0].size
    baselines = args.baselines.split(",") if args.baselines else []

    medians: dict[str, float] = {}

    def add(variant: str, ids: str, seconds: list[float]) -> None:
        extra = {"gigabytes_per_s": round(_bytes(keys[0], args.dim) / float(np.median(seconds)) / 1e9, 3)}
        name = f"{variant}/{ids}"
        medians[name] = report.add(variant, {**axes, "ids": ids}, _tables.rates(amount, seconds), "ids/s", **extra)

    # In pairs, so that two tables of Criteo's size are in memory at once and not all of them.
    ours = make_step(rows, args.dim, gradient, hashed=False)
    variants = {OURS: ours}
    batches = {OURS: vocabulary}
    if "tensorflow" in baselines:
        variants["tensorflow"] = _tensorflow(rows, args.dim, gradient)
        batches["tensorflow"] = vocabulary
    variants["hashed"] = make_step(rows, args.dim, gradient, hashed=True)
    batches["hashed"] = hashed
    times = _tables.time_in_turns(variants, batches, args.steps)
    add(OURS, "vocabulary", times[OURS])
    add(OURS, "hashed", times["hashed"])
    if "tensorflow" in times:
        add("tensorflow", "vocabulary", times["tensorflow"])
    del ours, variants
    for name, module in (("keras", "keras"), ("tf_keras", "tf_keras")):
        if name not in baselines or importlib.util.find_spec(module) is None:
            continue
        gc.collect()
        step = _keras(module, rows, args.dim, gradient)
        steps = _KERAS_STEPS if name == "keras" else args.steps
        add(name, "vocabulary", _tables.time_in_turns({name: step}, {name: vocabulary}, steps, rounds=1)[name])
        del step

    ratios = {}
    for name in ("tensorflow", "keras", "tf_keras"):
        if f"{name}/vocabulary" in medians:
            base = medians[f"{name}/vocabulary"]
            ratios[name] = round(medians[f"{OURS}/vocabulary"] / base, 3)
            ratios[f"{name} (ours with hashed ids)"] = round(medians[f"{OURS}/hashed"] / base, 3)
    report.summary(ratios)
    return 0


def _bytes(keys: np.ndarray[Any, Any], dim: int) -> int:
    """Bytes that any implementation moves: ids, outputs and gradients once, touched rows read, read and written."""
    return keys.size * (8 + 2 * 4 * dim) + len(np.unique(keys)) * 4 * dim * (1 + 2 * 2)


def make_step(rows: int, dim: int, gradient: tf.Tensor, hashed: bool, row_wise: bool = False) -> Callable[[Any], Any]:
    """Our lookup, gradient and Adagrad on a full table, as a function of one batch of ids that waits for the end."""
    adagrad = optimizers.RowWiseAdagrad if row_wise else optimizers.Adagrad
    table = EmbeddingTable(
        dim,
        None if hashed else rows,
        optimizer=adagrad(_LEARNING_RATE, epsilon=_EPSILON),
        name="bench",
        seed=0,
    )
    _tables.fill(table, rows, hashed)
    anchor = tf.Variable(0.0)

    @tf.function
    def step(ids: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            values = ops.lookup([ops.Use(table, ids, "bench")], tf.convert_to_tensor(anchor), training=True)[0][0]
        return values, tape.gradient(values, anchor, output_gradients=gradient)

    def wait(ids: tf.Tensor) -> None:
        step(ids)[1].numpy()

    return wait


def _tensorflow(rows: int, dim: int, gradient: tf.Tensor) -> Callable[[Any], Any]:
    """The fastest way in TensorFlow's own ops that we know."""
    table = tf.Variable(tf.fill((rows, dim), 0.01))
    accumulator = tf.Variable(tf.fill((rows, dim), 0.1))
    flat_gradient = tf.reshape(gradient, [-1, dim])

    @tf.function
    def step(ids: tf.Tensor) -> Any:
        values = tf.gather(table, ids)
        with tf.control_dependencies([values]):
            unique_ids, inverse = tf.unique(tf.reshape(ids, [-1]))
            summed = tf.math.unsorted_segment_sum(flat_gradient, inverse, tf.shape(unique_ids)[0])
            tf.raw_ops.ResourceSparseApplyAdagradV2(
                var=table.handle,
                accum=accumulator.handle,
                lr=_LEARNING_RATE,
                epsilon=_EPSILON,
                grad=summed,
                indices=unique_ids,
            )
        return values

    def wait(ids: tf.Tensor) -> None:
        values = step(ids)
        values[0, 0, 0].numpy()

    return wait


def _keras(module: str, rows: int, dim: int, gradient: tf.Tensor) -> Callable[[Any], Any]:
    keras = importlib.import_module(module)
    layer = keras.layers.Embedding(rows, dim, embeddings_initializer=keras.initializers.Constant(0.01))
    layer.build(None)
    optimizer = keras.optimizers.Adagrad(_LEARNING_RATE)
    optimizer.build(layer.trainable_variables)

    @tf.function
    def step(ids: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            values = layer(ids)
        gradients = tape.gradient(values, layer.trainable_variables, output_gradients=gradient)
        optimizer.apply_gradients(zip(gradients, layer.trainable_variables, strict=True))
        return values

    def wait(ids: tf.Tensor) -> None:
        values = step(ids)
        values[0, 0, 0].numpy()

    return wait
