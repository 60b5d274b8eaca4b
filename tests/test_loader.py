# SPDX-License-Identifier: Apache-2.0
"""The loader of the shared library: its errors, and that the wheel's library loads."""

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from tf_sfctr import _loader


@pytest.fixture
def library(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / _loader.LIBRARY_NAME
    path.write_bytes(b"not a library")
    return path


def test_loads_once_and_has_ops() -> None:
    module = _loader.load_library()
    assert module is _loader.load_library()
    assert any(name.startswith("sfctr_") for name in dir(module))


def test_patch_versions_of_one_minor_version_are_compatible(library: pathlib.Path) -> None:
    _loader.check_loadable(library, "2.17.1", "2.17.0")


def test_other_minor_version_names_path_both_versions_and_cure(library: pathlib.Path) -> None:
    with pytest.raises(ImportError) as error:
        _loader.check_loadable(library, "2.17.1", "2.21.0")
    text = str(error.value)
    assert str(library) in text
    assert "built for TensorFlow 2.17.1; TensorFlow 2.21.0 runs" in text
    assert "pip install 'tensorflow-cpu==2.17.*'" in text


def test_minor_versions_are_not_compared_as_prefixes(library: pathlib.Path) -> None:
    with pytest.raises(ImportError, match="must be equal"):
        _loader.check_loadable(library, "2.2.0", "2.21.0")


def test_source_tree_without_build_says_how_to_build(library: pathlib.Path) -> None:
    with pytest.raises(ImportError, match=r"built for TensorFlow unknown; TensorFlow 2.17.1 runs.*make wheel"):
        _loader.check_loadable(library, None, "2.17.1")


def test_missing_library_says_how_to_build(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ImportError, match="make wheel"):
        _loader.check_loadable(tmp_path / "absent.so", "2.17.1", "2.17.1")


def test_unloadable_library_keeps_the_reason(library: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loader, "__file__", str(library.with_name("_loader.py")))
    monkeypatch.setattr(_loader, "_built_for", lambda: tf.__version__)
    with pytest.raises(ImportError, match=r"it does not load: .*(invalid ELF header|file too short)"):
        _loader.load_library.__wrapped__()


def test_library_exports_no_symbol() -> None:
    path = pathlib.Path(_loader.__file__).with_name(_loader.LIBRARY_NAME)
    listing = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True)
    assert listing.stdout == ""


def test_loading_in_a_fresh_process_prints_nothing() -> None:
    code = "from tf_sfctr import _loader; _loader.load_library()"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
