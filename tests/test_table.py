# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingTable`: size, export, import, learning rates, settings."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_sfctr as sf


def update(table, ids, gradient=1.0):
    anchor = tf.Variable(0.0)
    ids = tf.constant(ids, tf.int64)
    with tf.GradientTape() as tape:
        values = sf.ops.lookup([sf.ops.Use(table, ids, "f")], tf.convert_to_tensor(anchor), training=True)[0][0]
    tape.gradient(values, anchor, output_gradients=tf.fill(values.shape, gradient))


@pytest.mark.parametrize("input_dim", [None, 1000])
@pytest.mark.parametrize("max_rows", [1, 7, 1000])
def test_export_yields_every_row_once(input_dim, max_rows):
    table = sf.EmbeddingTable(3, input_dim, seed=1)
    ids = np.random.default_rng(0).permutation(1000)[:40]
    rows = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    table.assign(ids, rows)
    parts = list(table.export(max_rows=max_rows))
    exported = np.concatenate([part[0] for part in parts])
    order = np.arange(40) if input_dim is None else np.argsort(ids)
    np.testing.assert_array_equal(exported, ids[order])
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), rows[order])


def test_an_empty_table_exports_nothing():
    ids, rows = next(sf.EmbeddingTable(3).export())
    assert ids.shape == (0,)
    assert rows.shape == (0, 3)


def test_whole_rows_move_between_tables():
    tables = [sf.EmbeddingTable(2, optimizer=sf.optimizers.Adam(0.1), seed=1) for _ in range(2)]
    for _ in range(3):
        update(tables[0], [5, -6])
    for ids, rows in tables[0].export(whole_rows=True):
        tables[1].assign(ids, rows)
    tables[1].set_step(tables[0].stats().step)
    for table in tables:
        update(table, [5, 8])
    np.testing.assert_array_equal(tables[0].read([5, -6, 8]), tables[1].read([5, -6, 8]))


def test_stats_count_bytes():
    table = sf.EmbeddingTable(16, optimizer=sf.optimizers.Adagrad())
    table.assign(np.arange(10_000), np.zeros((10_000, 16)))
    stats = table.stats()
    assert (stats.num_rows, stats.step) == (10_000, 0)
    assert stats.row_bytes == 10_000 * (8 + 2 * 4 * 16)
    assert 0 < stats.index_bytes < 10_000 * 20


def test_learning_rate_is_a_variable_that_a_callback_may_change():
    table = sf.EmbeddingTable(1, optimizer=sf.optimizers.SGD(1.0), embeddings_initializer="zeros")
    update(table, [1])
    table.learning_rate = 0.5
    update(table, [1])
    np.testing.assert_array_equal(table.read([1]), [[-1.5]])


def test_learning_rate_of_the_dense_optimizer_can_be_shared():
    dense = keras.optimizers.SGD(1.0)
    table = sf.EmbeddingTable(1, optimizer=sf.optimizers.SGD(dense.learning_rate), embeddings_initializer="zeros")
    update(table, [1])
    dense.learning_rate = 0.25
    update(table, [1])
    np.testing.assert_array_equal(table.read([1]), [[-1.25]])


def test_schedule_sees_the_tables_updates():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0, 1], [1.0, 0.1, 0.01])
    table = sf.EmbeddingTable(1, optimizer=sf.optimizers.SGD(schedule), embeddings_initializer="zeros")
    for expected in (-1.0, -1.1, -1.11, -1.12):
        update(table, [1])
        np.testing.assert_allclose(table.read([1]), [[expected]], rtol=1e-6)


def test_schedule_does_not_cut_a_step_in_two():
    schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
    table = sf.EmbeddingTable(1, optimizer=sf.optimizers.SGD(schedule), embeddings_initializer="zeros")
    anchor = tf.Variable(0.0)
    ids = tf.constant([1], tf.int64)
    with tf.GradientTape() as tape:
        a = sf.ops.lookup([sf.ops.Use(table, ids, "a")], tf.convert_to_tensor(anchor), training=True)[0][0]
        b = sf.ops.lookup([sf.ops.Use(table, ids, "b")], tf.convert_to_tensor(anchor), training=True)[0][0]
        loss = tf.reduce_sum(a) + tf.reduce_sum(b)
    tape.gradient(loss, anchor)
    assert table.stats().step == 1
    np.testing.assert_array_equal(table.read([1]), [[-2.0]])


def test_a_fixed_schedule_cannot_be_assigned():
    schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
    table = sf.EmbeddingTable(1, optimizer=sf.optimizers.SGD(schedule), name="user")
    with pytest.raises(ValueError, match=r"EmbeddingTable 'user': learning_rate must be a number or a variable"):
        table.learning_rate = 0.1


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "RowWiseAdagrad", "Adam", "Ftrl"])
def test_optimizer_config_round_trip(name):
    optimizer = getattr(sf.optimizers, name)(learning_rate=0.25, l2=0.1, clipnorm=2.0)
    assert sf.optimizers.get(optimizer.get_config()) == optimizer
    assert sf.optimizers.get(optimizer.kind).kind == optimizer.kind


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: sf.optimizers.SGD(-1.0), r"SGD: learning_rate must be at least 0; got -1.0"),
        (lambda: sf.optimizers.SGD(float("nan")), r"SGD: learning_rate must be at least 0; got nan"),
        (lambda: sf.optimizers.SGD(momentum=1.0), r"SGD: momentum must be in \[0, 1\); got 1.0"),
        (lambda: sf.optimizers.Adam(beta_2=1.5), r"Adam: beta_2 must be in \[0, 1\); got 1.5"),
        (lambda: sf.optimizers.Ftrl(0.0), r"Ftrl: learning_rate must be above 0; got 0.0"),
        (lambda: sf.optimizers.Ftrl(l1_regularization_strength=-1.0), r"l1_regularization_strength must be at least 0"),
        (lambda: sf.optimizers.Adagrad(clipnorm=0.0), r"Adagrad: clipnorm must be above 0"),
    ],
)
def test_optimizer_settings_out_of_range(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    ("initializer", "check"),
    [
        ("zeros", lambda x: (x == 0).all()),
        ("ones", lambda x: (x == 1).all()),
        (keras.initializers.Constant(0.25), lambda x: (x == 0.25).all()),
        ("uniform", lambda x: np.abs(x).max() <= 0.05 and abs(x.std() - 0.1 / np.sqrt(12)) < 0.001),
        (keras.initializers.RandomNormal(1.0, 0.5), lambda x: abs(x.mean() - 1) < 0.02 and abs(x.std() - 0.5) < 0.02),
        (keras.initializers.TruncatedNormal(0, 0.5), lambda x: np.abs(x).max() <= 1.0 and abs(x.std() - 0.44) < 0.01),
        # Glorot of a [1000, 8] matrix: the limit is sqrt(6 / 1008).
        ("glorot_uniform", lambda x: 0.075 < np.abs(x).max() <= np.sqrt(6 / 1008)),
        ("he_normal", lambda x: abs(x.std() - np.sqrt(2 / 1000)) < 0.002),
    ],
)
def test_initializers_have_the_moments_of_keras(initializer, check):
    table = sf.EmbeddingTable(8, 1000, embeddings_initializer=initializer, seed=1)
    assert check(table.read(np.arange(1000)).numpy())


def test_table_of_a_hundred_features_is_small():
    # A model may have hundreds of small tables.
    table = sf.EmbeddingTable(8)
    update(table, [1, 2, 3])
    stats = table.stats()
    assert stats.row_bytes + stats.index_bytes < 16_384


def test_a_function_that_trained_a_table_does_not_keep_it_alive():
    # tf.custom_gradient would: TensorFlow keeps its closures for ever.
    handle = handle_of_a_table_trained_by_a_function()
    gc.collect()
    assert handle() is None


def handle_of_a_table_trained_by_a_function():
    table = sf.EmbeddingTable(2)
    anchor = tf.Variable(0.0)

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            values = sf.ops.lookup([sf.ops.Use(table, ids, "f")], tf.convert_to_tensor(anchor), training=True)[0][0]
        return tape.gradient(values, anchor)

    step(tf.constant([1], tf.int64))
    return weakref.ref(table.handle)
