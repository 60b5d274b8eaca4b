# SPDX-License-Identifier: Apache-2.0
"""Training equals plain Keras: the same initial rows, the same ids with many duplicates, 200 steps.

Tolerance: 1e-5 relative to the largest weight of the row's table. The formulas are the same; what differs is the order
in which duplicate gradients are summed (Keras: unsorted_segment_sum or a dense scatter) and Keras's use of fused
multiply-add, each a rounding of 6e-8 per operation.

Keras 3 on TensorFlow squares the gradient of every *use* of an id in Adagrad, Adam and FTRL (`ops.square` of
`IndexedSlices` with duplicates), where the algorithms, Keras on JAX, and this project square their sum. So the oracle
is Keras's layer and Keras's optimizer with the gradient summed per row in between; batches without duplicates are
compared with Keras untouched.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_sfctr as sf

VOCABULARY, DIM, STEPS, BATCH = 50, 6, 200, 32
TOLERANCE = 1e-5

# Keras's Adam and FTRL move rows that a step does not touch, so these see every row in each step.
EVERY_ROW = "every row"
CASES = {
    "sgd": (sf.optimizers.SGD(0.1), keras.optimizers.SGD(0.1), ""),
    "adagrad": (sf.optimizers.Adagrad(0.1), keras.optimizers.Adagrad(0.1), ""),
    "adagrad_epsilon": (
        sf.optimizers.Adagrad(0.1, initial_accumulator_value=0.0, epsilon=1e-3),
        keras.optimizers.Adagrad(0.1, initial_accumulator_value=0.0, epsilon=1e-3),
        "",
    ),
    "momentum": (sf.optimizers.SGD(0.05, momentum=0.9), keras.optimizers.SGD(0.05, momentum=0.9), EVERY_ROW),
    "nesterov": (
        sf.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        EVERY_ROW,
    ),
    "adam": (sf.optimizers.Adam(0.01), keras.optimizers.Adam(0.01), EVERY_ROW),
    "adam_catch_up": (sf.optimizers.Adam(0.01, catch_up=True), keras.optimizers.Adam(0.01), "catch up"),
    "ftrl": (
        sf.optimizers.Ftrl(0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01, beta=0.1),
        keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01, beta=0.1),
        EVERY_ROW,
    ),
    "ftrl_power": (
        sf.optimizers.Ftrl(0.1, learning_rate_power=-0.7, l2_shrinkage_regularization_strength=0.01),
        keras.optimizers.Ftrl(0.1, learning_rate_power=-0.7, l2_shrinkage_regularization_strength=0.01),
        EVERY_ROW,
    ),
}


def batches(every_row, duplicates=True, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(STEPS):
        # A power law: most ids of a batch are duplicates.
        ids = np.minimum(rng.zipf(1.3, (BATCH, 4)) - 1, VOCABULARY - 1)
        if not duplicates:
            ids = rng.permutation(VOCABULARY)[:48].reshape(-1, 4)
        if every_row:
            ids = np.concatenate([ids.reshape(-1), np.arange(VOCABULARY), np.arange(VOCABULARY)])
            ids = np.resize(ids, (len(ids) // 4, 4))
        target = rng.normal(size=(len(ids), 1)).astype(np.float32)
        yield ids, target


class SummedGradients(keras.Model):
    """Plain Keras, but an optimizer that squares gradients sees them summed per row."""

    def train_step(self, data):
        inputs, target = data[:2]
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=target, y_pred=self(inputs, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply([tf.convert_to_tensor(g) for g in gradients], self.trainable_variables)
        return {"loss": loss}


def build(embedding, model=keras.Model):
    inputs = keras.Input((4,), dtype="int64")
    # Fixed weights, so that the gradients of an id's uses differ.
    mix = keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(0, 0.5, seed=1), trainable=False)
    return model(inputs, mix(keras.layers.Flatten()(keras.layers.Activation("tanh")(embedding(inputs)))))


def loss_of(logs):
    return float(logs["loss"])


def rows_of(table):
    ids = np.concatenate([ids for ids, _ in table.export()])
    rows = np.concatenate([rows for _, rows in table.export()])
    return rows[np.argsort(ids)]


@pytest.mark.parametrize("input_dim", [VOCABULARY, None], ids=["vocabulary", "any_id"])
@pytest.mark.parametrize("case", CASES)
def test_200_steps_equal_keras(case, input_dim):
    ours_optimizer, keras_optimizer, rows_seen = CASES[case]
    compare(ours_optimizer, keras_optimizer, input_dim, SummedGradients, batches(rows_seen == EVERY_ROW))


@pytest.mark.parametrize("case", ["sgd", "adagrad"])
def test_200_steps_without_duplicates_equal_untouched_keras(case):
    compare(*CASES[case][:2], None, keras.Model, batches(False, duplicates=False))


def compare(ours_optimizer, keras_optimizer, input_dim, keras_model, data):
    # Of its own: a Keras optimizer keeps the variables it was built with.
    keras_optimizer = type(keras_optimizer).from_config(keras_optimizer.get_config())
    initial = np.random.default_rng(7).normal(size=(VOCABULARY, DIM)).astype(np.float32)
    ours = sf.layers.CachedEmbedding(DIM, input_dim, optimizer=ours_optimizer)
    ours.table.assign(np.arange(VOCABULARY), initial)
    theirs = keras.layers.Embedding(VOCABULARY, DIM)
    our_model, their_model = build(ours), build(theirs, keras_model)
    theirs.embeddings.assign(initial)
    our_model.compile(keras.optimizers.SGD(0.0), "mse")
    their_model.compile(keras_optimizer, "mse", jit_compile=False)
    losses = []
    for ids, target in data:
        losses.append(
            (
                loss_of(our_model.train_on_batch(ids, target, return_dict=True)),
                loss_of(their_model.train_on_batch(ids, target, return_dict=True)),
            )
        )
    # Both equal and learning: not two models that stand still.
    weights = np.asarray(theirs.embeddings)
    assert np.abs(weights - initial).max() > 0.05
    losses_of = np.array(losses)
    np.testing.assert_allclose(losses_of[:, 0], losses_of[:, 1], rtol=TOLERANCE)
    ours_now = ours.table.read(np.arange(VOCABULARY)).numpy()
    np.testing.assert_allclose(ours_now, weights, rtol=TOLERANCE, atol=TOLERANCE * np.abs(weights).max())
    np.testing.assert_array_equal(rows_of(ours.table), ours_now)


def test_results_do_not_depend_on_the_form_of_the_table():
    tables = []
    for input_dim in (VOCABULARY, None):
        layer = sf.layers.CachedEmbedding(DIM, input_dim, seed=3)
        model = build(layer)
        model.compile(keras.optimizers.SGD(0.0), "mse")
        for ids, target in batches(False):
            model.train_on_batch(ids, target)
        tables.append(layer.table.read(np.arange(VOCABULARY)).numpy())
    np.testing.assert_array_equal(*tables)


def test_l2_and_clipping_equal_keras():
    initial = np.random.default_rng(7).normal(size=(VOCABULARY, DIM)).astype(np.float32)
    ours = sf.layers.CachedEmbedding(DIM, VOCABULARY, optimizer=sf.optimizers.SGD(0.1, l2=0.01, clipvalue=0.02))
    ours.table.assign(np.arange(VOCABULARY), initial)
    theirs = keras.layers.Embedding(VOCABULARY, DIM, embeddings_regularizer=keras.regularizers.L2(0.01))
    our_model, their_model = build(ours), build(theirs)
    theirs.embeddings.assign(initial)
    our_model.compile(keras.optimizers.SGD(0.0), "mse")
    their_model.compile(keras.optimizers.SGD(0.1, clipvalue=0.02), "mse", jit_compile=False)
    for ids, target in batches(True):
        our_model.train_on_batch(ids, target)
        their_model.train_on_batch(ids, target)
    weights = np.asarray(theirs.embeddings)
    np.testing.assert_allclose(ours.table.read(np.arange(VOCABULARY)), weights, rtol=TOLERANCE, atol=TOLERANCE)


def test_clipnorm_is_per_row():
    table = sf.EmbeddingTable(2, 10, optimizer=sf.optimizers.SGD(1.0, clipnorm=1.0), embeddings_initializer="zeros")
    anchor = tf.Variable(0.0)
    with tf.GradientTape() as tape:
        ids = tf.constant([1, 2], tf.int64)
        values = sf.ops.lookup([sf.ops.Use(table, ids, "f")], tf.convert_to_tensor(anchor), True)[0][0]
    tape.gradient(values, anchor, output_gradients=tf.constant([[3.0, 4.0], [0.3, 0.4]]))
    np.testing.assert_allclose(table.read([1, 2]), [[-0.6, -0.8], [-0.3, -0.4]], rtol=1e-6)
