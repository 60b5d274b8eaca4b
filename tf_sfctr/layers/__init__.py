"""Keras layers over embedding tables."""

from tf_sfctr.layers.cached_embedding import CachedEmbedding
from tf_sfctr.layers.embedding_collection import EmbeddingCollection

__all__ = ["CachedEmbedding", "EmbeddingCollection"]
