# SPDX-License-Identifier: Apache-2.0
"""`python -m tf_sfctr.train`: trains a model on files and measures it. `--help` lists the flags."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Sequence

import tensorflow as tf

from tf_sfctr._train import run, settings

_USAGE = 2
_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code: 0, 2 for an unusable command line, 1 for anything else."""
    try:
        parsed = settings.parse(sys.argv[1:] if arguments is None else arguments)
        if parsed is None:
            print(settings.help_text())
            return 0
        # Standard output is for the result alone: scripts read it.
        with contextlib.redirect_stdout(sys.stderr):
            result = run.run(parsed)
    except settings.UsageError as error:
        print(f"tf_sfctr.train: {str(error).rstrip('.')}. See --help.", file=sys.stderr)
        return _USAGE
    except (tf.errors.OpError, OSError, ValueError) as error:
        print(f"tf_sfctr.train: {_cause(error)}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("tf_sfctr.train: interrupted.", file=sys.stderr)
        return _FAILED
    print(json.dumps(result), flush=True)
    return 0


def _cause(error: Exception) -> str:
    """The line that says what went wrong: TensorFlow wraps an error of a reader in tracebacks."""
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    found = re.search(r"\b(?:Value|Type|OS|FileNotFound)Error: (.+)", text)
    line = found.group(1) if found else next((line for line in text.splitlines() if line.strip()), repr(error))
    return line.replace('on_error="skip"', "--on_error=skip")


if __name__ == "__main__":
    sys.exit(main())
