# SPDX-License-Identifier: Apache-2.0
"""Callbacks: figures in the logs of an epoch."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tf_sfctr as sf
from tf_sfctr import callbacks


class Score(keras.Model):
    """Gives the number it gets."""

    def call(self, inputs: Any) -> Any:
        """The same."""
        return inputs


def test_exact_auc_counts_ties_half_and_sees_close_scores() -> None:
    score = np.array([0.5, 0.500001, 0.500002, 0.500002], np.float32)[:, None]
    label = np.array([0, 0, 1, 0], np.float32)[:, None]
    dataset = tf.data.Dataset.from_tensor_slices((score, label)).batch(3)
    measured = callbacks.evaluate_exactly(Score(), dataset)
    assert measured["auc"] == (2 + 0.5) / 3
    np.testing.assert_allclose(measured["log_loss"], np.log(2), rtol=1e-4)
    assert measured["samples"] == 4


def test_auc_of_one_class_or_no_rows_is_nan() -> None:
    one = tf.data.Dataset.from_tensors((np.full((2, 1), 0.3, np.float32), np.ones((2, 1), np.float32)))
    assert np.isnan(callbacks.evaluate_exactly(Score(), one)["auc"])
    empty = callbacks.evaluate_exactly(Score(), one.take(0))
    assert np.isnan(empty["log_loss"])
    assert empty["samples"] == 0


def test_logs_of_an_epoch_hold_the_figures() -> None:
    model = keras.Sequential(
        [
            keras.Input((2,), dtype="int64"),
            sf.layers.CachedEmbedding(1),
            keras.layers.Flatten(),
            keras.layers.Dense(1, "sigmoid"),
        ]
    )
    model.compile("sgd", "binary_crossentropy")
    data = tf.data.Dataset.from_tensors((np.array([[1, 2], [2, 3]]), np.array([[0.0], [1.0]], np.float32)))
    history = model.fit(
        data, epochs=2, verbose=0, callbacks=[callbacks.HeldOut(data), callbacks.TableFigures()]
    ).history
    assert len(history["val_auc"]) == len(history["val_log_loss"]) == 2
    assert history["table_rows"] == [3, 3]
    assert history["table_bytes"][0] > 3 * 4
