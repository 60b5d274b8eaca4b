# SPDX-License-Identifier: Apache-2.0
"""`CachedEmbedding` stands where `keras.layers.Embedding` stands."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_sfctr as sf

HUGE = 2**63 - 1


def embedding(output_dim=3, **kwargs):
    kwargs.setdefault("optimizer", sf.optimizers.SGD(1.0))
    return sf.layers.CachedEmbedding(output_dim, seed=5, **kwargs)


def vectors(layer, ids):
    """What the layer's table holds, id by id."""
    return np.stack([layer.table.read([i])[0].numpy() for i in np.ravel(ids)]).reshape(*np.shape(ids), -1)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 2), (0,), (0, 3), (2, 0)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_dense_ids_of_any_rank(shape, dtype):
    layer = embedding()
    ids = np.random.default_rng(0).integers(-5, 5, shape).astype(dtype)
    output = layer(ids)
    assert output.shape == (*shape, 3)
    if ids.size:
        np.testing.assert_array_equal(output, vectors(layer, ids))


@pytest.mark.parametrize("ids", [[-1, HUGE, -HUGE - 1, 0]])
def test_any_int64_is_an_id(ids):
    layer = embedding(optimizer=sf.optimizers.SGD(1.0), embeddings_initializer="zeros")
    gradient = tf.constant([[1.0] * 3, [2.0] * 3, [3.0] * 3, [4.0] * 3])
    train(layer, tf.constant(ids, tf.int64), gradient)
    np.testing.assert_array_equal(layer.table.read(ids), -gradient)
    assert len(layer.table) == 4


def train(layer, inputs, gradient, **kwargs):
    with tf.GradientTape() as tape:
        output = layer(inputs, **kwargs)
    return tape.gradient(output, layer.trainable_variables, output_gradients=gradient)


def test_duplicates_are_summed():
    layer = embedding(embeddings_initializer="zeros")
    train(layer, np.array([[7, 7, 8]]), tf.constant([[[1.0, 0, 0], [2.0, 0, 0], [0, 5.0, 0]]]))
    np.testing.assert_array_equal(layer.table.read([7, 8]), [[-3, 0, 0], [0, -5, 0]])


def test_two_calls_in_a_step_are_one_update():
    # Adagrad tells the sum of gradients from two updates.
    layer = embedding(1, optimizer=sf.optimizers.Adagrad(1.0, epsilon=1e-12), embeddings_initializer="zeros")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.array([1, 2]))) + tf.reduce_sum(layer(np.array([2, 2])))
    tape.gradient(loss, layer.trainable_variables)
    np.testing.assert_allclose(layer.table.read([1, 2])[:, 0], [-1 / np.sqrt(1.1), -3 / np.sqrt(9.1)], rtol=1e-6)
    assert layer.table.stats().step == 1


def test_a_forward_pass_without_a_backward_pass_delays_no_update():
    layer = embedding(1, embeddings_initializer="zeros")
    layer(np.array([9]), training=True)
    train(layer, np.array([1]), tf.constant([[1.0]]))
    np.testing.assert_array_equal(layer.table.read([1]), [[-1.0]])
    train(layer, np.array([1]), tf.constant([[1.0]]))
    np.testing.assert_array_equal(layer.table.read([1]), [[-2.0]])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("kind", ["dense", "ragged", "sparse"])
def test_combiners_against_numpy(kind, combiner, weighted):
    layer = embedding(combiner=combiner, padding_id=0)
    bags = [[3, 4, 3], [], [5, 0, 0]] if kind != "dense" else [[3, 4, 3], [0, 0, 0], [5, 0, 0]]
    factors = [[0.5 * (i + 1) for i, _ in enumerate(bag)] for bag in bags]
    expected = []
    for bag, bag_weights in zip(bags, factors, strict=True):
        members = [(vectors(layer, [i])[0], w if weighted else 1.0) for i, w in zip(bag, bag_weights, strict=True) if i]
        total = sum((v * w for v, w in members), np.zeros(3))
        w = np.array([w for _, w in members])
        divisor = {"sum": 1.0, "mean": w.sum(), "sqrtn": np.sqrt((w**2).sum())}[combiner]
        expected.append(total / divisor if len(members) else np.zeros(3))
    ids, weights = tf.ragged.constant(bags, tf.int64), tf.ragged.constant(factors, tf.float32)
    if kind == "dense":
        ids, weights = ids.to_tensor(), weights.to_tensor()
    elif kind == "sparse":
        ids, weights = ids.to_sparse(), weights.to_sparse()
    output = layer(ids, weights=weights if weighted else None)
    np.testing.assert_allclose(output, expected, rtol=1e-6)
    assert np.isfinite(output).all()


def test_gradient_of_a_combiner_is_weighted():
    layer = embedding(1, combiner="mean", embeddings_initializer="zeros")
    ids = tf.ragged.constant([[1, 2], [], [2]], dtype=tf.int64)
    weights = tf.ragged.constant([[1.0, 3.0], [], [5.0]])
    train(layer, ids, tf.constant([[8.0], [100.0], [1.0]]), weights=weights)
    np.testing.assert_allclose(layer.table.read([1, 2])[:, 0], [-2.0, -6.0 - 1.0])


def test_combiner_reduces_the_last_axis_only():
    layer = embedding(combiner="sum")
    ids = np.arange(12).reshape(2, 3, 2)
    np.testing.assert_allclose(layer(ids), vectors(layer, ids).sum(2), rtol=1e-6)


def test_ragged_without_combiner_stays_ragged():
    layer = embedding()
    ids = tf.ragged.constant([[1, 2], [], [3]], dtype=tf.int64)
    output = layer(ids)
    assert isinstance(output, tf.RaggedTensor)
    np.testing.assert_array_equal(output.flat_values, vectors(layer, [1, 2, 3]))
    np.testing.assert_array_equal(output.row_splits, ids.row_splits)


def test_ragged_of_two_ragged_axes_with_combiner():
    layer = embedding(combiner="sum")
    ids = tf.ragged.constant([[[1, 2], []], [[3]]], dtype=tf.int64)
    output = layer(ids)
    np.testing.assert_allclose(output.flat_values, [vectors(layer, [1, 2]).sum(0), [0, 0, 0], vectors(layer, [3])[0]])


def test_padding_reads_as_zeros_and_gets_no_update():
    layer = embedding(padding_id=-1)
    output = layer(np.array([[4, -1]]))
    np.testing.assert_array_equal(output[0, 1], [0, 0, 0])
    train(layer, np.array([[4, -1]]), tf.ones((1, 2, 3)))
    assert [list(ids) for ids, _ in layer.table.export()] == [[4]]


def test_strings_go_through_the_documented_hash():
    layer = embedding()
    ids = sf.data.hash_strings(tf.constant(["a", "b", ""]))
    np.testing.assert_array_equal(layer(tf.constant(["a", "b", ""])), vectors(layer, ids.numpy()))


def test_uint64_goes_through_the_documented_hash():
    layer = embedding()
    values = tf.constant([0, 2**64 - 1], tf.uint64)
    np.testing.assert_array_equal(layer(values), vectors(layer, sf.data.hash_ids(values).numpy()))


@pytest.mark.parametrize(
    ("ids", "padding_id"),
    [(tf.constant([[5, 0]], tf.uint64), 0), (tf.constant([["a", ""]]), ""), (tf.constant([["a", "-"]]), "-")],
)
def test_padding_id_goes_through_the_same_hash_as_ids(ids, padding_id):
    layer = embedding(combiner="mean", padding_id=padding_id)
    np.testing.assert_array_equal(layer(ids)[0], vectors(layer, sf.data.hash_ids(ids[:, 0]).numpy())[0])
    train(layer, ids, tf.ones((1, 3)))
    assert len(layer.table) == 1


def test_a_sparse_batch_without_any_id_is_zeros():
    layer = embedding(combiner="sum")
    empty = tf.SparseTensor(np.zeros((0, 2), np.int64), np.zeros((0,), np.int64), [3, 5])
    np.testing.assert_array_equal(layer(empty), np.zeros((3, 3)))
    train(layer, empty, tf.ones((3, 3)))
    assert len(layer.table) == 0


def test_several_widths_in_one_row():
    layer = embedding([1, 4], optimizer=[sf.optimizers.Ftrl(0.1), sf.optimizers.Adagrad(0.1)])
    wide, deep = layer(np.array([[1, 2]]))
    assert wide.shape == (1, 2, 1)
    assert deep.shape == (1, 2, 4)
    with tf.GradientTape() as tape:
        wide, deep = layer(np.array([[1, 2]]))
        loss = tf.reduce_sum(wide) + 2 * tf.reduce_sum(deep)
    tape.gradient(loss, layer.trainable_variables)
    ids, rows = next(layer.table.export(whole_rows=True))
    assert list(ids) == [1, 2]
    # [wide, deep, FTRL accumulator and linear, Adagrad accumulators]
    assert rows.shape == (2, 5 + 2 + 4)
    np.testing.assert_allclose(rows[:, 5], 1.1)
    np.testing.assert_allclose(rows[:, 7:], 4.1, rtol=1e-6)


def test_a_width_without_gradient_is_left_alone():
    layer = embedding([1, 2], embeddings_initializer="zeros")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.array([1]))[1])
    tape.gradient(loss, layer.trainable_variables)
    np.testing.assert_array_equal(next(layer.table.export())[1], [[0, -1, -1]])


def test_mask_zero_masks_like_keras():
    ids = np.array([[1, 0, 2]])
    ours, theirs = embedding(mask_zero=True), keras.layers.Embedding(3, 3, mask_zero=True)
    np.testing.assert_array_equal(ours.compute_mask(ids), theirs.compute_mask(ids))
    assert embedding().compute_mask(ids) is None


def model_of(layer, shape=(2,)):
    inputs = keras.Input(shape, dtype="int64")
    outputs = keras.layers.Dense(1, "sigmoid")(keras.layers.Flatten()(layer(inputs)))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=["auc"])
    return model


IDS = np.random.default_rng(1).integers(0, 40, (256, 2))
LABELS = (IDS[:, :1] % 3 == 0).astype(np.float32)


def test_fit_learns_and_evaluate_and_predict_create_no_rows():
    layer = embedding(8, optimizer=sf.optimizers.Adagrad(0.5), embeddings_initializer="normal")
    model = model_of(layer)
    history = model.fit(IDS, LABELS, batch_size=32, epochs=15, verbose=0)
    assert history.history["auc"][-1] > 0.9
    rows = len(layer.table)
    assert rows == len(np.unique(IDS))
    before = layer.table.stats()
    model.evaluate(IDS + 1000, LABELS, verbose=0)
    model.predict(IDS + 2000, verbose=0)
    assert layer.table.stats() == before


def test_fit_chooses_no_jit():
    model = model_of(embedding())
    model.fit(IDS, LABELS, verbose=0)
    assert model.jit_compile is False


def test_train_on_batch_and_a_custom_loop_agree():
    models = [model_of(embedding(4, name=f"loop_{i}")) for i in range(2)]
    for model in models:
        model.layers[-1].kernel.assign(tf.ones_like(model.layers[-1].kernel))
    for begin in range(0, 128, 32):
        ids, labels = IDS[begin : begin + 32], LABELS[begin : begin + 32]
        models[0].train_on_batch(ids, labels)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.binary_crossentropy(labels, models[1](ids, training=True)))
        variables = models[1].trainable_variables
        models[1].optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    ids = np.unique(IDS)
    np.testing.assert_allclose(
        models[0].layers[1].table.read(ids), models[1].layers[1].table.read(ids), rtol=1e-5, atol=1e-7
    )


def test_retracing_and_several_functions_share_the_table():
    layer = embedding(1, embeddings_initializer="zeros")

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(ids, training=True))
        return tape.gradient(loss, layer.trainable_variables)

    read = tf.function(layer)
    for size in (1, 2, 3):
        step(tf.ones([size], tf.int64))
    np.testing.assert_array_equal(read(tf.constant([1], tf.int64)), [[-6.0]])
    assert step.experimental_get_tracing_count() >= 2


def test_frozen_layer_changes_nothing():
    layer = embedding()
    layer.trainable = False
    model = model_of(layer)
    model.fit(IDS, LABELS, verbose=0)
    assert layer.table.stats().step == 0
    assert len(layer.table) == 0


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64"])
def test_compute_dtype_of_the_policy(policy):
    layer = embedding(dtype=policy)
    output = layer(np.array([[1, 2]]))
    assert output.dtype == keras.DTypePolicy(policy).compute_dtype
    train(layer, np.array([[1, 2]]), tf.ones_like(output))
    np.testing.assert_allclose(
        layer.table.read([1]), np.asarray(tf.cast(output[0, :1], tf.float32)) - 1.0, rtol=1e-2, atol=1e-3
    )


def test_initial_values_are_a_function_of_seed_id_and_column():
    a, b = embedding(4), embedding(4)
    ids = np.arange(100)
    np.testing.assert_array_equal(a(ids), b(ids[::-1])[::-1])
    other = sf.layers.CachedEmbedding(4, seed=6)
    assert not np.array_equal(a(ids), other(ids))


def test_keras_random_seed_sets_the_initial_values():
    values = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        values.append(sf.layers.CachedEmbedding(4)(np.arange(5)))
    np.testing.assert_array_equal(*values)


def test_config_round_trip():
    layer = embedding(
        [1, 3],
        optimizer=[
            sf.optimizers.Ftrl(0.1, l1_regularization_strength=0.5),
            sf.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)),
        ],
        embeddings_initializer=["zeros", keras.initializers.RandomNormal(0, 0.1)],
        padding_id=3,
        combiner="sum",
        name="user",
    )
    copy = sf.layers.CachedEmbedding.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    ids = np.array([[1, 2], [3, 4]])
    for ours, theirs in zip(layer(ids), copy(ids), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("input_dim", [None, 40])
def test_saved_model_goes_on_where_it_stopped(tmp_path, input_dim):
    layer = embedding(4, input_dim=input_dim, optimizer=sf.optimizers.Adam(0.1))
    model = model_of(layer)
    model.fit(IDS, LABELS, verbose=0, shuffle=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[1].table.stats() == layer.table.stats()
    np.testing.assert_array_equal(loaded.predict(IDS, verbose=0), model.predict(IDS, verbose=0))
    for m in (model, loaded):
        m.fit(IDS, LABELS, verbose=0, shuffle=False)
    np.testing.assert_array_equal(loaded.predict(IDS, verbose=0), model.predict(IDS, verbose=0))


def test_saved_config_has_the_learning_rate_of_now():
    layer = embedding([1, 2], optimizer=[sf.optimizers.SGD(0.5), sf.optimizers.Adagrad(0.5)])
    layer.table.learning_rate = 0.25
    copy = sf.layers.CachedEmbedding.from_config(layer.get_config())
    np.testing.assert_array_equal(copy.table.learning_rates(), [0.25, 0.25])


def test_a_failed_lookup_does_not_undo_the_step_before():
    layer = embedding(1, input_dim=10, embeddings_initializer="zeros")
    layer(np.array([9]))  # a forward pass without a backward pass: the next update waits
    train(layer, np.array([1]), tf.constant([[1.0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="ids must be in"):
        layer(np.array([10]), training=False)
    np.testing.assert_array_equal(layer.table.read([1]), [[-1.0]])


def test_load_weights_says_that_it_leaves_the_rows_out(tmp_path):
    model = model_of(embedding(4, name="user"))
    model.fit(IDS, LABELS, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    other = model_of(embedding(4, name="user"))
    other.load_weights(tmp_path / "model.weights.h5")
    with pytest.warns(UserWarning, match=r"CachedEmbedding 'user': load_weights\(\) has .* not the 40 rows saved"):
        other(IDS[:2])


def test_an_untrained_model_can_be_saved(tmp_path):
    model = model_of(embedding())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(IDS, verbose=0), model.predict(IDS, verbose=0))
