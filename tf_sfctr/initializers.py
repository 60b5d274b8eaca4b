"""From Keras initializers to the ones that the shared library computes row by row.

A row of a table comes to be when its id is first updated, so its initial value is a pure function of (table seed, id,
column), computed where the row is. Keras initializers fill a whole matrix at once; this module takes their settings.
"""

from __future__ import annotations

import math
from typing import Any

import keras

__all__ = ["resolve"]

# Standard deviation of a unit normal cut at two standard deviations.
_TRUNCATED_STDDEV = 0.87962566103423978


def resolve(initializer: Any, fan_in: int, fan_out: int) -> tuple[str, list[float]]:
    """Returns name and numbers of an initializer for the `SfctrTable` op.

    Args:
      initializer: anything `keras.initializers.get` takes: zeros, ones, constant, uniform, normal, truncated normal, or
        variance scaling (Glorot, He, LeCun).
      fan_in: rows of the matrix, for variance scaling.
      fan_out: columns of the matrix, for variance scaling.

    Returns:
      The name, and two floats: value and 0, low and high, or mean and standard deviation.

    Raises:
      ValueError: the initializer is not one of these.
    """
    given = initializer
    initializer = keras.initializers.get(initializer)
    k = keras.initializers
    if isinstance(initializer, k.Zeros):
        return "constant", [0.0, 0.0]
    if isinstance(initializer, k.Ones):
        return "constant", [1.0, 0.0]
    if isinstance(initializer, k.Constant):
        return "constant", [float(initializer.value), 0.0]
    if isinstance(initializer, k.RandomUniform):
        return "uniform", [float(initializer.minval), float(initializer.maxval)]
    if isinstance(initializer, k.TruncatedNormal):
        return "truncated_normal", [float(initializer.mean), float(initializer.stddev)]
    if isinstance(initializer, k.RandomNormal):
        return "normal", [float(initializer.mean), float(initializer.stddev)]
    if isinstance(initializer, k.VarianceScaling):
        return _variance_scaling(initializer, fan_in, fan_out)
    raise ValueError(
        f"initializers.resolve: embeddings_initializer must be zeros, ones, constant, uniform, normal, truncated "
        f"normal or variance scaling; got {given!r}. A row is initialized alone, so it needs one of these."
    )


def _variance_scaling(initializer: Any, fan_in: int, fan_out: int) -> tuple[str, list[float]]:
    fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[initializer.mode]
    variance = initializer.scale / max(1.0, fan)
    if initializer.distribution == "uniform":
        limit = math.sqrt(3.0 * variance)
        return "uniform", [-limit, limit]
    if initializer.distribution == "truncated_normal":
        return "truncated_normal", [0.0, math.sqrt(variance) / _TRUNCATED_STDDEV]
    return "normal", [0.0, math.sqrt(variance)]
