# SPDX-License-Identifier: Apache-2.0
"""From Arrow columns to the arrays of a block: ids, numbers and labels, whole columns at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tf_sfctr._loader import load_library
from tf_sfctr.data._pipeline import Block
from tf_sfctr.data.ids import fingerprint

# What stands for "missing" in an integer column whose ids are passed through, and in a numeric column's buckets.
MISSING_ID = -1
_MISSING_BUCKET = np.iinfo(np.int64).min

Buckets = bool | Mapping[str, Sequence[float]]


class MalformedError(ValueError):
    """A row that cannot be used; the text says what it must be, without file and line."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns to read and what to make of them.

    Attributes:
      where: the reader's name, for error texts.
      label: name of the label column.
      categorical: names of the columns that become ids.
      numeric: names of the columns that become float32 numbers.
      positive: the label's text that counts as 1, all others as 0; None reads the label as a number.
      binary_label: whether a numeric label must be 0 or 1.
      transform: "none", or "log" for log(1 + max(x, 0)) of the numeric columns.
      bucketize_numeric: whether numeric columns also become ids, after the categorical ones: False; True for buckets
        that grow as log(x) ** 2; or the boundaries of each column to bucket.
      hash_ids: False passes integers through as they are.
      missing: texts that mean "no value"; always "".
      strip: whether to cut white space around values, and a full stop after the label.
    """

    where: str
    label: str
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    positive: str | None = None
    binary_label: bool = False
    transform: str = "none"
    bucketize_numeric: Buckets = False
    hash_ids: bool = True
    missing: tuple[str, ...] = ("",)
    strip: bool = False

    def __post_init__(self) -> None:
        if self.transform not in ("none", "log"):
            raise ValueError(f"{self.where}: transform must be 'none' or 'log'; got {self.transform!r}.")
        for name in self.bucketed:
            if name not in self.numeric:
                raise ValueError(
                    f"{self.where}: bucketize_numeric must name numeric columns; got {name!r}. Add it to numeric."
                )
        if not self.categorical and not self.numeric:
            raise ValueError(
                f"{self.where}: categorical and numeric must name a column between them; got none. Name the features."
            )

    @property
    def bucketed(self) -> tuple[str, ...]:
        """Numeric columns that also become ids."""
        if isinstance(self.bucketize_numeric, Mapping):
            return tuple(self.bucketize_numeric)
        return self.numeric if self.bucketize_numeric else ()

    @property
    def id_names(self) -> tuple[str, ...]:
        """Names of the columns of `Block.categorical`."""
        return self.categorical + self.bucketed

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns of the file that are read, each once."""
        return tuple(dict.fromkeys((self.label, *self.numeric, *self.categorical)))

    def require(self, available: Sequence[str], path: str) -> None:
        """Raises ValueError if the file lacks a column."""
        for role, names in (("label", (self.label,)), ("categorical", self.categorical), ("numeric", self.numeric)):
            for name in names:
                if name not in available:
                    shown = ", ".join(available[:50]) + (", ..." if len(available) > 50 else "")
                    raise ValueError(
                        f"{self.where}: {role} must name columns of {path}; got {name!r}. It has: {shown}."
                    )

    def encode(self, batch: pa.RecordBatch) -> Block:
        """The block of a record batch that has the needed columns."""
        values = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
        numbers = np.empty((batch.num_rows, len(self.numeric)), np.float32)
        for index, name in enumerate(self.numeric):
            numbers[:, index] = self._numbers(name, values[name])
        ids = self._ids([values[name] for name in self.categorical], batch.num_rows)
        if self.bucketed:
            ids = np.concatenate([ids, self._buckets(numbers)], axis=1)
        if self.transform == "log":
            log_counts(numbers)
        else:
            np.nan_to_num(numbers, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return Block(numbers, ids, self._labels(values[self.label]))

    def _numbers(self, name: str, array: pa.Array) -> np.ndarray:
        """Float values, NaN where missing."""
        if is_text(array.type):
            array = pc.cast(self._clean(array, null=True), pa.float32())
        elif pa.types.is_boolean(array.type):
            array = pc.cast(array, pa.float32())
        elif not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            raise TypeError(
                f"{self.where}: numeric column {name!r} must hold numbers; got {array.type}. Name it in categorical."
            )
        return array.to_numpy(zero_copy_only=False)

    def _labels(self, array: pa.Array) -> np.ndarray:
        if self.positive is not None:
            if not is_text(array.type):
                array = pc.cast(array, pa.string())
            array = self._clean(array, null=True)
            if self.strip:
                array = pc.utf8_rtrim(pc.cast(array, pa.string()), ".")
            if array.null_count:
                raise MalformedError(f"must have a value in label column {self.label}; got none")
            label = pc.equal(pc.cast(array, pa.string()), self.positive).to_numpy(zero_copy_only=False)
            return label.astype(np.float32).reshape(-1, 1)
        label = self._numbers(self.label, array).astype(np.float32, copy=False)
        if self.binary_label:
            bad = ~((label == 0) | (label == 1))
            rule = "must have the label 0 or 1"
        else:
            bad = np.isnan(label)
            rule = f"must have a number in label column {self.label}"
        if bad.any():
            value = label[bad.argmax()]
            raise MalformedError(f"{rule}; got {'none' if np.isnan(value) else f'{value:g}'}")
        return np.ascontiguousarray(label).reshape(-1, 1)

    def _clean(self, array: pa.Array, null: bool) -> pa.Array:
        """Text without surrounding space; what means "missing" becomes null, or the empty string."""
        if self.strip:
            array = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
        texts = self.missing if null else tuple(text for text in self.missing if text)
        if texts:
            is_missing = pc.is_in(array, value_set=pa.array(texts, array.type))
            array = pc.if_else(is_missing, pa.scalar(None if null else "", array.type), array)
        return array

    def _ids(self, arrays: list[pa.Array], num_rows: int) -> np.ndarray:
        """Ids of the categorical columns: int64 [num_rows, len(arrays)]."""
        if not arrays:
            return np.empty((num_rows, 0), np.int64)
        texts: list[int] = []
        integers: list[int] = []
        arrays = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in arrays]
        for index, array in enumerate(arrays):
            (texts if is_text(array.type) else integers).append(index)
        if not integers:
            return self._text_ids(arrays, self.categorical)
        if not texts:
            return self._integer_ids(arrays, self.categorical)
        ids = np.empty((num_rows, len(arrays)), np.int64)
        ids[:, texts] = self._text_ids([arrays[i] for i in texts], [self.categorical[i] for i in texts])
        ids[:, integers] = self._integer_ids([arrays[i] for i in integers], [self.categorical[i] for i in integers])
        return ids

    def _text_ids(self, arrays: list[pa.Array], names: Sequence[str]) -> np.ndarray:
        if not self.hash_ids:
            raise TypeError(
                f"{self.where}: categorical column {names[0]!r} must hold integers with hash_ids=False; got "
                f"{arrays[0].type}. Leave hash_ids=True for strings."
            )
        data, offsets = [], []
        for array in arrays:
            if self.strip or any(self.missing):
                array = self._clean(array, null=False)
            if array.null_count:
                array = pc.fill_null(array, "")
            if array.type not in (pa.string(), pa.binary()):
                array = pc.cast(array, pa.binary())
            _, bounds, values = array.buffers()
            first, size = array.offset, len(array)
            bounds = np.frombuffer(bounds, np.int32)[first : first + size + 1] if size else np.zeros(1, np.int32)
            offsets.append(bounds)
            data.append(np.frombuffer(values, np.uint8) if values is not None else np.empty(0, np.uint8))
        salts = [fingerprint(name) for name in names]
        return _on_host(load_library().sfctr_fingerprint, data=data, offsets=offsets, salts=salts)

    def _integer_ids(self, arrays: list[pa.Array], names: Sequence[str]) -> np.ndarray:
        columns, nulls = [], {}
        for index, (name, array) in enumerate(zip(names, arrays, strict=True)):
            if array.null_count:
                nulls[index] = pc.is_null(array).to_numpy(zero_copy_only=False)
                array = pc.fill_null(array, False if pa.types.is_boolean(array.type) else 0)
            if pa.types.is_boolean(array.type):
                array = pc.cast(array, pa.int64())
            if not pa.types.is_integer(array.type):
                raise TypeError(
                    f"{self.where}: categorical column {name!r} must hold strings or integers; got {array.type}. "
                    "Name it in numeric."
                )
            values = array.to_numpy(zero_copy_only=False)
            columns.append(values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False))
        salts = [fingerprint(name) for name in names]
        if self.hash_ids:
            ids = _on_host(load_library().sfctr_mix_columns, values=columns, salts=salts)
        else:
            ids = np.stack(columns, axis=1)
        if nulls:
            ids = np.array(ids)
            for index, is_null in nulls.items():
                ids[is_null, index] = _wrap(fingerprint("") + salts[index]) if self.hash_ids else MISSING_ID
        return ids

    def _buckets(self, numbers: np.ndarray) -> np.ndarray:
        """int64 ids [B, bucketed] of the numbers' buckets, by the law of integer columns."""
        columns = []
        for name in self.bucketed:
            values = numbers[:, self.numeric.index(name)].astype(np.float64)
            missing = np.isnan(values)
            if isinstance(self.bucketize_numeric, Mapping):
                bucket = np.searchsorted(np.asarray(self.bucketize_numeric[name], np.float64), values, side="right")
            else:
                bucket = log_buckets(values)
            columns.append(np.where(missing, _MISSING_BUCKET, bucket))
        salts = [fingerprint(name) for name in self.bucketed]
        return _on_host(load_library().sfctr_mix_columns, values=columns, salts=salts)


def log_counts(counts: np.ndarray) -> np.ndarray:
    """log(1 + max(x, 0)) of float32 counts, 0 where missing, in place."""
    # Not log1p, which NumPy does not vectorise: for counts, which are integers, the sum is exact.
    np.fmax(counts, 0, out=counts)
    counts += 1
    return np.log(counts, out=counts)


def log_buckets(values: np.ndarray) -> np.ndarray:
    """Buckets of counts: each value up to 2 has its own, above it they are floor(log(x) ** 2) + 2."""
    with np.errstate(invalid="ignore"):
        grown = np.floor(np.log(np.fmax(values, 3.0)) ** 2) + 2
        return np.where(values > 2, grown, np.nan_to_num(np.floor(values))).astype(np.int64)


def is_text(kind: pa.DataType) -> bool:
    """Whether Arrow values of this type are strings or bytes."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _on_host(op: Any, salts: list[int], **columns: list[np.ndarray]) -> np.ndarray:
    with tf.device("/CPU:0"):
        ids = op(**columns, salts=np.asarray(salts, np.int64))
    return np.asarray(ids.numpy())
