# SPDX-License-Identifier: Apache-2.0
"""The embedding benchmark in FBGEMM and TFRA, each in its own Python, beside ours on the same ids.

`make bench-peers` makes the environments and names their interpreters in SFCTR_PYTHON_FBGEMM and SFCTR_PYTHON_TFRA.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from tf_sfctr.bench import _tables, _trace, embedding
from tf_sfctr.bench._report import OURS, Report
from tf_sfctr.data import hash_ids

_PEERS = ("fbgemm", "tfra")
_TIMEOUT_S = 1200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    _trace.add_trace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the benchmark; exit code 2 if an environment is not named, 1 if a peer fails."""
    pythons = {peer: os.environ.get(f"SFCTR_PYTHON_{peer.upper()}", "") for peer in _PEERS}
    for peer, python in pythons.items():
        if not pathlib.Path(python).is_file():
            print(
                f"bench peers: SFCTR_PYTHON_{peer.upper()} must be the Python of {peer}'s environment; got "
                f"{python!r}. Run make bench-peers, which makes the environments.",
                file=sys.stderr,
            )
            return 2
    _tables.set_threads(args.threads)
    report = Report("peers", json=args.json)
    axes = _trace.axes(args)
    sizes = _trace.table_sizes(args.rows)
    columns = _trace.ids(sizes, args.batch_size, 30, args.skew)
    keys = columns + _trace.offsets(sizes)
    gradient = tf.random.normal((args.batch_size, _trace.NUM_FEATURES, args.dim), stddev=0.01, seed=0)
    amount = keys[0].size
    medians: dict[str, float] = {}
    failed = False

    def ours(hashed: bool, row_wise: bool) -> float:
        step = embedding.make_step(int(sizes.sum()), args.dim, gradient, hashed, row_wise)
        batches = [hash_ids(tf.constant(k), "bench") if hashed else tf.constant(k) for k in keys]
        seconds = _tables.time_in_turns({OURS: step}, {OURS: batches}, args.steps, rounds=1)[OURS]
        kind = {"ids": "hashed" if hashed else "vocabulary", "optimizer": _optimizer(row_wise)}
        return report.add(OURS, {**axes, **kind}, _tables.rates(amount, seconds), "ids/s")

    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.npz"
        np.savez(trace, columns=columns, sizes=sizes)
        for peer, python in pythons.items():
            # Ours before and after: the machine may be faster in one half of the run than in the other.
            hashed = peer == "tfra"
            kinds = (False,) if hashed else (False, True)
            before = {row_wise: ours(hashed, row_wise) for row_wise in kinds}
            script = pathlib.Path(__file__).with_name(f"_peer_{peer}.py")
            command = [python, str(script), str(trace), str(args.dim), str(args.steps), str(args.threads)]
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment, cwd=folder
            )
            if done.returncode != 0:
                print(f"bench peers: {peer} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
                failed = True
                continue
            after = {row_wise: ours(hashed, row_wise) for row_wise in kinds}
            for line in done.stdout.splitlines():
                if not line.startswith("{"):
                    continue
                result = json.loads(line)
                name = result.pop("name")
                seconds = result.pop("seconds")
                row_wise = "row-wise" in name
                kind = {"ids": "hashed" if hashed else "vocabulary", "optimizer": _optimizer(row_wise)}
                base = report.add(name, {**axes, **kind}, _tables.rates(amount, seconds), "ids/s", **result)
                medians[name] = (before[row_wise] + after[row_wise]) / 2 / base
    report.summary({name: round(ratio, 3) for name, ratio in medians.items()})
    return 1 if failed else 0


def _optimizer(row_wise: bool) -> str:
    return "row-wise adagrad" if row_wise else "adagrad"
