"""Typed settings of tables and features, plain data without TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tf_sfctr import optimizers

__all__ = ["COMBINERS", "FeatureConfig", "TableConfig"]

COMBINERS = (None, "sum", "mean", "sqrtn")
_MAX_INPUT_DIM = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class TableConfig:
    """Settings of an `EmbeddingTable`; see there.

    ```python
    sf.TableConfig(output_dim=16, optimizer=sf.optimizers.Adagrad(0.01), name="user")
    ```
    """

    output_dim: int | Sequence[int]
    input_dim: int | None = None
    optimizer: Any = None
    embeddings_initializer: Any = "uniform"
    seed: int | None = None
    name: str = "table"

    def __post_init__(self) -> None:
        """Checks everything, so that a table is not created in vain."""
        where = f"TableConfig '{self.name}'"
        scalar = isinstance(self.output_dim, (int, float))
        dims = (self.output_dim,) if scalar else tuple(self.output_dim)  # type: ignore[arg-type]
        if not dims or any(isinstance(d, bool) or not isinstance(d, int) or d < 1 for d in dims):
            raise ValueError(
                f"{where}: output_dim must be an integer of at least 1, or a list of such; got {self.output_dim!r}. "
                "Choose the width of an embedding."
            )
        if self.input_dim is not None and not 1 <= self.input_dim <= _MAX_INPUT_DIM:
            raise ValueError(
                f"{where}: input_dim must be in [1, {_MAX_INPUT_DIM}], or None for any 64-bit id; got "
                f"{self.input_dim!r}. Pass the size of the vocabulary."
            )
        for name in ("optimizer", "embeddings_initializer"):
            value = getattr(self, name)
            if isinstance(value, (list, tuple)) and len(value) != len(dims):
                raise ValueError(
                    f"{where}: {name} must be one, or one per width of output_dim ({len(dims)}); got {len(value)}. "
                    "Give as many as there are widths."
                )
        object.__setattr__(self, "optimizer", self.optimizer if self.optimizer is not None else optimizers.Adagrad())
        if isinstance(self.optimizer, (list, tuple)):
            object.__setattr__(self, "optimizer", [optimizers.get(o) for o in self.optimizer])
        else:
            object.__setattr__(self, "optimizer", optimizers.get(self.optimizer))

    @property
    def has_groups(self) -> bool:
        """Whether a row holds several embeddings, so that a read returns a list."""
        return not isinstance(self.output_dim, int)

    @property
    def output_dims(self) -> tuple[int, ...]:
        """Widths of the column groups."""
        return (self.output_dim,) if isinstance(self.output_dim, int) else tuple(self.output_dim)

    @property
    def optimizers(self) -> list[optimizers.TableOptimizer]:
        """Optimizer of each column group."""
        return self._per_group(self.optimizer)

    @property
    def initializers(self) -> list[Any]:
        """Initializer of each column group."""
        return self._per_group(self.embeddings_initializer)

    def _per_group(self, value: Any) -> list[Any]:
        return list(value) if isinstance(value, (list, tuple)) else [value] * len(self.output_dims)

    def get_config(self) -> dict[str, Any]:
        """Returns the settings as values that JSON can hold."""
        config = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.has_groups:
            config["output_dim"] = list(self.output_dims)
        config["optimizer"] = _map(self.optimizer, lambda optimizer: optimizer.get_config())
        config["embeddings_initializer"] = _map(self.embeddings_initializer, _serialize_initializer)
        return config


@dataclasses.dataclass(frozen=True)
class FeatureConfig:
    """How one feature of a `layers.EmbeddingCollection` reads its table.

    ```python
    sf.FeatureConfig(table="item", combiner="mean", padding_id=0)
    ```

    Args:
      table: name of a table of the collection.
      combiner: None, "sum", "mean" or "sqrtn": how the ids of a sample become one vector.
      padding_id: id (a string where ids are strings) that reads as zeros and gets no update; None for none.
    """

    table: str
    combiner: str | None = None
    padding_id: int | str | None = None

    def __post_init__(self) -> None:
        """Checks the combiner."""
        check_combiner(f"FeatureConfig of table '{self.table}'", self.combiner)


def check_combiner(where: str, combiner: Any) -> None:
    """Raises ValueError unless `combiner` is one."""
    if combiner not in COMBINERS:
        raise ValueError(f"{where}: combiner must be one of {COMBINERS}; got {combiner!r}. Choose one of these.")


def _map(value: Any, function: Any) -> Any:
    return [function(v) for v in value] if isinstance(value, (list, tuple)) else function(value)


def _serialize_initializer(initializer: Any) -> Any:
    if isinstance(initializer, (str, dict)):
        return initializer
    import keras

    return keras.initializers.serialize(keras.initializers.get(initializer))
