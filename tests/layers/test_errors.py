# SPDX-License-Identifier: Apache-2.0
"""Bad input: a clear error, and nothing changed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_sfctr as sf


@pytest.fixture
def layer():
    layer = sf.layers.CachedEmbedding(2, optimizer=sf.optimizers.Adagrad(0.1), name="user_id")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.array([1, 2, 3])) ** 2)
    tape.gradient(loss, layer.trainable_variables)
    return layer


def content(table):
    parts = list(table.export(whole_rows=True))
    return table.stats(), *(np.concatenate(part) for part in zip(*parts, strict=True))


def assert_unchanged(table, before):
    for now, then in zip(content(table), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        (
            np.array([1.0], np.float32),
            TypeError,
            r"CachedEmbedding 'user_id': ids must be integers \(int32, int64, uint64, ...\) or strings; got float32. "
            r"Cast them or hash strings first.",
        ),
        (np.array([True]), TypeError, r"CachedEmbedding 'user_id': ids must be .*; got bool"),
        (
            tf.RaggedTensor.from_row_splits(np.array([[1, 2]]), [0, 1]),
            ValueError,
            r"CachedEmbedding 'user_id': ragged ids must have a ragged last axis; got shape \(1, None, 2\)",
        ),
        (
            tf.sparse.from_dense(np.array([[1, 2]])),
            ValueError,
            r"CachedEmbedding 'user_id': sparse ids must have rank 2 and a combiner; got rank 2 and combiner None. Set",
        ),
    ],
)
def test_wrong_kind_of_ids(layer, ids, error, text):
    before = content(layer.table)
    with pytest.raises(error, match=text):
        layer(ids)
    assert_unchanged(layer.table, before)


def test_float_input_of_a_functional_model(layer):
    with pytest.raises(TypeError, match=r"CachedEmbedding 'user_id': ids must be .*; got float32. Cast them"):
        layer(keras.Input((3,)))


def test_combiner_needs_two_axes():
    layer = sf.layers.CachedEmbedding(2, combiner="sum", name="tags")
    with pytest.raises(ValueError, match=r"'tags': ids must have rank 2 or more for combiner 'sum'.*; got rank 1. Add"):
        layer(np.array([1, 2]))


def test_weights_need_a_combiner(layer):
    with pytest.raises(ValueError, match=r"'user_id': weights must come with a combiner; got combiner None. Set"):
        layer(np.array([[1, 2]]), weights=np.ones((1, 2), np.float32))


def test_weights_of_another_shape():
    layer = sf.layers.CachedEmbedding(2, combiner="sum", name="tags")
    with pytest.raises(ValueError, match=r"'tags': weights must have the shape of ids, \(1, 2\); got \(1, 3\)"):
        layer(np.array([[1, 2]]), weights=np.ones((1, 3), np.float32))


def test_ragged_weights_of_another_arrangement():
    layer = sf.layers.CachedEmbedding(2, combiner="sum", name="tags")
    ids = tf.ragged.constant([[1, 2], [3]], dtype=tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'tags': weights must be arranged as the ids are. Build"):
        layer(ids, weights=tf.ragged.constant([[1.0], [2.0, 3.0]]))


def test_padding_of_another_kind_than_the_ids():
    layer = sf.layers.CachedEmbedding(2, padding_id=0, name="tags")
    with pytest.raises(ValueError, match=r"'tags': padding_id must be a string, as the ids are; got 0. Pass"):
        layer(tf.constant(["a"]))


def test_float16_would_train_on_scaled_gradients():
    with pytest.raises(ValueError, match=r"'tags': dtype must not compute in float16; got policy 'mixed_float16'"):
        sf.layers.CachedEmbedding(2, name="tags", dtype="mixed_float16")


def test_read_of_float_ids(layer):
    with pytest.raises(TypeError, match=r"EmbeddingTable 'user_id': ids must be integers of int64; got float32. Cast"):
        layer.table.read([1.7])


def test_a_damaged_file_loads_nothing(tmp_path):
    collection = sf.layers.EmbeddingCollection(
        [sf.TableConfig(1, name="a"), sf.TableConfig(1, name="b")], {"x": sf.FeatureConfig("a")}
    )
    for table in collection.tables.values():
        table.assign([1, 2], [[1.0], [2.0]])
    collection.save_assets(str(tmp_path))
    np.save(tmp_path / "1" / "ids.npy", np.array([1]))
    copy = sf.layers.EmbeddingCollection.from_config(collection.get_config())
    with pytest.raises(ValueError, match=r"the files of table 'b' must hold 2 rows of 2 floats; got \(1,\) ids"):
        copy.load_assets(str(tmp_path))
    assert [table.stats().num_rows for table in copy.tables.values()] == [0, 0]


@pytest.mark.parametrize("bad", [-1, 10, 2**40])
def test_id_out_of_the_vocabulary(bad):
    layer = sf.layers.CachedEmbedding(2, 10, name="shop")
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=rf"CachedEmbedding 'shop', table 'shop': ids must be in \[0, 10\) \(input_dim\); got {bad}. Raise",
    ):
        layer(np.array([3, bad], np.int64))
    assert layer.table.stats().num_rows == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_gradient_that_is_not_finite_changes_nothing(layer, value):
    before = content(layer.table)
    with tf.GradientTape() as tape:
        output = layer(np.array([2, 77, 2]))
    gradient = np.ones((3, 2), np.float32)
    gradient[1, 0] = value
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=rf"CachedEmbedding 'user_id', table 'user_id': gradients must be finite; got {value} for id 77. "
        r"No row was changed. Lower the learning rate",
    ):
        tape.gradient(output, layer.trainable_variables, output_gradients=tf.constant(gradient))
    assert_unchanged(layer.table, before)
    # And the table goes on.
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.array([77])))
    tape.gradient(loss, layer.trainable_variables)
    assert layer.table.stats().num_rows == before[0].num_rows + 1


def test_one_bad_gradient_of_a_collection_changes_no_table():
    collection = sf.layers.EmbeddingCollection(
        [sf.TableConfig(1, name="a", seed=0), sf.TableConfig(1, name="b", seed=0)],
        {"x": sf.FeatureConfig("a"), "y": sf.FeatureConfig("b")},
        name="features",
    )
    with tf.GradientTape() as tape:
        outputs = collection({"x": np.array([1]), "y": np.array([2])})
        loss = tf.reduce_sum(outputs["x"]) + tf.reduce_sum(outputs["y"]) * np.nan
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"EmbeddingCollection 'features', feature 'y', table 'b': gradients must be finite; got nan for id 2.",
    ):
        tape.gradient(loss, collection.trainable_variables)
    assert [table.stats().num_rows for table in collection.tables.values()] == [0, 0]


@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_learning_rate_that_cannot_be_used(layer, value):
    before = content(layer.table)
    layer.table.learning_rate = value
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.array([1])))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"learning_rate must be finite and not below 0; got "):
        tape.gradient(loss, layer.trainable_variables)
    assert_unchanged(layer.table, before)


def test_reload_with_another_width(tmp_path, layer):
    model = keras.Sequential([keras.Input((2,), dtype="int64"), layer])
    model.save(tmp_path / "model.keras")
    other = keras.Sequential([keras.Input((2,), dtype="int64"), sf.layers.CachedEmbedding(3, name="user_id")])
    with pytest.raises(
        ValueError,
        match=r"CachedEmbedding 'user_id': output_dims of table 'user_id' must be that of the saved table, \[2\]; got "
        r"\[3\]. Build the model with the settings it was saved with.",
    ):
        other.load_weights(tmp_path / "model.keras")
    assert other.layers[0].table.stats().num_rows == 0


def test_assign_of_another_width(layer):
    before = content(layer.table)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"EmbeddingTable 'user_id': rows must be 2 floats wide \(embedding\) or 4 .*; got 3. Load them",
    ):
        layer.table.assign([1], [[1.0, 2.0, 3.0]])
    assert_unchanged(layer.table, before)


def test_assign_of_an_id_twice(layer):
    before = content(layer.table)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"ids must be distinct; got 9 twice. Pass every id once."):
        layer.table.assign([9, 8, 9], np.ones((3, 2)))
    assert_unchanged(layer.table, before)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"output_dim": 0}, r"output_dim must be an integer of at least 1, or a list of such; got 0"),
        ({"output_dim": 2.5}, r"output_dim must be an integer of at least 1, or a list of such; got 2.5"),
        ({"output_dim": []}, r"output_dim must be an integer of at least 1, or a list of such; got \[\]"),
        ({"output_dim": 2, "input_dim": 0}, r"input_dim must be in \[1, 4294967295\], or None .*; got 0"),
        ({"output_dim": [1, 2], "optimizer": [sf.optimizers.SGD()] * 3}, r"optimizer must be one, or one per width"),
        ({"output_dim": 2, "combiner": "max"}, r"combiner must be one of .*; got 'max'"),
        ({"output_dim": 2, "embeddings_initializer": "orthogonal"}, r"embeddings_initializer must be zeros, ones"),
    ],
)
def test_wrong_settings(arguments, text):
    with pytest.raises(ValueError, match=text):
        sf.layers.CachedEmbedding(**arguments)


def test_a_keras_optimizer_is_not_a_tables():
    with pytest.raises(TypeError, match=r"optimizer must be one of tf_sfctr.optimizers; got Adam. The Keras optimizer"):
        sf.layers.CachedEmbedding(2, optimizer=keras.optimizers.Adam())


def test_unknown_optimizer_name():
    with pytest.raises(ValueError, match=r"optimizers.get: name must be one of \['adagrad', .*; got 'lion'"):
        sf.layers.CachedEmbedding(2, optimizer="lion")
