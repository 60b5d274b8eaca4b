"""Typed settings of tables and features, plain data without TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tf_sfctr import optimizers

__all__ = ["COMBINERS", "POLICIES", "CacheConfig", "FeatureConfig", "TableConfig"]

COMBINERS = (None, "sum", "mean", "sqrtn")
POLICIES = ("lru", "lfu", "look_ahead")
_MAX_INPUT_DIM = 2**32 - 1
_MAX_CACHE_ROWS = 2**30


@dataclasses.dataclass(frozen=True)
class CacheConfig:
    """Settings of a `MixCache`: rows in device memory in front of host tables.

    ```python
    sf.layers.CachedEmbedding(16, cache=sf.CacheConfig(rows=300_000))
    ```

    Results are bit for bit the same whatever the settings. A cache must hold the distinct ids of one batch; to let the
    next batch be prepared while one trains, those of both.

    Args:
      rows: size in rows; or else
      bytes: size in bytes, directory included.
      policy: which rows go first: "lru" those whose last use is longest ago; "lfu" those used by the fewest batches;
        "look_ahead" those that no batch announced by `data.virtualize` will use, by "lfu" among them.
      prepare_ahead: steps for which announced batches are prepared in advance; 0 prepares each batch in its step.
      threads: of the thread that prepares batches; more than 1 for transfers of very many rows.
      emulated_link: (bytes per second, latency in seconds) charged to every transfer, to see on a machine where host
        and device are one memory what a slow link would do. Emulation: off by default.

    Raises:
      ValueError: a value out of its range.
    """

    rows: int | None = None
    bytes: int | None = None
    policy: str = "lfu"
    prepare_ahead: int = 1
    threads: int = 1
    emulated_link: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Checks everything."""
        if (self.rows is None) == (self.bytes is None):
            raise ValueError(
                f"CacheConfig: rows or bytes must be given, and not both; got {self.rows} and {self.bytes}. Choose one."
            )
        for name, low, high in (("rows", 1, _MAX_CACHE_ROWS), ("bytes", 1, 2**62), ("threads", 1, 2**10)):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high
            ):
                raise ValueError(
                    f"CacheConfig: {name} must be an integer in [{low}, {high}]; got {value!r}. Change it."
                )
        if not isinstance(self.prepare_ahead, int) or self.prepare_ahead < 0:
            raise ValueError(f"CacheConfig: prepare_ahead must be at least 0; got {self.prepare_ahead!r}. Raise it.")
        if self.policy not in POLICIES:
            raise ValueError(
                f"CacheConfig: policy must be one of {POLICIES}; got {self.policy!r}. Choose one of these."
            )
        if self.emulated_link is not None:
            object.__setattr__(self, "emulated_link", tuple(self.emulated_link))
            if len(self.emulated_link) != 2 or self.emulated_link[0] <= 0 or self.emulated_link[1] < 0:
                raise ValueError(
                    "CacheConfig: emulated_link must be bytes per second above 0 and a latency in seconds; got "
                    f"{self.emulated_link}. Leave it out for none."
                )

    def emulated_link_arguments(self) -> dict[str, float]:
        """The emulated link as arguments of the op."""
        bandwidth, latency = self.emulated_link or (0.0, 0.0)
        return {"emulated_bytes_per_s": bandwidth, "emulated_latency_s": latency}

    def get_config(self) -> dict[str, Any]:
        """Returns the settings as values that JSON can hold."""
        return dataclasses.asdict(self)


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
    cache: Any = None

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
        if isinstance(self.cache, Mapping):
            object.__setattr__(self, "cache", CacheConfig(**self.cache))
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
        # A shared cache has its settings from whoever shares it.
        config["cache"] = None if self.cache is None else getattr(self.cache, "config", self.cache).get_config()
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
