# SPDX-License-Identifier: Apache-2.0
"""Both models: what they compute, learn, save and refuse."""

import dataclasses
import pathlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_sfctr as sf
from tf_sfctr import callbacks, models

BOTH = pytest.mark.parametrize("kind", [models.DeepFM, models.WideDeep])


def features(num_rows: int = 64, num_numeric: int = 2, num_categorical: int = 3, seed: int = 0) -> dict[str, Any]:
    """Made-up inputs; ids of different features differ."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 10, (num_rows, num_categorical)) + 1000 * np.arange(num_categorical)
    numbers = rng.normal(size=(num_rows, num_numeric)).astype(np.float32)
    return {"numeric": numbers, "categorical": ids} if num_numeric else {"categorical": ids}


def labels(num_rows: int = 64, seed: int = 1) -> np.ndarray:
    """Random labels."""
    return np.random.default_rng(seed).integers(0, 2, (num_rows, 1)).astype(np.float32)


def trained(kind: Any, dropout: float = 0.1, **kwargs: Any) -> keras.Model:
    """A small model after two epochs."""
    model = kind(2, 3, dim=4, hidden_units=(8,), dropout=dropout, **kwargs)
    model.compile("adam", keras.losses.BinaryCrossentropy(), metrics=["AUC"])
    model.fit(features(), labels(), batch_size=16, epochs=2, verbose=0)
    return model


def perceptron(model: keras.Model, hidden: np.ndarray, depth: int) -> np.ndarray:
    """The deep part in NumPy."""
    for index in range(depth):
        kernel, bias = model.get_layer(f"deep_{index}").get_weights()
        hidden = np.maximum(hidden @ kernel + bias, 0)
    kernel, bias = model.get_layer("deep_logit").get_weights()
    return hidden @ kernel + bias


def sigmoid(logit: np.ndarray) -> np.ndarray:
    """In NumPy."""
    return 1 / (1 + np.exp(-logit))


def test_deepfm_is_the_sum_of_first_order_pairs_and_perceptron() -> None:
    model = trained(models.DeepFM)
    given = features(8, seed=2)
    weights, vectors = (part.numpy() for part in model.table.read(given["categorical"]))
    pairs = sum(np.sum(vectors[:, i] * vectors[:, j], 1) for i in range(3) for j in range(i))
    kernel, bias = model.get_layer("numeric_logit").get_weights()
    deep = perceptron(model, np.concatenate([vectors.reshape(8, -1), given["numeric"]], 1), depth=1)
    logit = weights.sum(1) + given["numeric"] @ kernel + bias + pairs[:, None] + deep
    np.testing.assert_allclose(model.predict(given, verbose=0), sigmoid(logit), rtol=1e-5)


def test_wide_deep_is_the_sum_of_weights_and_perceptron() -> None:
    model = trained(models.WideDeep)
    given = features(8, seed=2)
    weights, vectors = (part.numpy() for part in model.table.read(given["categorical"]))
    kernel, bias = model.get_layer("numeric_logit").get_weights()
    deep = perceptron(model, np.concatenate([vectors.reshape(8, -1), given["numeric"]], 1), depth=1)
    logit = weights.sum(1) + given["numeric"] @ kernel + bias + deep
    np.testing.assert_allclose(model.predict(given, verbose=0), sigmoid(logit), rtol=1e-5)


def test_wide_deep_trains_its_parts_with_ftrl_and_adagrad() -> None:
    kinds = [optimizer.kind for optimizer in models.WideDeep(2, 3).table.config.optimizers]
    assert kinds == ["ftrl", "adagrad"]


@BOTH
def test_learns_a_planted_teacher_near_its_own_auc(kind: Any) -> None:
    keras.utils.set_random_seed(0)
    source = sf.data.Synthetic(seed=3, table_sizes=(20,) * 8, num_numeric=4, signal=3.0, interaction=0.1)
    train = sf.data.synthetic(30_000, 256, source=source)
    test = sf.data.synthetic(40_000, 2048, source=source, skip_rows=30_000)
    name = "embedding_optimizer" if kind is models.DeepFM else "deep_optimizer"
    model = kind(4, 8, dim=4, hidden_units=(32,), **{name: sf.optimizers.Adagrad(0.1)})
    model.compile(keras.optimizers.Adam(0.003), keras.losses.BinaryCrossentropy())
    model.fit(train, epochs=3, verbose=0, shuffle=False)
    ceiling = source.teacher_auc(10_000, skip_rows=30_000)
    reached = callbacks.evaluate_exactly(model, test)
    assert reached["samples"] == 10_000
    assert ceiling > 0.9
    assert ceiling - 0.03 < reached["auc"] < ceiling + 0.005
    assert len(model.table) <= 8 * 20


def test_crosses_learn_what_a_sum_of_weights_cannot() -> None:
    keras.utils.set_random_seed(0)
    ids = np.random.default_rng(0).integers(0, 8, (4000, 2)) + np.array([0, 100])
    label = ((ids[:, :1] + ids[:, 1:]) % 2).astype(np.float32)  # Exclusive or.
    model = models.WideDeep(0, 2, dim=1, hidden_units=(1,), crosses=[(0, 1)], wide_optimizer=sf.optimizers.Ftrl(1.0))
    model.compile(keras.optimizers.SGD(0.0), keras.losses.BinaryCrossentropy())
    model.fit({"categorical": ids}, label, batch_size=100, epochs=3, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices(({"categorical": ids}, label)).batch(1000)
    assert callbacks.evaluate_exactly(model, dataset)["auc"] > 0.99
    assert len(model.get_layer("cross_weights").table) == 64


@BOTH
@pytest.mark.parametrize("num_numeric", [0, 2])
def test_fit_evaluate_predict_and_rows(kind: Any, num_numeric: int) -> None:
    model = kind(num_numeric, 3, dim=4, hidden_units=(8, 4))
    model.compile("adam", keras.losses.BinaryCrossentropy(), metrics=["AUC"])
    given = features(num_numeric=num_numeric)
    model.fit(given, labels(), batch_size=16, verbose=0)
    num_rows = len(model.table)
    assert num_rows == len(np.unique(given["categorical"]))
    loss, _ = model.evaluate(given, labels(), verbose=0)
    assert np.isfinite(loss)
    given["categorical"] = given["categorical"] + 50_000
    assert model.predict(given, verbose=0).shape == (64, 1)
    assert len(model.table) == num_rows, "predict and evaluate create no rows"


@BOTH
def test_a_saved_model_loads_with_rows_and_goes_on_alike(kind: Any, tmp_path: pathlib.Path) -> None:
    keras.utils.set_random_seed(0)
    model = trained(kind, dropout=0.0, **({"crosses": [(0, 2)]} if kind is models.WideDeep else {}))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is kind
    assert loaded.get_config() == model.get_config()
    assert len(loaded.table) == len(model.table)
    np.testing.assert_array_equal(loaded.predict(features(), verbose=0), model.predict(features(), verbose=0))
    for one in (model, loaded):
        keras.utils.set_random_seed(1)
        one.train_on_batch(features(), labels())
    np.testing.assert_allclose(loaded.predict(features(), verbose=0), model.predict(features(), verbose=0), rtol=1e-6)


@BOTH
def test_get_config_makes_the_same_model(kind: Any) -> None:
    name = "deep_optimizer" if kind is models.WideDeep else "embedding_optimizer"
    model = kind(1, 2, 3, (5, 4), 0.25, seed=9, name="mine", input_dim=50, **{name: sf.optimizers.Adam(0.1, l2=0.5)})
    again = kind.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert again.name == "mine"
    for ours, theirs in zip(again.table.config.optimizers, model.table.config.optimizers, strict=True):
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    np.testing.assert_array_equal(again.table.read([7])[1], model.table.read([7])[1])


@BOTH
def test_the_loss_of_a_certain_wrong_answer_is_finite_and_still_moves_the_weights(kind: Any) -> None:
    model = kind(0, 2, dim=2, hidden_units=(2,), **_plain_sgd(kind))
    model.compile(keras.optimizers.SGD(0.0), keras.losses.BinaryCrossentropy())
    model.table.assign([1, 2], np.array([[100.0, 0, 0], [100.0, 0, 0]], np.float32))
    given = {"categorical": np.array([[1, 2]])}
    assert model.predict(given, verbose=0)[0, 0] == 1.0
    assert model.evaluate(given, np.zeros((1, 1)), verbose=0) == pytest.approx(200, abs=0.5)
    model.train_on_batch(given, np.zeros((1, 1)))
    assert model.table.read([1])[0].numpy()[0, 0] == pytest.approx(99.0), "the gradient of the logit is 1"


def _plain_sgd(kind: Any) -> dict[str, Any]:
    return {"wide_optimizer" if kind is models.WideDeep else "embedding_optimizer": sf.optimizers.SGD(1.0)}


@BOTH
def test_mixed_precision_keeps_the_probability_in_float32(kind: Any) -> None:
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = trained(kind)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert model.output.dtype == "float32"
    assert np.isfinite(model.predict(features(), verbose=0)).all()


@BOTH
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_categorical": 0}, "num_categorical must be at least 1; got 0"),
        ({"num_numeric": -1}, "num_numeric must be at least 0; got -1"),
        ({"dim": 0}, "dim must be at least 1; got 0"),
        ({"hidden_units": (8, 0)}, "hidden_units must be widths of at least 1"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\); got 1.0"),
    ],
)
def test_arguments_out_of_range_are_named(kind: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__}: {text}"):
        kind(**arguments)


def test_a_cross_of_no_feature_is_named() -> None:
    with pytest.raises(ValueError, match=r"pairs must be of positions from 0 to 2; got \(0, 3\)"):
        models.WideDeep(0, 3, crosses=[(0, 3)])


def test_wide_deep_without_a_deep_part_is_refused() -> None:
    with pytest.raises(ValueError, match="WideDeep: hidden_units must name at least one layer"):
        models.WideDeep(hidden_units=())


def test_deepfm_without_perceptron_is_a_factorization_machine() -> None:
    model = models.DeepFM(0, 3, dim=4, hidden_units=())
    given = features(8, num_numeric=0)
    model.table.assign([0], np.ones((1, 5), np.float32))
    weights, vectors = (part.numpy() for part in model.table.read(given["categorical"]))
    pairs = sum(np.sum(vectors[:, i] * vectors[:, j], 1) for i in range(3) for j in range(i))
    np.testing.assert_allclose(model.predict(given, verbose=0), sigmoid(weights.sum(1) + pairs[:, None]), rtol=1e-5)
