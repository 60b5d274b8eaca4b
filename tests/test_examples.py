# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand, and learn something."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
LEAST_AUC = {"custom_loop.py": 0.6, "deepfm_criteo.py": 0.7, "wide_deep_census.py": 0.7}


def test_every_example_is_run() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(LEAST_AUC)


@pytest.mark.parametrize("name", sorted(LEAST_AUC))
def test_example(name: str, tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"held-out AUC (0\.\d+)", done.stdout)
    assert found
    assert float(found[1]) > LEAST_AUC[name]
