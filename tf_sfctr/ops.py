"""Thin wrappers of the ops in the shared library."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_sfctr._loader import load_library

if TYPE_CHECKING:
    from tf_sfctr.table import EmbeddingTable

__all__ = ["Use", "announce", "join_batches", "lookup", "unique", "virtualize"]


def unique(ids: tf.Tensor, padding_id: int | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the distinct ids of a batch: the Virtual Sparse Ids of ScaleFreeCTR (arXiv 2104.08542, section 3.2).

    ```python
    unique_ids, inverse = sf.ops.unique(tf.constant([7, 7, -2], tf.int64))  # [7, -2], [0, 0, 1]
    ```

    Works eagerly, in a `tf.function` and in `tf.data`. The result does not depend on the number of threads. There is no
    gradient.

    Args:
      ids: int32 or int64 of any shape; every value is an id, negative ones too.
      padding_id: id that stands for "absent": left out of `unique_ids`, -1 in `inverse`.

    Returns:
      `unique_ids`, int64 [U] in order of first appearance, and `inverse`, int32 of the shape of `ids`, with
      `unique_ids[inverse] == ids`.

    Raises:
      TypeError: the ids are no integers.
    """
    ids = tf.convert_to_tensor(ids)
    if ids.dtype not in (tf.int32, tf.int64):
        raise TypeError(
            f"ops.unique: ids must be int32 or int64; got {ids.dtype.name}. "
            "Cast them, or hash them with tf_sfctr.data.hash_ids."
        )
    return load_library().sfctr_unique(
        ids=tf.cast(ids, tf.int64), has_padding=padding_id is not None, padding_id=padding_id or 0
    )


@dataclasses.dataclass
class Use:
    """One use of a table in a step.

    Attributes:
      table: the table that is read.
      ids: int64 of any shape.
      feature: what the caller calls it, for error texts.
      padding_id: id that reads as zeros and gets no update; None for none.
      combiner: None, "sum", "mean" or "sqrtn".
      splits: int64 [num_bags + 1], with a combiner: bag i is the ids from splits[i] to splits[i + 1].
      weights: float32, one per id, or None; with a combiner. They get no gradient.
      batch: for virtual ids, the batch they come from: `ids` are then int32 positions in it.
    """

    table: EmbeddingTable
    ids: tf.Tensor
    feature: str
    padding_id: int | None = None
    combiner: str | None = None
    splits: tf.Tensor | None = None
    weights: tf.Tensor | None = None
    batch: tf.Tensor | None = None


def virtualize(
    ids: Sequence[Sequence[tf.Tensor]], padding_ids: Sequence[int | None]
) -> tuple[list[list[tf.Tensor]], list[tf.Tensor]]:
    """Renames ids to virtual ids: positions among the distinct ids of their batch (arXiv 2104.08542, section 3.2).

    Works eagerly, in a `tf.function` and in `tf.data`. The result does not depend on the number of threads. There is no
    gradient.

    Args:
      ids: for each batch the ids of its features, int64 of any shapes.
      padding_ids: for each batch the id that stands for "absent", or None.

    Returns:
      For each batch the virtual ids of its features, int32 of their shapes, -1 for padding; and the batches, variant
      scalars. A batch is freed, with all that tables hold of it, when its last tensor is.
    """
    virtual, batches = load_library().sfctr_virtualize(
        [tensor for features in ids for tensor in features],
        B=len(ids),
        batch_sizes=[len(features) for features in ids],
        has_padding=[padding_id is not None for padding_id in padding_ids],
        padding_ids=[padding_id or 0 for padding_id in padding_ids],
    )
    remaining = iter(virtual)
    return [[next(remaining) for _ in features] for features in ids], list(batches)


def join_batches(batches: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the batch that all of `batches` are; an error in the step if they differ."""
    return batches[0] if len(batches) == 1 else load_library().sfctr_join_batches(batches)


def announce(tables: Sequence[EmbeddingTable], batches: Sequence[tf.Tensor]) -> tf.Operation:
    """Tells the caches of tables that batches, one per table, will be trained after those announced before."""
    return load_library().sfctr_announce([table.handle for table in tables], batches)


def lookup(uses: Sequence[Use], anchor: tf.Tensor, training: bool, trainable: bool = True) -> list[list[tf.Tensor]]:
    """Reads the embeddings of several uses of tables in one op.

    Missing ids read as their initial values; reading creates no rows. Duplicate ids are read once. In the backward pass
    the gradients are summed per unique row and each row's optimizer runs once, over all uses of its table in the step;
    that is also where rows are created. A gradient that is not finite is an error and changes no table.

    Args:
      uses: what to read.
      anchor: float32 scalar, the value of a trainable variable. It takes no part in the result; gradients reach the
        tables only if the tape watches it. Its own gradient is 0.
      training: whether a backward pass is to be expected. Without it gradients still update, but each use on its own.
      trainable: whether gradients update the tables at all.

    Returns:
      For every use the values of each column group: float32 `ids.shape + [dim]`, or `[num_bags, dim]` with a combiner.

    Raises:
      tf.errors.InvalidArgumentError: an id out of the vocabulary of a table with `input_dim`, or wrong splits.
    """
    groups = [use.table.output_dims for use in uses]
    rates = {id(table): table.learning_rates() for table in {id(use.table): use.table for use in uses}.values()}
    raw = [i for i, use in enumerate(uses) if use.batch is None]
    batches: list[Any] = [use.batch for use in uses]
    virtual_ids = [use.ids for use in uses]
    if raw:
        virtual, made = virtualize([[uses[i].ids] for i in raw], [uses[i].padding_id for i in raw])
        for i, (ids,), batch in zip(raw, virtual, made, strict=True):
            virtual_ids[i], batches[i] = ids, batch
    # The gradient is registered for the op, not a tf.custom_gradient: TensorFlow keeps the closures of those, and with
    # them the table, for ever.
    values = load_library().sfctr_lookup(
        handles=[use.table.handle for use in uses],
        batches=batches,
        virtual_ids=virtual_ids,
        splits=[use.splits for use in uses if use.combiner is not None],
        weights=[use.weights for use in uses if use.weights is not None],
        learning_rates=[rates[id(use.table)] for use in uses],
        anchor=anchor,
        V=sum(len(dims) for dims in groups),
        features=[use.feature for use in uses],
        combiners=[use.combiner or "none" for use in uses],
        has_weights=[use.weights is not None for use in uses],
        num_groups=[len(dims) for dims in groups],
        dims=[dim for dims in groups for dim in dims],
        training=training and trainable,
        trainable=trainable,
    )
    remaining = iter(values)
    return [[next(remaining) for _ in dims] for dims in groups]


@tf.RegisterGradient("SfctrLookup")
def _update_tables(op: Any, *gradients: Any) -> list[Any]:
    """Updates the tables that a lookup has read, and returns 0 as the gradient of its anchor."""
    num_uses, num_splits, num_weights = (op.get_attr(name) for name in ("N", "S", "W"))
    inputs = iter(op.inputs)
    handles, batches, virtual_ids, splits, weights, learning_rates = (
        [next(inputs) for _ in range(size)]
        for size in (num_uses, num_uses, num_uses, num_splits, num_weights, num_uses)
    )
    nothing = [None] * (len(op.inputs) - 1)
    if not op.get_attr("trainable"):
        return [*nothing, None]
    done = load_library().sfctr_apply_gradients(
        handles=handles,
        batches=batches,
        virtual_ids=virtual_ids,
        splits=splits,
        weights=weights,
        gradients=[
            tf.zeros_like(value) if gradient is None else tf.convert_to_tensor(gradient)
            for value, gradient in zip(op.outputs, gradients, strict=True)
        ],
        learning_rates=learning_rates,
        features=op.get_attr("features"),
        combiners=op.get_attr("combiners"),
        has_weights=op.get_attr("has_weights"),
    )
    return [*nothing, done]
