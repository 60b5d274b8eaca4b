# SPDX-License-Identifier: Apache-2.0
"""The rows of a layer's tables in Keras model files.

Keras keeps a layer's variables in one HDF5 file, made in memory. Rows may be larger than that, so they are assets:
NumPy files that go through the disk, part by part. A short description of them lies among the variables.
"""

from __future__ import annotations

import json
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tf_sfctr.table import EXPORT_ROWS, EmbeddingTable

_VERSION = 1
_DESCRIPTION = "tables"


class SavedRows:
    """Saves and loads the rows of some tables on behalf of a layer.

    Args:
      where: the layer, for error texts.
      tables: its tables by name.
    """

    def __init__(self, where: str, tables: Mapping[str, EmbeddingTable]) -> None:
        self._where = where
        self._tables = list(tables.values())
        self._rows_due = 0  # described by loaded variables, not loaded yet

    def save_description(self, store: Any) -> None:
        """Writes to Keras's store of variables what the tables are like."""
        description = [_describe(table) for table in self._tables]
        store[_DESCRIPTION] = np.frombuffer(json.dumps(description).encode(), np.uint8)

    def load_description(self, store: Any) -> None:
        """Checks what `save_description` wrote.

        Raises:
          ValueError: the saved tables have other widths or optimizers. Nothing is changed.
        """
        if _DESCRIPTION not in list(store.keys()):
            return
        description = json.loads(bytes(np.asarray(store[_DESCRIPTION])))
        if len(description) != len(self._tables):
            raise ValueError(
                f"{self._where}: tables must be as many as were saved, {len(description)}; got {len(self._tables)}. "
                "Build the model with the settings it was saved with."
            )
        for table, saved in zip(self._tables, description, strict=True):
            _check(self._where, table, saved)
        self._rows_due = sum(saved["num_rows"] for saved in description)

    def save(self, folder: str) -> None:
        """Writes all rows, optimizer state included, to a folder."""
        for index, table in enumerate(self._tables):
            _save_table(table, pathlib.Path(folder) / str(index))

    def load(self, folder: str) -> None:
        """Reads what `save` wrote.

        Raises:
          ValueError: the files do not fit the tables or are not whole. Nothing is changed.
        """
        saved = [
            _open_table(table, pathlib.Path(folder) / str(index), self._where)
            for index, table in enumerate(self._tables)
        ]
        for table, (description, ids, rows) in zip(self._tables, saved, strict=True):
            for begin in range(0, len(ids), EXPORT_ROWS):
                table.assign(ids[begin : begin + EXPORT_ROWS], rows[begin : begin + EXPORT_ROWS])
            table.set_step(description["step"])
        self._rows_due = 0

    def check_loaded(self) -> None:
        """Warns, once, if variables were loaded without the rows that belong to them."""
        if self._rows_due == 0:
            return
        warnings.warn(
            f"{self._where}: load_weights() has loaded the dense weights, but not the {self._rows_due} rows saved with "
            "them: Keras keeps assets in whole models only. Use model.save() and keras.models.load_model().",
            stacklevel=3,
        )
        self._rows_due = 0


def _describe(table: EmbeddingTable) -> dict[str, Any]:
    stats = table.stats()
    return {
        "version": _VERSION,
        "output_dims": list(table.output_dims),
        "optimizers": [optimizer.kind for optimizer in table.config.optimizers],
        "input_dim": table.config.input_dim,
        "row_floats": table.row_floats(),
        "num_rows": stats.num_rows,
        "step": stats.step,
    }


def _check(where: str, table: EmbeddingTable, saved: Mapping[str, Any]) -> None:
    have = _describe(table)
    for key in ("version", "output_dims", "optimizers", "input_dim", "row_floats"):
        if saved[key] != have[key]:
            raise ValueError(
                f"{where}: {key} of table '{table.name}' must be that of the saved table, {saved[key]}; got "
                f"{have[key]}. Build the model with the settings it was saved with."
            )


def _save_table(table: EmbeddingTable, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    description = _describe(table)
    num_rows = description["num_rows"]
    ids_file: Any = None
    rows_file: Any = None
    begin = 0
    for ids, rows in table.export(whole_rows=True, max_rows=EXPORT_ROWS) if num_rows else ():
        if rows_file is None:
            create = np.lib.format.open_memmap
            ids_file = create(folder / "ids.npy", mode="w+", dtype=np.int64, shape=(num_rows,))
            rows_file = create(folder / "rows.npy", mode="w+", dtype=np.float32, shape=(num_rows, rows.shape[1]))
        ids_file[begin : begin + len(ids)] = ids
        rows_file[begin : begin + len(ids)] = rows
        begin += len(ids)
    for file in (ids_file, rows_file):
        if file is not None:
            file.flush()
    (folder / "table.json").write_text(json.dumps(description))


def _open_table(table: EmbeddingTable, folder: pathlib.Path, where: str) -> tuple[dict[str, Any], Any, Any]:
    description = json.loads((folder / "table.json").read_text())
    _check(where, table, description)
    shape = (description["num_rows"], description["row_floats"])
    if not shape[0]:
        return description, np.empty((0,), np.int64), np.empty(shape, np.float32)
    ids = np.load(folder / "ids.npy", mmap_mode="r")
    rows = np.load(folder / "rows.npy", mmap_mode="r")
    if ids.shape != shape[:1] or rows.shape != shape:
        raise ValueError(
            f"{where}: the files of table '{table.name}' must hold {shape[0]} rows of {shape[1]} floats; got "
            f"{ids.shape} ids and {rows.shape} floats. The file is damaged: save the model again."
        )
    return description, ids, rows
