# SPDX-License-Identifier: Apache-2.0
"""Click-through-rate models: functional Keras that reads well, to be used or copied."""

from tf_sfctr.models.deepfm import DeepFM
from tf_sfctr.models.wide_deep import WideDeep

__all__ = ["DeepFM", "WideDeep"]
