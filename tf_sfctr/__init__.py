"""Train click-through-rate models in TensorFlow with embedding tables far larger than device memory."""

from tf_sfctr import callbacks, config, data, initializers, layers, models, ops, optimizers
from tf_sfctr.config import FeatureConfig, TableConfig
from tf_sfctr.table import EmbeddingTable, TableStats

__all__ = [
    "EmbeddingTable",
    "FeatureConfig",
    "TableConfig",
    "TableStats",
    "callbacks",
    "config",
    "data",
    "initializers",
    "layers",
    "models",
    "ops",
    "optimizers",
]
