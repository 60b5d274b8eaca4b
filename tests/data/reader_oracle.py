# SPDX-License-Identifier: Apache-2.0
"""What the readers must deliver, row by row in plain Python, and small files to read."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

NUMERIC = [f"I{i}" for i in range(1, 14)]
CATEGORICAL = [f"C{i}" for i in range(1, 27)]

_MASK = (1 << 64) - 1


def signed(value: int) -> int:
    """The low 64 bits as a signed integer."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


@functools.cache
def fingerprint64(text: str | bytes) -> int:
    """Fingerprint64 by TensorFlow's own op."""
    data = text.encode() if isinstance(text, str) else text
    return int.from_bytes(bytes(tf.fingerprint([data]).numpy()[0]), "little")


def mix64(value: int) -> int:
    """The finaliser of SplitMix64."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def text_id(text: str | bytes, name: str) -> int:
    """The id of a string in a column."""
    return signed(fingerprint64(text) + fingerprint64(name))


def integer_id(value: int, name: str) -> int:
    """The id of an integer in a column."""
    return signed(mix64(value) + fingerprint64(name))


def log_count(text: str) -> float:
    """The transform of a count."""
    return math.log(1 + max(float(text), 0)) if text else 0.0


def criteo_rows(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, ids and labels of lines of Criteo's format."""
    fields = [line.rstrip("\r\n").split("\t") for line in lines]
    numbers = [[log_count(text) for text in row[1:14]] for row in fields]
    ids = [[text_id(text, name) for text, name in zip(row[14:], CATEGORICAL, strict=True)] for row in fields]
    return np.array(numbers), np.array(ids), np.array([[float(row[0])] for row in fields])


def criteo_line(number: int) -> str:
    """A line whose fields depend on its number, with some of them missing."""
    counts = ["" if (number + i) % 5 == 0 else str((number * 7 + i * i) % 1000 - 2) for i in range(13)]
    categories = ["" if (number + i) % 7 == 0 else f"{(number * 2654435761 + i) % (1 << 32):08x}" for i in range(26)]
    categories[0] = f"row{number}"
    return "\t".join([str(number % 2), *counts, *categories])


def write_lines(path: pathlib.Path, numbers: Sequence[int], end: str = "\n") -> list[str]:
    """Writes lines of Criteo's format, and returns them."""
    lines = [criteo_line(number) for number in numbers]
    path.write_bytes("".join(line + end for line in lines).encode())
    return lines


def read_all(dataset: tf.data.Dataset) -> tuple[Any, Any, Any, list[int]]:
    """Numbers, ids and labels of a whole data set, and the sizes of its batches."""
    numbers, ids, labels = [], [], []
    for features, label in dataset:
        assert len(label) == len(next(iter(features.values())))
        labels.append(label.numpy())
        numbers.append(features["numeric"].numpy() if "numeric" in features else np.empty((len(label), 0)))
        ids.append(features["categorical"].numpy() if "categorical" in features else np.empty((len(label), 0)))
    sizes = [len(part) for part in labels]
    if not sizes:
        return None, None, None, []
    return np.concatenate(numbers), np.concatenate(ids), np.concatenate(labels), sizes


def row_numbers(dataset: tf.data.Dataset, num_rows: int) -> list[int]:
    """Which of the lines 0 .. num_rows - 1 of `criteo_line` a data set holds, in its order."""
    number_of = {text_id(f"row{number}", "C1"): number for number in range(num_rows)}
    _, ids, _, _ = read_all(dataset)
    return [] if ids is None else [number_of[int(value)] for value in ids[:, 0]]
