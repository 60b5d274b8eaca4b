# SPDX-License-Identifier: Apache-2.0
"""Removes duplicate ids in the input pipeline, and tells caches which batches will come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    import keras

    from tf_sfctr.table import EmbeddingTable

_WHERE = "data.virtualize"


def virtualize(
    dataset: tf.data.Dataset,
    model_or_tables: keras.Model | Mapping[Any, EmbeddingTable | Sequence[EmbeddingTable]],
    lookahead: int = 2,
    padding_ids: Mapping[Any, int | str] | None = None,
) -> tf.data.Dataset:
    """Replaces the ids of a dataset by Virtual Sparse Ids (arXiv 2104.08542), and announces its batches to caches.

    ```python
    model = sf.models.DeepFM(cache=sf.CacheConfig(rows=300_000))
    model.fit(sf.data.virtualize(train, model, lookahead=2))
    ```

    Duplicates are removed in the pipeline's threads, so the training step sees none. Tables with a cache learn of a
    batch as many batches ahead as `lookahead` says, and prepare its rows while others train. Results are the same bit
    for bit with and without. Batches that are never used (an epoch that ends early, an exception) are given up when
    their elements are freed.

    Make it the last step of the pipeline: elements hold references into this process, which files and other processes
    cannot keep. They may be used several times; only the first is prepared ahead.

    Args:
      dataset: of batches as Keras takes them: `x`, `(x, y)` or `(x, y, sample_weight)`; `x` a tensor, tuple or dict.
      model_or_tables: a functional model whose layers of tf_sfctr read its inputs; or, for any other model, a dict from
        feature (key of a dict, index of a tuple, None where `x` is one tensor) to its table, or several tables.
      lookahead: batches announced ahead, at least 0.
      padding_ids: with a dict of tables: feature -> id that means "absent", where the layer has one.

    Returns:
      The dataset with `VirtualIds` in place of the ids of these features. Features must be dense.

    Raises:
      ValueError: no feature is found, or a feature is not in the dataset, or lookahead is negative.
      TypeError: ids are not dense, or of a wrong dtype.
    """
    if isinstance(lookahead, bool) or not isinstance(lookahead, int) or lookahead < 0:
        raise ValueError(f"{_WHERE}: lookahead must be an integer of at least 0; got {lookahead!r}. Raise it.")
    if isinstance(model_or_tables, Mapping):
        features = {
            key: (tuple(tables) if isinstance(tables, Sequence) else (tables,), (padding_ids or {}).get(key))
            for key, tables in model_or_tables.items()
        }
    else:
        features = _features_of(model_or_tables)
    if not features:
        raise ValueError(
            f"{_WHERE}: the model must be functional, with an input that a layer of tf_sfctr reads; found none. "
            "Pass a dict of feature -> table."
        )
    _check(dataset.element_spec, features)
    # Features that the same tables read share one batch.
    groups: dict[Any, list[Any]] = {}
    for key, (tables, padding_id) in features.items():
        groups.setdefault((tuple(sorted(id(table) for table in tables)), padding_id), []).append(key)
    grouped = list(groups.values())

    def remove_duplicates(*element: Any) -> Any:
        return _replace(element, lambda x: _virtualize(x, features, grouped))

    def announce(*element: Any) -> Any:
        from tf_sfctr import ops

        x = _x(element if len(element) > 1 else element[0])
        pairs = [(table, _get(x, keys[0]).batch) for keys in grouped for table in features[keys[0]][0]]
        ops.announce([table for table, _ in pairs], [batch for _, batch in pairs])
        return element if len(element) > 1 else element[0]

    virtual = dataset.map(remove_duplicates, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).map(announce)
    return virtual.prefetch(lookahead) if lookahead else virtual


def _virtualize(x: Any, features: Mapping[Any, Any], grouped: Sequence[Sequence[Any]]) -> Any:
    from tf_sfctr import ops
    from tf_sfctr.layers._inputs import to_int64
    from tf_sfctr.virtual import VirtualIds

    ids, paddings = [], []
    for keys in grouped:
        read = [to_int64(f"{_WHERE}, feature {key!r}", _get(x, key), features[key][1]) for key in keys]
        ids.append([tensor for tensor, _ in read])
        paddings.append(read[0][1])
    virtual_ids, batches = ops.virtualize(ids, paddings)
    replaced = {
        key: VirtualIds(values, batch, padding or 0)
        for keys, group, batch, padding in zip(grouped, virtual_ids, batches, paddings, strict=True)
        for key, values in zip(keys, group, strict=True)
    }
    if isinstance(x, Mapping):
        return {key: replaced.get(key, value) for key, value in x.items()}
    if isinstance(x, tuple):
        return tuple(replaced.get(index, value) for index, value in enumerate(x))
    return replaced[None]


def _x(element: Any) -> Any:
    """The inputs of an element, as Keras finds them."""
    return element[0] if isinstance(element, tuple) else element


def _get(x: Any, key: Any) -> Any:
    return x if key is None else x[key]


def _replace(element: tuple[Any, ...], function: Any) -> Any:
    """Applies a function to the inputs of an element that `map` has given as arguments."""
    if len(element) > 1:
        return (function(element[0]), *element[1:])
    return (function(element[0][0]), *element[0][1:]) if isinstance(element[0], tuple) else function(element[0])


def _check(spec: Any, features: Mapping[Any, Any]) -> None:
    from tf_sfctr.layers._inputs import check_dtype

    x = _x(spec)
    known = list(x) if isinstance(x, Mapping) else list(range(len(x))) if isinstance(x, tuple) else [None]
    for key in features:
        if key not in known:
            raise ValueError(
                f"{_WHERE}: feature {key!r} must be one of the dataset's, {known}; it is not. Correct the name, or the "
                "tables."
            )
        feature = _get(x, key)
        if not isinstance(feature, tf.TensorSpec):
            raise TypeError(
                f"{_WHERE}: feature {key!r} must be dense; got {type(feature).__name__}. Leave it out: layers remove "
                "its duplicates in the step."
            )
        check_dtype(f"{_WHERE}, feature {key!r}", feature.dtype)


def _features_of(model: keras.Model) -> dict[Any, tuple[tuple[EmbeddingTable, ...], Any]]:
    """Feature -> tables and padding id, from the graph of a functional model."""
    from tf_sfctr.layers import CachedEmbedding, EmbeddingCollection

    struct = getattr(model, "_inputs_struct", None)
    if isinstance(struct, Mapping):
        keys = {id(tensor): key for key, tensor in struct.items()}
    elif isinstance(struct, (list, tuple)) and len(struct) > 1:
        keys = {id(tensor): index for index, tensor in enumerate(struct)}
    else:
        keys = {id(tensor): None for tensor in (struct if isinstance(struct, (list, tuple)) else [struct])}
    found: dict[Any, tuple[list[EmbeddingTable], Any]] = {}

    def note(tensor: Any, table: EmbeddingTable, padding_id: Any) -> None:
        if id(tensor) not in keys:
            return
        tables, padding = found.setdefault(keys[id(tensor)], ([], padding_id))
        if padding != padding_id:
            raise ValueError(
                f"{_WHERE}: feature {keys[id(tensor)]!r} must have one padding_id in all layers that read it; got "
                f"{padding!r} and {padding_id!r}. Make them equal, or pass a dict of the features to virtualize."
            )
        if all(table is not other for other in tables):
            tables.append(table)

    for layer in model._flatten_layers() if struct is not None else ():
        for node in getattr(layer, "_inbound_nodes", ()):
            inputs = node.arguments.args[0] if node.arguments.args else None
            if isinstance(layer, CachedEmbedding):
                note(inputs, layer.table, layer.padding_id)
            elif isinstance(layer, EmbeddingCollection) and isinstance(inputs, Mapping):
                for feature, config in layer.feature_configs.items():
                    note(inputs[feature], layer.tables[config.table], config.padding_id)
    return {key: (tuple(tables), padding) for key, (tables, padding) in found.items()}
