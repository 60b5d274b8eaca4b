"""Optimizers of embedding tables: typed settings of the fused updates in the shared library.

The formulas are those of `keras.optimizers`. Duplicate ids in a batch, and several uses of a table in one step, are
summed (never averaged) into one gradient per unique row, and each touched row gets one update per step.
A mean over the batch is the loss's business: with the usual mean loss, gradients are already divided by the batch size.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

__all__ = ["SGD", "Adagrad", "Adam", "Ftrl", "RowWiseAdagrad", "TableOptimizer", "get"]


@dataclasses.dataclass(frozen=True)
class TableOptimizer:
    """What all optimizers of tables share.

    Args:
      learning_rate: float, a `keras.optimizers.schedules.LearningRateSchedule` (called with the number of updates the
        table has had), or a scalar variable, for instance `model.optimizer.learning_rate`, which a callback changes.
      l2: adds `2 * l2 * row` to the gradient of a touched row, as a Keras L2 regularizer does. 0 is off.
      clipvalue: bound of every element of a row's gradient. None is off.
      clipnorm: bound of the L2 norm of a row's gradient, after `clipvalue`. None is off.

    Raises:
      ValueError: a value out of its range.
    """

    learning_rate: Any = 0.01
    l2: float = 0.0
    clipvalue: float | None = None
    clipnorm: float | None = None

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Checks the ranges."""
        if isinstance(self.learning_rate, (int, float)):
            self._check("learning_rate", self.learning_rate, self.learning_rate >= 0, "be at least 0")
        self._check("l2", self.l2, self.l2 >= 0, "be at least 0")
        for name in ("clipvalue", "clipnorm"):
            value = getattr(self, name)
            self._check(name, value, value is None or value > 0, "be above 0, or None for no clipping")

    def _check(self, name: str, value: Any, holds: bool, rule: str) -> None:
        if not holds or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"{type(self).__name__}: {name} must {rule}; got {value}. Choose a value in that range.")

    def get_config(self) -> dict[str, Any]:
        """Returns the settings as plain Python values; a variable as its value of now."""
        config = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        rate = config["learning_rate"]
        if hasattr(rate, "get_config"):
            import keras

            config["learning_rate"] = keras.saving.serialize_keras_object(rate)
        elif not isinstance(rate, (int, float)):
            config["learning_rate"] = float(rate)
        return {"kind": self.kind, **config}


@dataclasses.dataclass(frozen=True)
class SGD(TableOptimizer):
    """Stochastic gradient descent, with momentum where it is above 0.

    ```python
    sf.optimizers.SGD(learning_rate=0.01, momentum=0.9)
    ```

    Args:
      momentum: factor of the velocity, in [0, 1). It lives in the row: a touched row only.
      nesterov: Nesterov's form of momentum.
    """

    momentum: float = 0.0
    nesterov: bool = False

    kind: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        """Checks the ranges."""
        super().__post_init__()
        self._check("momentum", self.momentum, 0 <= self.momentum < 1, "be in [0, 1)")


@dataclasses.dataclass(frozen=True)
class Adagrad(TableOptimizer):
    """Adagrad (Duchi et al., 2011): one accumulator per weight.

    ```python
    sf.optimizers.Adagrad(learning_rate=0.01)
    ```

    Args:
      initial_accumulator_value: start of every accumulator, at least 0.
      epsilon: added to the accumulator under the root.
    """

    initial_accumulator_value: float = 0.1
    epsilon: float = 1e-7

    kind: ClassVar[str] = "adagrad"

    def __post_init__(self) -> None:
        """Checks the ranges."""
        super().__post_init__()
        value = self.initial_accumulator_value
        self._check("initial_accumulator_value", value, value >= 0, "be at least 0")
        self._check("epsilon", self.epsilon, self.epsilon > 0, "be above 0")


@dataclasses.dataclass(frozen=True)
class RowWiseAdagrad(Adagrad):
    """Adagrad with one accumulator per row: the mean of its squared gradients. Half the memory of Adagrad or less.

    ```python
    sf.optimizers.RowWiseAdagrad(learning_rate=0.01)
    ```
    """

    kind: ClassVar[str] = "row_wise_adagrad"


@dataclasses.dataclass(frozen=True)
class Adam(TableOptimizer):
    """Lazy Adam (Kingma and Ba, 2015): moments and weights change only in the rows that a step touches.

    ```python
    sf.optimizers.Adam(learning_rate=0.001, catch_up=True)
    ```

    Args:
      beta_1: decay of the first moment, in [0, 1).
      beta_2: decay of the second moment, in [0, 1).
      epsilon: added to the root of the second moment.
      catch_up: a row makes up for the steps that did not touch it before it is next read or updated, so that the
        result is that of dense Adam with the learning rate of now. Costs four bytes a row, and time.
    """

    learning_rate: Any = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    catch_up: bool = False

    kind: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        """Checks the ranges."""
        super().__post_init__()
        self._check("beta_1", self.beta_1, 0 <= self.beta_1 < 1, "be in [0, 1)")
        self._check("beta_2", self.beta_2, 0 <= self.beta_2 < 1, "be in [0, 1)")
        self._check("epsilon", self.epsilon, self.epsilon > 0, "be above 0")


@dataclasses.dataclass(frozen=True)
class Ftrl(TableOptimizer):
    """FTRL-Proximal (McMahan et al., 2013), the usual optimizer of a wide part.

    ```python
    sf.optimizers.Ftrl(learning_rate=0.05, l1_regularization_strength=0.001)
    ```

    Args:
      learning_rate: as above, but above 0.
      learning_rate_power: at most 0; -0.5 is the square root.
      initial_accumulator_value: start of every accumulator, above 0.
      l1_regularization_strength: at least 0; above 0, rare weights stay exactly 0.
      l2_regularization_strength: at least 0, FTRL's stabilizing L2.
      l2_shrinkage_regularization_strength: at least 0, FTRL's magnitude penalty.
      beta: at least 0, as in the paper.
    """

    learning_rate: Any = 0.05
    learning_rate_power: float = -0.5
    initial_accumulator_value: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    l2_shrinkage_regularization_strength: float = 0.0
    beta: float = 0.0

    kind: ClassVar[str] = "ftrl"

    def __post_init__(self) -> None:
        """Checks the ranges."""
        super().__post_init__()
        if isinstance(self.learning_rate, (int, float)):
            self._check("learning_rate", self.learning_rate, self.learning_rate > 0, "be above 0")
        power = self.learning_rate_power
        self._check("learning_rate_power", power, power <= 0, "be at most 0")
        value = self.initial_accumulator_value
        # With 0 a zero gradient of a fresh row would be divided by 0.
        self._check("initial_accumulator_value", value, value > 0, "be above 0")
        for name in (
            "l1_regularization_strength",
            "l2_regularization_strength",
            "l2_shrinkage_regularization_strength",
            "beta",
        ):
            self._check(name, getattr(self, name), getattr(self, name) >= 0, "be at least 0")


_KINDS: dict[str, type[TableOptimizer]] = {c.kind: c for c in (SGD, Adagrad, RowWiseAdagrad, Adam, Ftrl)}


def get(identifier: TableOptimizer | str | dict[str, Any]) -> TableOptimizer:
    """Returns an optimizer from itself, its name (`"adagrad"`) or its `get_config()`.

    Raises:
      ValueError: the name is unknown.
      TypeError: something else was given, for instance a Keras optimizer.
    """
    if isinstance(identifier, TableOptimizer):
        return identifier
    if isinstance(identifier, str):
        identifier = {"kind": identifier}
    if isinstance(identifier, dict):
        config = dict(identifier)
        kind = str(config.pop("kind", "")).lower()
        if kind not in _KINDS:
            raise ValueError(
                f"optimizers.get: name must be one of {sorted(_KINDS)}; got {kind!r}. Choose one of these."
            )
        if isinstance(config.get("learning_rate"), dict):
            import keras

            config["learning_rate"] = keras.saving.deserialize_keras_object(config["learning_rate"])
        return _KINDS[kind](**config)
    raise TypeError(
        f"optimizers.get: optimizer must be one of tf_sfctr.optimizers; got {type(identifier).__name__}. "
        "The Keras optimizer given to compile() trains the dense part; tables have their own, "
        "for instance tf_sfctr.optimizers.Adagrad(learning_rate=0.01)."
    )


def op_name(optimizer: TableOptimizer) -> str:
    """Returns the name by which the `SfctrTable` op knows the optimizer."""
    if isinstance(optimizer, SGD) and optimizer.momentum > 0:
        return "momentum"
    return optimizer.kind


def op_arguments(optimizer: TableOptimizer) -> list[float]:
    """Returns what the `SfctrTable` op takes, in the order of `ParseOptimizer` in ops/kernels/table_op.cc."""
    beta_1 = getattr(optimizer, "beta_1", 0.0)
    beta_2 = getattr(optimizer, "beta_2", 0.0)
    return [
        getattr(optimizer, "initial_accumulator_value", 0.0),
        getattr(optimizer, "epsilon", 0.0),
        beta_1,
        1.0 - beta_1,
        beta_2,
        1.0 - beta_2,
        float(getattr(optimizer, "catch_up", False)),
        getattr(optimizer, "momentum", 0.0),
        float(getattr(optimizer, "nesterov", False)),
        getattr(optimizer, "learning_rate_power", -0.5),
        getattr(optimizer, "l1_regularization_strength", 0.0),
        getattr(optimizer, "l2_regularization_strength", 0.0),
        getattr(optimizer, "l2_shrinkage_regularization_strength", 0.0),
        getattr(optimizer, "beta", 0.0),
        optimizer.l2,
        optimizer.clipvalue or 0.0,
        optimizer.clipnorm or 0.0,
    ]
