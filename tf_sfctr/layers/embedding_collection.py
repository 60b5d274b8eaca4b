"""Many features over shared tables, read and updated by one op each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_sfctr import ops
from tf_sfctr.config import FeatureConfig, TableConfig
from tf_sfctr.layers import _inputs
from tf_sfctr.layers._base import TableLayer
from tf_sfctr.table import EmbeddingTable


@keras.saving.register_keras_serializable(package="tf_sfctr")
class EmbeddingCollection(TableLayer):
    """Turns a dict of features into a dict of embeddings, with one op forward and one backward for all of them.

    ```python
    collection = sf.layers.EmbeddingCollection(
        tables=[sf.TableConfig(16, name="item"), sf.TableConfig(8, 1000, name="shop")],
        features={
            "clicked": sf.FeatureConfig("item", combiner="mean", padding_id=0),
            "candidate": sf.FeatureConfig("item"),
            "shop": sf.FeatureConfig("shop"),
        },
    )
    collection({"clicked": clicked, "candidate": candidate, "shop": shop})  # {"clicked": [B, 16], ...}
    ```

    A table used by several features sums their gradients: each touched row gets one update per step. Otherwise as
    `CachedEmbedding`.

    Args:
      tables: settings of the tables, by distinct names.
      features: settings of each feature, by its name.
      **kwargs: of `keras.layers.Layer`.

    Call with:
      inputs: dict of feature -> ids, of the kinds that `CachedEmbedding` takes.
      weights: dict of feature -> weights, for features with a combiner; may leave features out.

    Returns:
      dict of feature -> embeddings, as `CachedEmbedding` returns them.

    Raises:
      ValueError: a feature names no table, or the inputs lack a feature.
      TypeError: ids of a wrong dtype.
    """

    def __init__(
        self,
        tables: Sequence[TableConfig | Mapping[str, Any]],
        features: Mapping[str, FeatureConfig | Mapping[str, Any]],
        **kwargs: Any,
    ) -> None:
        """See the class."""
        super().__init__(**kwargs)
        configs = [config if isinstance(config, TableConfig) else TableConfig(**config) for config in tables]
        self.feature_configs = {
            name: config if isinstance(config, FeatureConfig) else FeatureConfig(**config)
            for name, config in features.items()
        }
        names = [config.name for config in configs]
        where = self._where
        if len(set(names)) != len(names) or not names:
            raise ValueError(f"{where}: tables must have distinct names; got {names}. Set TableConfig(name=...).")
        for feature, feature_config in self.feature_configs.items():
            if feature_config.table not in names:
                raise ValueError(
                    f"{where}: feature '{feature}' must name one of the tables {names}; got '{feature_config.table}'. "
                    "Add the table or correct the name."
                )
        self.tables = {config.name: EmbeddingTable.from_config(config) for config in configs}
        self._add_tables(self.tables)

    def _feature_where(self, feature: str) -> str:
        return f"{self._where}, feature '{feature}'"

    def _check_inputs(self, inputs: Any) -> None:
        if not isinstance(inputs, Mapping) or any(feature not in inputs for feature in self.feature_configs):
            got = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise ValueError(
                f"{self._where}: inputs must be a dict with the features "
                f"{sorted(self.feature_configs)}; got {got}. Pass ids for every feature."
            )

    def call(self, inputs: Any, weights: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Reads the embeddings of all features."""
        self._check_inputs(inputs)
        weights = weights or {}
        bags = {
            feature: _inputs.read_inputs(
                self._feature_where(feature),
                self.tables[config.table],
                inputs[feature] if tf.is_tensor(inputs[feature]) else tf.convert_to_tensor(inputs[feature]),
                weights.get(feature),
                config.combiner,
                config.padding_id,
            )
            for feature, config in self.feature_configs.items()
        }
        uses, members = _fuse(list(bags.values()))
        values = _unfuse(self._lookup(uses, training), members, list(bags.values()))
        return {feature: self._finish(bag, value) for (feature, bag), value in zip(bags.items(), values, strict=True)}

    def compute_output_spec(self, inputs: Any, weights: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Checks features and dtypes already while a functional model is built."""
        del weights, training
        self._check_inputs(inputs)
        return {
            feature: self._output_spec(
                self._feature_where(feature), self.tables[config.table], inputs[feature], config.combiner
            )
            for feature, config in self.feature_configs.items()
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the settings; the rows are saved beside."""
        return {
            **super().get_config(),
            "tables": [table.get_config() for table in self.tables.values()],
            "features": {
                name: {"table": config.table, "combiner": config.combiner, "padding_id": config.padding_id}
                for name, config in self.feature_configs.items()
            },
        }


def _fuse(bags: list[_inputs.Bags]) -> tuple[list[ops.Use], list[list[int]]]:
    """Joins the uses without combiner that read one table alike, so that their duplicates are found once."""
    groups: dict[Any, list[int]] = {}
    for index, bag in enumerate(bags):
        use = bag.use
        alike = use.combiner is None and use.ids.shape.rank is not None
        key = (id(use.table), use.padding_id, use.batch is None) if alike else index
        groups.setdefault(key, []).append(index)
    uses = []
    for members in groups.values():
        use = bags[members[0]].use
        if len(members) > 1:
            ids = tf.concat([tf.reshape(bags[i].use.ids, [-1]) for i in members], 0)
            feature = ", ".join(bags[i].use.feature for i in members[:3]) + (", ..." if len(members) > 3 else "")
            batches = [bags[i].use.batch for i in members]
            batch = None if use.batch is None else ops.join_batches(batches)
            use = ops.Use(use.table, ids, feature, use.padding_id, batch=batch)
        uses.append(use)
    return uses, list(groups.values())


def _unfuse(results: list[list[tf.Tensor]], groups: list[list[int]], bags: list[_inputs.Bags]) -> list[list[tf.Tensor]]:
    """Cuts the values of joined uses into those of the features."""
    by_feature: list[list[tf.Tensor]] = [[] for _ in bags]
    for values, members in zip(results, groups, strict=True):
        if len(members) == 1:
            by_feature[members[0]] = values
            continue
        sizes = [tf.size(bags[i].use.ids) for i in members]
        for value in values:
            for i, part in zip(members, tf.split(value, tf.stack(sizes), num=len(members)), strict=True):
                shape = tf.concat([tf.shape(bags[i].use.ids), [value.shape[-1]]], 0)
                part = tf.reshape(part, shape)
                by_feature[i].append(tf.ensure_shape(part, [*bags[i].use.ids.shape, value.shape[-1]]))
    return by_feature
