# SPDX-License-Identifier: Apache-2.0
"""What the README tells users to type works as it stands there."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import tf_sfctr as sf

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_example_runs(tmp_path: pathlib.Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    sf.data.write_criteo_tsv(str(tmp_path / "day_0.tsv"), 5000, sf.data.Synthetic(scale=0.001))
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "TableStats(num_rows=" in done.stdout
    assert (tmp_path / "model.keras").exists()


def test_links_and_commands_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
