"""Train click-through-rate models in TensorFlow with embedding tables far larger than device memory."""

from tf_sfctr import callbacks, config, data, initializers, layers, models, ops, optimizers
from tf_sfctr.cache import CacheStats, MixCache
from tf_sfctr.config import CacheConfig, FeatureConfig, TableConfig
from tf_sfctr.table import EmbeddingTable, TableStats
from tf_sfctr.virtual import VirtualIds

__all__ = [
    "CacheConfig",
    "CacheStats",
    "EmbeddingTable",
    "FeatureConfig",
    "MixCache",
    "TableConfig",
    "TableStats",
    "VirtualIds",
    "callbacks",
    "config",
    "data",
    "initializers",
    "layers",
    "models",
    "ops",
    "optimizers",
]
