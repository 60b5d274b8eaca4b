# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks print: one JSON object per line, or a table, and the ratios to the baselines at the end."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

OURS = "tf_sfctr"


def measure(run: Callable[[], float], repeats: int, warmup: int = 1) -> list[float]:
    """Calls `run` and returns what it counts (rows, ids, ...) per second, once per repeat.

    Args:
      run: does the work once, and returns how much it was.
      repeats: calls that are measured.
      warmup: calls before those.
    """
    for _ in range(warmup):
        run()
    rates = []
    for _ in range(repeats):
        begin = time.perf_counter()
        amount = run()
        rates.append(amount / (time.perf_counter() - begin))
    return rates


class Report:
    """Collects and prints the results of one benchmark.

    >>> report = Report("input", json=True)
    >>> report.add("tf_sfctr", {"rows": 1000}, [2.0, 2.1, 1.9], "rows/s")  # doctest: +SKIP
    >>> report.add("tf.data", {"rows": 1000}, [1.0, 1.0, 1.0], "rows/s")  # doctest: +SKIP
    >>> report.summary()  # doctest: +SKIP

    Args:
      bench: its name.
      json: whether to print JSON lines; else a table.
      stream: where to print; None means standard output.
    """

    def __init__(self, bench: str, *, json: bool = False, stream: TextIO | None = None) -> None:
        self.bench = bench
        self.results: list[dict[str, object]] = []
        self._json = json
        self._stream = stream or sys.stdout
        self._medians: list[tuple[str, dict[str, object], float, str]] = []

    def add(
        self,
        variant: str,
        axes: Mapping[str, object],
        samples: Sequence[float],
        unit: str,
        **extra: object,
    ) -> float:
        """Prints one result; returns the median.

        Args:
          variant: "tf_sfctr", or the baseline's name.
          axes: what was varied: rows, batch_size, ... Results with equal axes are compared with one another.
          samples: one value per repeat, in `unit`.
          unit: such as "rows/s", or "ms" where less is better.
          **extra: further fields of the line, such as `gigabytes_per_s`.
        """
        median = statistics.median(samples)
        spread = max(samples) - min(samples)
        line = {
            "bench": self.bench,
            "variant": variant,
            **axes,
            "median": _short(median),
            "spread": _short(spread),
            "unit": unit,
            **extra,
            **versions(),
        }
        self.results.append(line)
        self._medians.append((variant, dict(axes), median, unit))
        if self._json:
            self._print(json.dumps(line))
        else:
            shown = " ".join(f"{name}={value}" for name, value in axes.items())
            more = " ".join(f"{name}={value}" for name, value in extra.items())
            self._print(
                f"{variant:<28} {shown:<44} {_shown(median):>12} {unit:<8} ±{_shown(spread / 2)} {more}".rstrip()
            )
        return median

    def ratios(self) -> dict[str, float]:
        """Ours over each baseline of the same axes, above 1 where ours is faster.

        A baseline that was measured with several axes has one entry per axes, "NAME axis=value ...".
        """
        counts: dict[str, int] = {}
        for variant, _, _, _ in self._medians:
            counts[variant] = counts.get(variant, 0) + 1
        ratios = {}
        for variant, axes, median, unit in self._medians:
            for other, other_axes, ours, other_unit in self._medians:
                if variant != OURS and other == OURS and other_axes == axes and other_unit == unit:
                    rate = unit.endswith("/s")
                    shown = " ".join(f"{name}={value}" for name, value in axes.items())
                    name = variant if counts[variant] == 1 else f"{variant} {shown}"
                    ratios[name] = _short(ours / median if rate else median / ours)
        return ratios

    def summary(self, ratios: Mapping[str, float] | None = None, **extra: object) -> dict[str, object]:
        """Prints the last line.

        Args:
          ratios: ours over each baseline, above 1 where ours is faster; None takes those of `ratios()`.
          **extra: further fields of the line.
        """
        ratios = self.ratios() if ratios is None else dict(ratios)
        line: dict[str, object] = {"bench": self.bench, "summary": True, "ratios": ratios, **extra, **versions()}
        if self._json:
            self._print(json.dumps(line))
        else:
            for name, ratio in ratios.items():
                self._print(f"{ratio:>8.2f} x  {name}")
            for name, value in extra.items():
                self._print(f"{name}: {value}")
            self._print(", ".join(f"{name} {value}" for name, value in versions().items()))
        return line

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


@functools.cache
def versions() -> dict[str, str]:
    """Versions of what runs, and the commit where the package is used from its source tree."""
    found = {"python": platform.python_version()}
    for name, packages in (
        ("tensorflow", ("tensorflow", "tensorflow-cpu")),
        ("keras", ("keras",)),
        ("tf_sfctr", ("tf_sfctr",)),
    ):
        for package in packages:
            try:
                found[name] = importlib.metadata.version(package)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    commit = _commit()
    if commit:
        found["commit"] = commit
    return found


def _commit() -> str:
    # An installed package is no part of a repository, but may be run from within the one it was built from.
    for folder in (pathlib.Path(__file__).resolve().parent, pathlib.Path.cwd()):
        if not any((parent / "ops" / "kernels").is_dir() for parent in (folder, *folder.parents)):
            continue
        command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        if done.returncode == 0:
            return done.stdout.strip()
    return ""


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _short(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")
