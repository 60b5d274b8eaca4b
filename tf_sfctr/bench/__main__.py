# SPDX-License-Identifier: Apache-2.0
"""`python -m tf_sfctr.bench WHAT [options]`: runs one benchmark."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

BENCHMARKS = {
    "embedding": "lookup, gradient and update of embedding tables",
    "deepfm": "a training step of DeepFM, against the same model with its embeddings given for free",
    "growth": "memory of a table and the time of insertions while it grows",
    "input": "readers of Criteo, Parquet and TFRecord files",
    "peers": "the embedding benchmark in FBGEMM and TFRA, each in its own Python",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark that the command line names; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m tf_sfctr.bench", description="Benchmarks of tf_sfctr.")
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    # Only the benchmark that runs is imported: some need packages that others do not.
    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    for what, summary in BENCHMARKS.items():
        command = commands.add_parser(what, help=summary, description=f"Measures {summary}.")
        command.add_argument("--json", action="store_true", help="print one JSON object per line in place of a table")
        if what == named:
            module = importlib.import_module(f"tf_sfctr.bench.{what}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    args = parser.parse_args(arguments)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
