# SPDX-License-Identifier: Apache-2.0
"""Finding and opening input files: local ones, gzip by suffix, and remote file systems through tensorflow-io."""

from __future__ import annotations

import glob
import gzip
import os
from collections.abc import Sequence
from typing import IO, Any, cast

import tensorflow as tf

_TENSORFLOW_IO_SCHEMES = ("s3://", "hdfs://", "viewfs://", "har://", "az://", "http://", "https://", "oss://")

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def is_remote(path: str) -> bool:
    """Whether the path has a scheme, as in `s3://bucket/file`."""
    return "://" in path


def resolve(where: str, files: Files) -> list[str]:
    """The paths that `files` names: one or several, commas between, with patterns like `part-*`, in sorted order.

    Raises:
      ValueError: no file is named.
      FileNotFoundError: a file or pattern does not exist.
      ImportError: a file system needs tensorflow-io, which is not there or does not load.
    """
    listed = [files] if isinstance(files, str | os.PathLike) else list(files)
    names = [name for item in listed for name in os.fspath(item).split(",") if name]
    if not names:
        raise ValueError(f"{where}: files must name at least one file; got {files!r}. Pass a path or a list of paths.")
    paths: list[str] = []
    for name in names:
        found = _find_remote(where, name) if is_remote(name) else _find_local(name)
        if not found:
            raise FileNotFoundError(f"{where}: files must exist; got {name!r}. Check the path or the pattern.")
        paths.extend(found)
    return paths


def _find_local(name: str) -> list[str]:
    return [name] if os.path.exists(name) else sorted(glob.glob(name))


def _find_remote(where: str, name: str) -> list[str]:
    """Looks on a file system of TensorFlow, or of tensorflow-io for the schemes that TensorFlow does not know."""
    if name.startswith(_TENSORFLOW_IO_SCHEMES):
        try:
            import tensorflow_io  # Importing it registers the file systems.
        except Exception as error:
            raise ImportError(
                f"{where}: files must be on a file system that TensorFlow knows; got {name!r}, which needs "
                f"tensorflow-io ({type(error).__name__}: {error}). Install it (pip install 'tf_sfctr[io]'), or copy "
                "the file to this machine."
            ) from error
        version = f"tensorflow-io {getattr(tensorflow_io, '__version__', '')} and "
    else:
        version = ""
    try:
        if any(mark in name for mark in "*?["):
            return sorted(tf.io.gfile.glob(name))
        return [name] if tf.io.gfile.exists(name) else []
    except tf.errors.UnimplementedError as error:
        raise ImportError(
            f"{where}: files must be on a file system that TensorFlow knows; got {name!r}, which {version}TensorFlow "
            f"{tf.__version__} cannot open ({error.message}). Use the TensorFlow that tensorflow-io was built for, or "
            "copy the file to this machine."
        ) from error


def open_stream(path: str) -> IO[bytes]:
    """Opens a file for reading in order, decompressed if its name ends in `.gz`."""
    if is_remote(path):
        stream = cast(IO[bytes], GFileStream(path))
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if path.endswith(".gz") else stream
    return cast(IO[bytes], gzip.open(path, "rb")) if path.endswith(".gz") else open(path, "rb")


class GFileStream:
    """A TensorFlow file as a Python binary file: `tf.io.gfile.GFile` lacks `readable` and friends."""

    def __init__(self, path: str) -> None:
        self._file: Any = tf.io.gfile.GFile(path, "rb")
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        return cast(bytes, self._file.read(size))

    def readline(self) -> bytes:
        return cast(bytes, self._file.readline())

    def seek(self, offset: int, whence: int = 0) -> int:
        self._file.seek(offset, whence)
        return cast(int, self._file.tell())

    def tell(self) -> int:
        return cast(int, self._file.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing to flush: the file is read only."""

    def close(self) -> None:
        self._file.close()
        self.closed = True

    def __enter__(self) -> GFileStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
