"""Saving of tables in Keras model files."""

from __future__ import annotations

import json
import pathlib

import numpy as np

from tf_sfctr.table import EmbeddingTable

_VERSION = 1


def save_table(table: EmbeddingTable, folder: pathlib.Path) -> None:
    """Writes a table's rows, optimizer state included, to `folder` as two NumPy files and a description."""
    folder.mkdir(parents=True, exist_ok=True)
    num_rows = len(table)
    ids_file = rows_file = None
    begin = 0
    for ids, rows in table.export(whole_rows=True):
        if rows_file is None:
            kwargs = {"mode": "w+", "version": (2, 0)}
            ids_file = np.lib.format.open_memmap(folder / "ids.npy", dtype=np.int64, shape=(num_rows,), **kwargs)
            rows_file = np.lib.format.open_memmap(
                folder / "rows.npy", dtype=np.float32, shape=(num_rows, rows.shape[1]), **kwargs
            )
        assert ids_file is not None
        ids_file[begin : begin + len(ids)] = ids
        rows_file[begin : begin + len(ids)] = rows
        begin += len(ids)
    for file in (ids_file, rows_file):
        if file is not None:
            file.flush()
    stats = table.stats()
    description = {
        "version": _VERSION,
        "output_dims": list(table.output_dims),
        "optimizers": [optimizer.kind for optimizer in table.config.optimizers],
        "num_rows": num_rows,
        "step": stats.step,
    }
    (folder / "table.json").write_text(json.dumps(description))


def load_table(table: EmbeddingTable, folder: pathlib.Path, where: str) -> None:
    """Reads what `save_table` wrote into a table.

    Raises:
      ValueError: the file's table has other widths or optimizers. Nothing is changed.
    """
    description = json.loads((folder / "table.json").read_text())
    for key, have in (
        ("output_dims", list(table.output_dims)),
        ("optimizers", [optimizer.kind for optimizer in table.config.optimizers]),
    ):
        if description[key] != have:
            raise ValueError(
                f"{where}: {key} of table '{table.name}' must be that of the saved table, {description[key]}; got {have}. "
                "Build the model with the settings it was saved with."
            )
    if description["num_rows"] > 0:
        ids = np.load(folder / "ids.npy", mmap_mode="r")
        rows = np.load(folder / "rows.npy", mmap_mode="r")
        part = 1 << 19
        for begin in range(0, len(ids), part):
            table.assign(ids[begin : begin + part], rows[begin : begin + part])
    table.set_step(description["step"])
