# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the readers' tests."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def real_file() -> Callable[[str], str]:
    """Path of a public sample, which the repository does not carry; the test is skipped where it is absent."""

    def find(name: str) -> str:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs the public sample {name} in ../shared/data, which is not part of the repository")
        return str(path)

    return find
