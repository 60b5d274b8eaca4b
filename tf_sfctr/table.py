"""Embedding tables in host memory."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_sfctr import initializers, ops, optimizers
from tf_sfctr._loader import load_library
from tf_sfctr.cache import MixCache
from tf_sfctr.config import CacheConfig, TableConfig

__all__ = ["EmbeddingTable", "TableStats"]

# Rows per call of the export op: 64 MiB of a row of 32 floats.
EXPORT_ROWS = 1 << 19


@dataclasses.dataclass(frozen=True)
class TableStats:
    """Figures of a table.

    Attributes:
      num_rows: rows that exist.
      row_bytes: bytes of those rows: embedding, optimizer state and, in a table of any ids, the id.
      index_bytes: bytes of what finds them.
      step: updates so far.
    """

    num_rows: int
    row_bytes: int
    index_bytes: int
    step: int


class EmbeddingTable:
    """Ids -> rows, in host memory; a row is an embedding and its optimizer state.

    ```python
    table = sf.EmbeddingTable(output_dim=16, optimizer=sf.optimizers.Adagrad(0.01), name="user")
    table.read([42, -7])  # [2, 16]
    ```

    Layers read and update it; several features of a `layers.EmbeddingCollection` may share it. A row exists from its
    first update on. Before that its id reads as its initial value, a pure function of (seed, id, column).

    Args:
      output_dim: width of the embedding; or several widths, to store several embeddings of an id in one row, each with
        its own initializer and optimizer (a wide weight and a deep vector: `output_dim=[1, 16]`).
      input_dim: size of a fixed vocabulary: ids are 0 ... input_dim - 1 and need no index. None: any 64-bit id.
      optimizer: of `tf_sfctr.optimizers`; one, or one per width. Default: Adagrad(0.01).
      embeddings_initializer: a Keras initializer or its name; one, or one per width.
      seed: of the initial values; None draws one from Python's `random`, which `keras.utils.set_random_seed` sets.
      name: for error texts and files.
      cache: rows in device memory in front of the table: a `CacheConfig`, or a `MixCache` to share; None for none.

    Raises:
      ValueError: an argument out of its range.
    """

    def __init__(
        self,
        output_dim: int | Sequence[int],
        input_dim: int | None = None,
        *,
        optimizer: Any = None,
        embeddings_initializer: Any = "uniform",
        seed: int | None = None,
        name: str = "table",
        cache: CacheConfig | MixCache | None = None,
    ) -> None:
        """See the class."""
        self.config = TableConfig(
            output_dim=output_dim,
            input_dim=input_dim,
            optimizer=optimizer,
            embeddings_initializer=embeddings_initializer,
            seed=random.getrandbits(62) if seed is None else seed,
            name=name,
            cache=cache,
        )
        cache = self.config.cache
        self.cache = MixCache(cache) if isinstance(cache, CacheConfig) else cache
        fan_in = [input_dim or dim for dim in self.output_dims]
        resolved = [
            initializers.resolve(initializer, rows, dim)
            for initializer, rows, dim in zip(self.config.initializers, fan_in, self.output_dims, strict=True)
        ]
        with tf.init_scope(), tf.device("CPU:0"):
            self.handle = load_library().sfctr_table(
                [] if self.cache is None else [self.cache.handle],
                table_name=name,
                input_dim=input_dim or 0,
                seed=self.config.seed,
                dims=list(self.output_dims),
                initializers=[kind for kind, _ in resolved],
                initializer_args=[value for _, values in resolved for value in values],
                optimizers=[optimizers.op_name(o) for o in self.config.optimizers],
                optimizer_args=[value for o in self.config.optimizers for value in optimizers.op_arguments(o)],
            )
            self._rates = [
                tf.Variable(o.learning_rate, dtype=tf.float32, trainable=False, name=f"{name}_learning_rate")
                if isinstance(o.learning_rate, (int, float))
                else o.learning_rate
                for o in self.config.optimizers
            ]
        if self.cache is not None:
            self.cache.add(self)

    @classmethod
    def from_config(cls, config: TableConfig) -> EmbeddingTable:
        """Creates the table that a `TableConfig` describes."""
        return cls(**{field.name: getattr(config, field.name) for field in dataclasses.fields(config)})

    @property
    def name(self) -> str:
        """Name for error texts and files."""
        return self.config.name

    @property
    def output_dims(self) -> tuple[int, ...]:
        """Widths of the column groups."""
        return self.config.output_dims

    @property
    def learning_rate(self) -> Any:
        """Learning rate of the first column group: a variable that may be assigned, or what the optimizer was given."""
        return self._rates[0]

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        for rate in self._rates:
            if not hasattr(rate, "assign"):
                raise ValueError(
                    f"EmbeddingTable '{self.name}': learning_rate must be a number or a variable to be assigned; "
                    f"it is {type(rate).__name__}. Create the optimizer with a float."
                )
        for rate in self._rates:
            rate.assign(value)

    def learning_rates(self) -> tf.Tensor:
        """Returns the learning rates of now, float32 [column groups]."""
        step = None
        rates = []
        for rate in self._rates:
            if callable(rate) and not hasattr(rate, "assign"):
                if step is None:
                    # Of the step under way, which a flush would cut in two.
                    step = load_library().sfctr_table_stats(self.handle, flush=False)[3]
                rate = rate(step)
            rates.append(tf.cast(tf.convert_to_tensor(rate), tf.float32))
        return tf.stack(rates)

    def stats(self) -> TableStats:
        """Returns the table's figures, after all pending updates."""
        return TableStats(*(int(value) for value in load_library().sfctr_table_stats(self.handle)))

    def get_config(self) -> dict[str, Any]:
        """Returns the settings, with the learning rates of now, as values that JSON can hold."""
        current = [
            dataclasses.replace(optimizer, learning_rate=float(rate))
            if isinstance(optimizer.learning_rate, (int, float)) and np.float32(optimizer.learning_rate) != float(rate)
            else optimizer
            for optimizer, rate in zip(self.config.optimizers, self._rates, strict=True)
        ]
        several = isinstance(self.config.optimizer, (list, tuple)) or len({id(rate) for rate in self._rates}) > 1
        return dataclasses.replace(self.config, optimizer=current if several else current[0]).get_config()

    def __bool__(self) -> bool:
        """A table is something, even without rows."""
        return True

    def __len__(self) -> int:
        """Number of rows that exist."""
        return self.stats().num_rows

    def read(self, ids: Any) -> Any:
        """Reads embeddings; creates nothing.

        Args:
          ids: integers of any shape.

        Returns:
          float32 `ids.shape + [output_dim]`; a list of such tensors if `output_dim` is a list.

        Raises:
          TypeError: the ids are no integers.
        """
        ids = tf.convert_to_tensor(ids)
        if not ids.dtype.is_integer or ids.dtype == tf.uint64:
            raise TypeError(
                f"EmbeddingTable '{self.name}': ids must be integers of int64; got {ids.dtype.name}. "
                "Cast them, or hash them with tf_sfctr.data.hash_ids."
            )
        ids = tf.cast(ids, tf.int64)
        use = ops.Use(self, ids, f"EmbeddingTable '{self.name}'")
        values = ops.lookup([use], tf.constant(0.0), training=False, trainable=False)[0]
        return values if self.config.has_groups else values[0]

    def assign(self, ids: Any, rows: Any) -> None:
        """Sets rows, creating those that are missing.

        Args:
          ids: int64 [n], distinct.
          rows: float32 [n, sum(output_dims)], embeddings (the optimizer state of new rows is initial, that of others
            stays), or [n, row_floats], embedding and optimizer state as `export(whole_rows=True)` gives them.

        Raises:
          tf.errors.InvalidArgumentError: wrong width, duplicate ids, or ids out of the vocabulary. Nothing is changed.
        """
        load_library().sfctr_table_import(
            self.handle, tf.convert_to_tensor(ids, tf.int64), tf.convert_to_tensor(rows, tf.float32)
        )

    def row_floats(self) -> int:
        """Floats of a row: embeddings and optimizer state."""
        _, rows, _ = load_library().sfctr_table_export(self.handle, 2**32, 1, whole_rows=True)
        return int(rows.shape[1])

    def export(
        self, whole_rows: bool = False, max_rows: int = EXPORT_ROWS
    ) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Yields the rows that exist, in parts, in the order of their creation (of their ids, with `input_dim`).

        Args:
          whole_rows: with optimizer state; else the embeddings as a reader sees them.
          max_rows: rows of a part at most.

        Yields:
          ids int64 [n], rows float32 [n, width].
        """
        cursor = 0
        while cursor >= 0:
            ids, rows, next_cursor = load_library().sfctr_table_export(
                self.handle, cursor, max_rows, whole_rows=whole_rows
            )
            cursor = int(next_cursor)
            yield ids.numpy(), rows.numpy()

    def set_step(self, step: int) -> None:
        """Sets the number of updates so far, from which Adam and schedules go on."""
        load_library().sfctr_table_set_step(self.handle, tf.constant(step, tf.int64))
