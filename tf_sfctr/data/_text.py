# SPDX-License-Identifier: Apache-2.0
"""Reading delimited text in chunks of whole lines, and finding the malformed ones.

A chunk is parsed as a whole. Only if that fails are its lines looked at: halves are parsed until the lines that do not
parse stand alone, so the parser that reads the good lines is also the one that judges the bad ones.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from absl import logging

from tf_sfctr.data._columns import Columns, MalformedError
from tf_sfctr.data._files import open_stream
from tf_sfctr.data._options import ReadOptions, Selection
from tf_sfctr.data._pipeline import Block, Task

# Bytes read at once, and bytes that pyarrow turns into columns at once; the latter is to stay in the L2 cache. Chosen
# with `bench input`.
CHUNK_BYTES = 4 << 20
BLOCK_BYTES = 1 << 20

_BOM = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True)
class TextFormat:
    """The lines of a file: `names` in order, with or without a line that names them."""

    columns: Columns
    names: tuple[str, ...]
    delimiter: str
    quoting: bool
    skip_header: bool

    @functools.cached_property
    def _types(self) -> dict[str, pa.DataType]:
        columns = self.columns
        types: dict[str, pa.DataType] = {}
        for name in columns.numeric:
            types[name] = pa.string() if columns.strip else pa.float32()
        for name in columns.categorical:
            types[name] = pa.binary() if columns.hash_ids else pa.int64()
        if columns.positive is not None or columns.strip:
            types[columns.label] = pa.string()
        else:
            types.setdefault(columns.label, pa.float32())
        return types

    def parse(self, lines: bytes) -> list[Block]:
        """The blocks of some whole lines.

        Raises:
          pa.ArrowInvalid or MalformedError: a line is malformed.
        """
        if not lines.strip(b"\r\n"):
            return []
        columns = self.columns
        table = pa_csv.read_csv(
            pa.BufferReader(lines),
            read_options=pa_csv.ReadOptions(
                use_threads=False, block_size=min(BLOCK_BYTES, max(len(lines), 1)), column_names=self.names
            ),
            parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, quote_char='"' if self.quoting else False),
            convert_options=pa_csv.ConvertOptions(
                column_types=self._types,
                include_columns=columns.needed,
                null_values=columns.missing,
                strings_can_be_null=False,
                check_utf8=columns.strip,
            ),
        )
        return [columns.encode(batch) for batch in table.to_batches()]

    def why(self, line: bytes, error: Exception) -> str:
        """What a malformed line must be and is."""
        text = line.decode(errors="replace").rstrip("\r\n")
        fields = next(csv.reader([text], delimiter=self.delimiter), []) if self.quoting else text.split(self.delimiter)
        if len(fields) != len(self.names):
            return f"must have {len(self.names)} columns; got {len(fields)}"
        if isinstance(error, MalformedError):
            return str(error)
        columns = self.columns
        numbers = [*columns.numeric, *([] if columns.positive is not None else [columns.label])]
        for name in numbers:
            value = fields[self.names.index(name)].strip()
            if value not in columns.missing and not _is_number(value):
                return f"must have a number in column {name}; got {value!r}"
        for name in () if columns.hash_ids else columns.categorical:
            value = fields[self.names.index(name)].strip()
            if value not in columns.missing and not value.lstrip("+-").isdigit():
                return f"must have an integer in column {name}; got {value!r}"
        return f"must parse; got {str(error)[:200]!r}"


def tasks(form: TextFormat, paths: list[str], options: ReadOptions) -> Callable[[], Iterator[Task]]:
    """For each iteration, one task per chunk of the rows that this worker reads."""

    @functools.cache  # Where it needs a count of lines, that is a pass over the files: once is enough.
    def selection() -> Selection:
        return options.selection(paths, functools.partial(num_lines, skip_header=form.skip_header))

    return lambda: _tasks(form, paths, options, selection())


def _tasks(form: TextFormat, paths: list[str], options: ReadOptions, selection: Selection) -> Iterator[Task]:
    for path in options.own_files(paths):
        row = 0
        for chunk, count in chunks(path, form.skip_header):
            if selection.past_end(path, row):
                break
            yield functools.partial(_read_chunk, form, options, selection, path, chunk, row, count)
            row += count


def chunks(path: str, skip_header: bool) -> Iterator[tuple[bytes, int]]:
    """Pieces of a file that end with a line, with the number of lines in each; the header is left out."""
    with open_stream(path) as stream:
        head = stream.read(CHUNK_BYTES).removeprefix(_BOM)
        if skip_header:
            while b"\n" not in head and (more := stream.read(CHUNK_BYTES)):
                head += more
            head = head.partition(b"\n")[2]
        yield from _whole_lines(head, stream)


def _whole_lines(head: bytes, stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    held = head
    while True:
        end = held.rfind(b"\n") + 1
        if end:
            lines = held[:end]
            yield lines, lines.count(b"\n")
        more = stream.read(CHUNK_BYTES)
        held = held[end:] + more
        if not more:
            break
    if held:
        yield held, 1


def num_lines(path: str, skip_header: bool) -> int:
    """Lines of a file, without its header."""
    return sum(count for _, count in chunks(path, skip_header))


def header_of(path: str) -> str:
    """The first line of a file."""
    with open_stream(path) as stream:
        return stream.readline().removeprefix(_BOM).decode().rstrip("\r\n")


def _read_chunk(
    form: TextFormat, options: ReadOptions, selection: Selection, path: str, chunk: bytes, row: int, count: int
) -> list[Block]:
    runs = selection.runs(path, row, count)
    if not runs:
        return []
    if runs == [(0, count)]:
        lines, numbers = chunk, np.arange(count)
    else:
        ends = np.concatenate([[0], np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1])
        if len(ends) == count:  # The last line of the file has no line end.
            ends = np.append(ends, len(chunk))
        lines = b"".join(chunk[ends[begin] : ends[end]] for begin, end in runs)
        numbers = np.concatenate([np.arange(begin, end) for begin, end in runs])
    try:
        return form.parse(lines)
    except (pa.ArrowInvalid, MalformedError) as error:
        first_line = row + 1 + form.skip_header
        split = lines.splitlines(keepends=True) if b"\r" not in lines else _split_at_newlines(lines)
        return list(_parse_good(form, options, path, split, numbers + first_line, error))


def _split_at_newlines(lines: bytes) -> list[bytes]:
    pieces = [piece + b"\n" for piece in lines.split(b"\n")]
    return pieces[:-1] if lines.endswith(b"\n") else pieces


def _parse_good(
    form: TextFormat, options: ReadOptions, path: str, lines: list[bytes], numbers: np.ndarray, error: Exception
) -> Iterator[Block]:
    """Parses the lines of which some are malformed, and fails or counts at those."""
    if len(lines) == 1:
        text = f"{options.where}: line {numbers[0]} of {path} {form.why(lines[0], error)}."
        if options.on_error == "fail":
            raise ValueError(f'{text} Correct the line, or pass on_error="skip" to leave such lines out.') from None
        if _count(options, path, int(numbers[0])):
            logging.warning('%s Such lines of this file are left out (on_error="skip").', text)
        return
    middle = len(lines) // 2
    for part, part_numbers in ((lines[:middle], numbers[:middle]), (lines[middle:], numbers[middle:])):
        try:
            yield from form.parse(b"".join(part))
        except (pa.ArrowInvalid, MalformedError) as part_error:
            yield from _parse_good(form, options, path, part, part_numbers, part_error)


def _count(options: ReadOptions, path: str, line: int) -> bool:
    assert options.skipped is not None
    return options.skipped.add(path, line)


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
