# SPDX-License-Identifier: Apache-2.0
"""The wheel: what its builder writes, and that the installed one pins its TensorFlow."""

import base64
import hashlib
import importlib
import importlib.metadata
import importlib.util
import pathlib
import types
import zipfile

import pytest
import tensorflow as tf

_ROOT = pathlib.Path(__file__).resolve().parents[1]


def _load() -> types.ModuleType:
    path = _ROOT / "third_party/wheel/build_wheel.py"
    spec = importlib.util.spec_from_file_location("build_wheel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_wheel = _load()


@pytest.fixture
def arguments(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tf_sfctr").mkdir()
    (tmp_path / "tf_sfctr/__init__.py").write_text("# café\n", encoding="utf-8")
    (tmp_path / "library.so").write_bytes(b"\x7fELF")
    (tmp_path / "status.txt").write_text("BUILD_USER x\nSTABLE_SFCTR_COMMIT 0123abc\n")
    (tmp_path / "README.md").write_text("# Title\n")
    options = {
        "pyproject": _ROOT / "pyproject.toml",
        "shared_library": "library.so",
        "tensorflow_version": "2.17.1",
        "cxx11_abi": "1",
        "status_file": "status.txt",
        "output_dir": "out",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [*flags, "--description_files", "README.md", "--sources", "tf_sfctr/__init__.py"]


def _wheel(folder: pathlib.Path) -> zipfile.ZipFile:
    (path,) = folder.glob("out/tf_sfctr-*-py3-none-linux_*.whl")
    return zipfile.ZipFile(path)


def test_wheel_holds_package_library_and_build_info(tmp_path: pathlib.Path, arguments: list[str]) -> None:
    build_wheel.main(arguments)
    with _wheel(tmp_path) as wheel:
        assert {"tf_sfctr/__init__.py", "tf_sfctr/library.so", "tf_sfctr/_build_info.py"} <= set(wheel.namelist())
        build_info: dict[str, object] = {}
        exec(wheel.read("tf_sfctr/_build_info.py"), build_info)
    assert build_info["TENSORFLOW_VERSION"] == "2.17.1"
    assert build_info["TENSORFLOW_MINOR"] == "2.17"
    assert build_info["CXX11_ABI"] == 1
    assert build_info["COMMIT"] == "0123abc"


def test_record_lists_every_file_with_its_hash(tmp_path: pathlib.Path, arguments: list[str]) -> None:
    build_wheel.main(arguments)
    with _wheel(tmp_path) as wheel:
        (record,) = (name for name in wheel.namelist() if name.endswith("/RECORD"))
        rows = [line.rsplit(",", 2) for line in wheel.read(record).decode().splitlines()]
        assert {row[0] for row in rows} == set(wheel.namelist())
        for name, digest, size in rows:
            if name == record:
                assert (digest, size) == ("", "")
                continue
            content = wheel.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={expected}", str(len(content)))


def test_same_input_gives_same_bytes(tmp_path: pathlib.Path, arguments: list[str]) -> None:
    build_wheel.main(arguments)
    (path,) = tmp_path.glob("out/*.whl")
    first = path.read_bytes()
    build_wheel.main(arguments)
    assert path.read_bytes() == first


def test_metadata_pins_the_tensorflow_minor_version(tmp_path: pathlib.Path, arguments: list[str]) -> None:
    build_wheel.main(arguments)
    with _wheel(tmp_path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        lines = wheel.read(name).decode().splitlines()
    assert "Requires-Python: >=3.10" in lines
    assert "Requires-Dist: tensorflow-cpu==2.17.* ; extra == 'cpu'" in lines
    assert "Requires-Dist: tensorflow==2.17.* ; extra == 'tensorflow'" in lines
    assert lines[-1] == "# Title"


def test_markers_of_extras_are_kept() -> None:
    project = {
        "project": {
            "name": "x",
            "version": "1",
            "description": "d",
            "license": {"text": "MIT"},
            "requires-python": ">=3.10",
            "classifiers": [],
            "dependencies": ["numpy"],
        },
        "tool": {"tf_sfctr": {"extras": {"io": ["tensorflow-io==1; python_version < '3.12'"]}}},
    }
    text = build_wheel.metadata(project, "2.17", "")
    assert "Requires-Dist: tensorflow-io==1 ; (python_version < '3.12') and extra == 'io'\n" in text


def test_commit_without_git_is_unknown() -> None:
    assert build_wheel.parse_commit("BUILD_USER x\n") == "unknown"


def test_installed_wheel_was_built_for_the_running_tensorflow() -> None:
    build_info = importlib.import_module("tf_sfctr._build_info")
    minor = ".".join(tf.__version__.split(".")[:2])
    assert minor == build_info.TENSORFLOW_MINOR
    assert importlib.metadata.version("tf_sfctr") == build_info.VERSION
    requirements = importlib.metadata.requires("tf_sfctr") or []
    assert any(requirement.startswith(f"tensorflow-cpu=={minor}.*") for requirement in requirements)
    package = importlib.util.find_spec("tf_sfctr")
    assert package is not None
    assert package.submodule_search_locations is not None
    assert (pathlib.Path(package.submodule_search_locations[0]) / "py.typed").exists()
