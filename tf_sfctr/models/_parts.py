# SPDX-License-Identifier: Apache-2.0
"""What the models have in common: inputs, checks and a perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers


def check(
    where: str, num_numeric: int, num_categorical: int, dim: int, hidden_units: Sequence[int], dropout: float
) -> None:
    """Raises ValueError unless the arguments are in their ranges."""
    for name, value, least in (
        ("num_numeric", num_numeric, 0),
        ("num_categorical", num_categorical, 1),
        ("dim", dim, 1),
    ):
        if value < least:
            raise ValueError(f"{where}: {name} must be at least {least}; got {value}. Count the features of the data.")
    if any(units < 1 for units in hidden_units):
        raise ValueError(
            f"{where}: hidden_units must be widths of at least 1; got {tuple(hidden_units)}. Pass () for no perceptron."
        )
    if not 0 <= dropout < 1:
        raise ValueError(f"{where}: dropout must be in [0, 1); got {dropout}. Pass 0 for none.")


def inputs(num_numeric: int, num_categorical: int) -> dict[str, Any]:
    """The inputs, as the readers' elements have them."""
    categorical = {"categorical": keras.Input((num_categorical,), dtype="int64", name="categorical")}
    if num_numeric == 0:
        return categorical
    return {"numeric": keras.Input((num_numeric,), dtype="float32", name="numeric"), **categorical}


def perceptron(hidden: Any, hidden_units: Sequence[int], dropout: float) -> Any:
    """ReLU layers with dropout, and a last one of width 1 without activation."""
    for index, units in enumerate(hidden_units):
        hidden = layers.Dense(units, "relu", name=f"deep_{index}")(hidden)
        if dropout:
            hidden = layers.Dropout(dropout, name=f"dropout_{index}")(hidden)
    return layers.Dense(1, name="deep_logit")(hidden)
