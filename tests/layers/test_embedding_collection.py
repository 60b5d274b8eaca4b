# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingCollection`: many features, shared tables, one op each way."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_sfctr as sf


def collection(**kwargs):
    return sf.layers.EmbeddingCollection(
        tables=[
            sf.TableConfig(3, name="item", optimizer=sf.optimizers.Adagrad(0.5), seed=1),
            sf.TableConfig(2, 50, name="shop", optimizer=sf.optimizers.SGD(0.5), seed=2),
        ],
        features={
            "candidate": sf.FeatureConfig("item"),
            "last": sf.FeatureConfig("item"),
            "clicked": sf.FeatureConfig("item", combiner="mean", padding_id=0),
            "shop": sf.FeatureConfig("shop"),
        },
        **kwargs,
    )


INPUTS = {
    "candidate": np.array([1, 2, 3]),
    "last": np.array([[2, 9], [1, 1], [4, 2]]),
    "clicked": np.array([[1, 2, 0], [0, 0, 0], [5, 1, 1]]),
    "shop": np.array([7, 7, 8]),
}


def test_outputs_are_those_of_single_layers():
    layer = collection()
    outputs = layer({name: tf.constant(ids) for name, ids in INPUTS.items()})
    item, shop = layer.tables["item"], layer.tables["shop"]
    np.testing.assert_array_equal(outputs["candidate"], item.read(INPUTS["candidate"]))
    np.testing.assert_array_equal(outputs["last"], item.read(INPUTS["last"]))
    np.testing.assert_array_equal(outputs["shop"], shop.read(INPUTS["shop"]))
    single = sf.layers.CachedEmbedding(3, combiner="mean", padding_id=0, seed=1)
    np.testing.assert_array_equal(outputs["clicked"], single(INPUTS["clicked"]))


def test_a_shared_table_gets_one_update_with_the_sum_of_its_gradients():
    layer = collection()
    before = layer.tables["item"].read(np.arange(10)).numpy()
    factors = {"candidate": 1.0, "last": 10.0, "clicked": 100.0, "shop": 0.0}
    with tf.GradientTape() as tape:
        outputs = layer({name: tf.constant(ids) for name, ids in INPUTS.items()})
        loss = sum(factors[name] * tf.reduce_sum(output) for name, output in outputs.items())
    tape.gradient(loss, layer.trainable_variables)
    gradient = np.zeros(10)
    np.add.at(gradient, INPUTS["candidate"], 1.0)
    np.add.at(gradient, INPUTS["last"], 10.0)
    for bag in INPUTS["clicked"]:
        members = bag[bag != 0]
        np.add.at(gradient, members, 100.0 / max(1, len(members)))
    step = 0.5 * gradient / np.sqrt(0.1 + gradient**2 + 1e-7)
    np.testing.assert_allclose(layer.tables["item"].read(np.arange(10)), before - step[:, None], rtol=1e-5, atol=1e-6)
    assert layer.tables["item"].stats().step == 1
    assert sorted(np.concatenate([ids for ids, _ in layer.tables["item"].export()])) == [1, 2, 3, 4, 5, 9]


def test_one_op_forward_and_one_backward():
    layer = collection()

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(output) for output in layer(inputs).values())
        return tape.gradient(loss, layer.trainable_variables)

    graph = step.get_concrete_function({name: tf.constant(ids) for name, ids in INPUTS.items()}).graph
    ops = [op.type for op in graph.get_operations()]
    assert ops.count("SfctrLookup") == 1
    assert ops.count("SfctrApplyGradients") == 1


def test_functional_model_fits_saves_and_loads(tmp_path):
    inputs = {name: keras.Input(ids.shape[1:], dtype="int64", name=name) for name, ids in INPUTS.items()}
    embedded = collection()(inputs)
    flat = [keras.layers.Flatten()(embedded[name]) for name in sorted(embedded)]
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(flat)))
    model.compile("sgd", "mse")
    target = np.array([[1.0], [2.0], [3.0]])
    first = model.evaluate(INPUTS, target, verbose=0)
    model.fit(INPUTS, target, epochs=20, verbose=0)
    assert model.evaluate(INPUTS, target, verbose=0) < 0.5 * first
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(INPUTS, verbose=0), model.predict(INPUTS, verbose=0))


def test_weights_and_ragged_and_strings():
    layer = sf.layers.EmbeddingCollection(
        [sf.TableConfig(2, name="tag", seed=1)],
        {"tags": sf.FeatureConfig("tag", combiner="sum"), "name": sf.FeatureConfig("tag")},
    )
    tags = tf.ragged.constant([[1, 2], []], dtype=tf.int64)
    outputs = layer(
        {"tags": tags, "name": tf.constant(["x", "y"])}, weights={"tags": tf.ragged.constant([[2.0, 3.0], []])}
    )
    rows = layer.tables["tag"].read([1, 2]).numpy()
    np.testing.assert_allclose(outputs["tags"], [2 * rows[0] + 3 * rows[1], [0, 0]], rtol=1e-6)
    ids = sf.data.hash_strings(tf.constant(["x", "y"]))
    np.testing.assert_array_equal(outputs["name"], layer.tables["tag"].read(ids))


def test_features_of_one_table_share_the_rows_of_equal_strings():
    layer = sf.layers.EmbeddingCollection(
        [sf.TableConfig(2, name="item")], {"clicked": sf.FeatureConfig("item"), "candidate": sf.FeatureConfig("item")}
    )
    outputs = layer({"clicked": tf.constant(["x"]), "candidate": tf.constant(["x"])})
    np.testing.assert_array_equal(outputs["clicked"], outputs["candidate"])


def test_config_round_trip():
    layer = collection(name="features")
    copy = sf.layers.EmbeddingCollection.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("tables", "features", "text"),
    [
        ([sf.TableConfig(2, name="a")] * 2, {}, r"tables must have distinct names; got \['a', 'a'\]"),
        (
            [sf.TableConfig(2, name="a")],
            {"x": sf.FeatureConfig("b")},
            r"feature 'x' must name one of the tables \['a'\]; got 'b'",
        ),
    ],
)
def test_wrong_settings(tables, features, text):
    with pytest.raises(ValueError, match=text):
        sf.layers.EmbeddingCollection(tables, features)


def test_missing_feature():
    with pytest.raises(ValueError, match=r"inputs must be a dict with the features \['candidate', .*; got \['shop'\]"):
        collection()({"shop": np.array([1])})


def test_wrong_dtype_names_the_feature():
    inputs = {**INPUTS, "last": INPUTS["last"].astype(np.float32)}
    with pytest.raises(TypeError, match=r"EmbeddingCollection 'c', feature 'last': ids must be .*; got float32"):
        collection(name="c")({name: tf.constant(ids) for name, ids in inputs.items()})
