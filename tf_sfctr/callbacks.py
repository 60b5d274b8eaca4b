# SPDX-License-Identifier: Apache-2.0
"""Keras callbacks for click-through-rate training."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_sfctr.data._synthetic import auc

__all__ = ["HeldOut", "TableFigures", "evaluate_exactly"]


def evaluate_exactly(model: keras.Model, dataset: tf.data.Dataset) -> dict[str, float]:
    """Measures a model on a data set, with an AUC over all distinct scores, not `keras.metrics.AUC`'s 200 thresholds.

    ```python
    sf.callbacks.evaluate_exactly(model, sf.data.criteo("test.tsv", 4096))["auc"]  # 0.79
    ```

    Args:
      model: gives probabilities, [B, 1].
      dataset: of `(features, label)`, labels 0 or 1.

    Returns:
      "auc" (ties counted half, NaN if all labels are the same), "log_loss" (the mean; probabilities at least 1e-7 from
      0 and 1) and "samples".
    """
    scores, labels = [], []
    for features, label in dataset:
        scores.append(model.predict_on_batch(features).reshape(-1))
        labels.append(label.numpy().reshape(-1))
    score = np.concatenate(scores) if scores else np.empty(0, np.float32)
    label = np.concatenate(labels) if labels else np.empty(0, np.float32)
    chance = np.clip(score.astype(np.float64), 1e-7, 1 - 1e-7)
    losses = -np.where(label > 0, np.log(chance), np.log1p(-chance))
    return {
        "auc": auc(label, score),
        "log_loss": float(losses.mean()) if len(losses) else float("nan"),
        "samples": len(label),
    }


class HeldOut(keras.callbacks.Callback):
    """Adds `val_auc` and `val_log_loss` to the logs of each epoch, by `evaluate_exactly`.

    ```python
    model.fit(train, callbacks=[sf.callbacks.HeldOut(test), keras.callbacks.TensorBoard("logs")])
    ```

    Place it before callbacks that are to see these logs. `result` is that of the last epoch.

    Args:
      dataset: as `evaluate_exactly` takes it.
    """

    def __init__(self, dataset: tf.data.Dataset) -> None:
        """See the class."""
        super().__init__()
        self.dataset = dataset
        self.result: dict[str, float] = {}

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measures."""
        self.result = evaluate_exactly(self.model, self.dataset)
        if logs is not None:
            logs.update(val_auc=self.result["auc"], val_log_loss=self.result["log_loss"])


class TableFigures(keras.callbacks.Callback):
    """Adds `table_rows` and `table_bytes` of all tables in the model to the logs of each epoch.

    ```python
    model.fit(train, callbacks=[sf.callbacks.TableFigures(), keras.callbacks.TensorBoard("logs")])
    ```

    Place it before callbacks that are to see these logs.
    """

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Asks the tables."""
        if logs is not None:
            rows, size = table_figures(self.model)
            logs.update(table_rows=rows, table_bytes=size)


def table_figures(model: keras.Model) -> tuple[int, int]:
    """Rows and bytes (rows, optimizer state and index) of all tables in a model."""
    tables = []
    for layer in model._flatten_layers():
        if hasattr(layer, "table") and not isinstance(layer, keras.Model):
            tables.append(layer.table)
        tables.extend(getattr(layer, "tables", {}).values())
    figures = [table.stats() for table in tables]
    return sum(f.num_rows for f in figures), sum(f.row_bytes + f.index_bytes for f in figures)
