"""The one loader of the shared library that holds the TensorFlow ops."""

from __future__ import annotations

import functools
import importlib
import pathlib
import types
from typing import Any

LIBRARY_NAME = "_sfctr_ops.so"


@functools.cache
def load_library() -> Any:
    """Loads the shared library once and returns the module of generated op wrappers.

    ```python
    ops = load_library()
    ops.sfctr_mix_ids(...)
    ```

    Returns:
      The module that `tf.load_op_library` generates; the same one on every call.

    Raises:
      ImportError: the library is missing, was built for another TensorFlow, or cannot be loaded. The text names the
        path tried, the TensorFlow it was built for and the one that runs.
    """
    import tensorflow as tf

    path = pathlib.Path(__file__).with_name(LIBRARY_NAME)
    built_for = _built_for()
    check_loadable(path, built_for, tf.__version__)
    try:
        return tf.load_op_library(str(path))
    except (tf.errors.OpError, OSError) as error:
        raise ImportError(_describe(path, built_for, tf.__version__, f"it does not load: {error}")) from error


def check_loadable(path: pathlib.Path, built_for: str | None, running: str) -> None:
    """Checks, before anything is loaded, that the library exists and was built for the TensorFlow that runs.

    TensorFlow's C++ interface changes with its minor version: a library for another one fails with undefined symbols at
    best, and reads foreign memory at worst.

    Args:
      path: the shared library.
      built_for: version of the TensorFlow it was built for; None when unknown, as in a source tree.
      running: version of the TensorFlow that runs.

    Raises:
      ImportError: it cannot be loaded; the text says what to do.
    """
    if built_for is None or not path.exists():
        raise ImportError(
            _describe(
                path,
                built_for,
                running,
                "this is a source tree or an incomplete installation. Build the wheel and install it: make wheel",
            )
        )
    if _minor(built_for) != _minor(running):
        raise ImportError(
            _describe(
                path,
                built_for,
                running,
                f"the minor versions must be equal. Install TensorFlow {_minor(built_for)} "
                f"(pip install 'tensorflow-cpu=={_minor(built_for)}.*'), or a tf_sfctr built for {_minor(running)}",
            )
        )


def _built_for() -> str | None:
    """Returns the version of the TensorFlow that this installation was built for; None in a source tree."""
    try:
        # By name: the module exists in the wheel only.
        build_info: types.ModuleType = importlib.import_module("tf_sfctr._build_info")
    except ModuleNotFoundError:
        return None
    return str(build_info.TENSORFLOW_VERSION)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _describe(path: pathlib.Path, built_for: str | None, running: str, problem: str) -> str:
    return (
        f"tf_sfctr: cannot load {path} (built for TensorFlow {built_for or 'unknown'}; TensorFlow {running} runs): "
        f"{problem}."
    )
