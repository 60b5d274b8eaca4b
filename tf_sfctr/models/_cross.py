# SPDX-License-Identifier: Apache-2.0
"""Ids of combinations of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_sfctr.data import hash_ids


@keras.saving.register_keras_serializable(package="tf_sfctr")
class Cross(keras.layers.Layer):
    """Turns ids of features into ids of pairs of features: the cross-product transformation of Wide & Deep.

    ```python
    Cross([(0, 1)])(np.array([[7, 9], [7, -2]]))  # int64 [2, 1]
    ```

    Args:
      pairs: the features of each pair, by position.
      **kwargs: of `keras.layers.Layer`.

    Call with:
      inputs: int64 [B, F].

    Returns:
      int64 [B, len(pairs)]: equal where both ids are equal; otherwise they differ but for chance, of 2^-64 a pair.

    Raises:
      ValueError: a position that is no feature.
    """

    def __init__(self, pairs: Sequence[Sequence[int]], **kwargs: Any) -> None:
        """See the class."""
        super().__init__(**kwargs)
        self.pairs = [tuple(pair) for pair in pairs]
        self.supports_jit = False

    def build(self, input_shape: Any) -> None:
        """Checks the positions."""
        for pair in self.pairs:
            if len(pair) != 2 or not all(0 <= position < input_shape[-1] for position in pair):
                raise ValueError(
                    f"Cross '{self.name}': pairs must be of positions from 0 to {input_shape[-1] - 1}; got {pair}. "
                    "Count the categorical features from 0, in the order of the inputs."
                )

    def call(self, inputs: Any) -> Any:
        """Returns the ids of the pairs."""
        first, second = (tf.gather(inputs, [pair[side] for pair in self.pairs], axis=1) for side in (0, 1))
        # The bits of one id are mixed before the other is added, so that (a, b), (b, a) and (a + 1, b - 1) differ.
        return hash_ids(hash_ids(first) + second)

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        """int64 [B, len(pairs)]."""
        return keras.KerasTensor((*inputs.shape[:-1], len(self.pairs)), dtype="int64")

    def get_config(self) -> dict[str, Any]:
        """Returns the settings."""
        return {**super().get_config(), "pairs": [list(pair) for pair in self.pairs]}
