# SPDX-License-Identifier: Apache-2.0
"""configure.py: what it writes, and what it says when something is missing."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import types
from collections.abc import Callable

import pytest

_PATH = pathlib.Path(__file__).resolve().parents[1] / "configure.py"


def _load() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("configure", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["configure"] = module
    spec.loader.exec_module(module)
    return module


configure = _load()

_COMPILE_FLAGS = ["-I/tf/include", "-D_GLIBCXX_USE_CXX11_ABI=1", "--std=c++17", "-DEIGEN_MAX_ALIGN_BYTES=64"]
_LINK_FLAGS = ["-L/tf", "-l:libtensorflow_framework.so.2"]


def _program(path: pathlib.Path, output: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def debian_rules(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("java", "proto"):
        (tmp_path / "rules" / name).mkdir(parents=True)
        (tmp_path / "rules" / name / "WORKSPACE").touch()
    return tmp_path / "rules"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("bazel 7.4.1", (7, 4, 1)),
        ("bazel 8.0.0-pre.20240101", (8, 0, 0)),
        ("bazel 4.2.3- (@non-git)", (4, 2, 3)),
        ("WARNING: something\nbazel 6.5.0\n", (6, 5, 0)),
        ("bazel no_version", None),
        ("", None),
    ],
)
def test_bazel_version_is_parsed(text: str, version: tuple[int, ...] | None) -> None:
    assert configure.parse_bazel_version(text) == version


def test_cuda_version_is_parsed() -> None:
    assert configure.parse_cuda_version("Cuda compilation tools, release 12.5, V12.5.40") == "12.5"
    assert configure.parse_cuda_version("nonsense") == "unknown"


def test_tensorflow_flags_are_sorted() -> None:
    found = configure.parse_tensorflow_flags("2.17.1", _COMPILE_FLAGS, [*_LINK_FLAGS, "-lother"])
    assert found.include_dir == "/tf/include"
    assert found.library == "/tf/libtensorflow_framework.so.2"
    assert found.cxx11_abi == "1"
    assert found.defines == ("_GLIBCXX_USE_CXX11_ABI=1", "EIGEN_MAX_ALIGN_BYTES=64")
    assert found.linkopts == ("-lother",)
    assert found.minor == "2.17"


def test_unknown_compile_flag_is_an_error() -> None:
    with pytest.raises(configure.ConfigureError, match=r"compile flag '-mnew' is not understood"):
        configure.parse_tensorflow_flags("2.17.1", [*_COMPILE_FLAGS, "-mnew"], _LINK_FLAGS)


def test_other_cxx_standard_is_an_error() -> None:
    with pytest.raises(configure.ConfigureError, match=r"wants --std=c\+\+20; this project is built as C\+\+17"):
        configure.parse_tensorflow_flags("2.17.1", ["-I/tf/include", "--std=c++20"], _LINK_FLAGS)


def test_monolithic_tensorflow_is_an_error() -> None:
    with pytest.raises(configure.ConfigureError, match="no shared framework library"):
        configure.parse_tensorflow_flags("2.17.1", _COMPILE_FLAGS, [])


@pytest.mark.parametrize("version", ["2.17.0", "2.17.1", "2.21.0"])
def test_supported_tensorflow_passes(version: str) -> None:
    configure.check_tensorflow_version(version)


@pytest.mark.parametrize("version", ["2.16.2", "2.22.0", "3.0.0", "1.15.5", "unknown"])
def test_unsupported_tensorflow_is_an_error(version: str) -> None:
    with pytest.raises(configure.ConfigureError, match=rf"must be 2\.17 to 2\.21; got {version}.*pip install"):
        configure.check_tensorflow_version(version)


def test_old_python_is_an_error() -> None:
    configure.check_python((3, 10, 0))
    with pytest.raises(configure.ConfigureError, match=r"Python must be 3\.10 or newer; this is 3\.9\.2"):
        configure.check_python((3, 9, 2))


def test_missing_tensorflow_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(configure.ConfigureError, match=r"TensorFlow is not installed in .*pip install tensorflow-cpu"):
        configure.find_tensorflow()


def test_missing_bazel_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(configure.ConfigureError, match=r"bazel is not on PATH.*apt-get install bazel-bootstrap"):
        configure.find_bazel(None)


def test_bazel_is_found_and_asked_for_its_version(tmp_path: pathlib.Path) -> None:
    binary = _program(tmp_path / "bazel", "bazel 7.4.1")
    assert configure.find_bazel(binary) == configure.Bazel(binary, (7, 4, 1))


def test_distribution_bazel_gets_local_rules(debian_rules: pathlib.Path) -> None:
    for version in (None, (4, 2, 3)):
        flags = configure.bazel_flags(configure.Bazel("bazel", version), debian_rules)
        names = [flag.split("=")[1] for flag in flags]
        assert names == ["rules_cc", "remote_coverage_tools", "rules_java", "rules_proto"]


def test_distribution_bazel_without_rules_names_the_package(tmp_path: pathlib.Path) -> None:
    with pytest.raises(configure.ConfigureError, match="apt-get install bazel-rules-java"):
        configure.bazel_flags(configure.Bazel("bazel", None), tmp_path)


def test_newer_bazel_gets_the_workspace_switched_on() -> None:
    assert configure.bazel_flags(configure.Bazel("bazel", (5, 4, 0))) == []
    assert configure.bazel_flags(configure.Bazel("bazel", (7, 4, 1))) == ["--noenable_bzlmod"]
    assert configure.bazel_flags(configure.Bazel("bazel", (8, 0, 0))) == ["--noenable_bzlmod", "--enable_workspace"]


@pytest.mark.parametrize("version", [(3, 7, 0), (9, 0, 0)])
def test_unsupported_bazel_is_an_error(version: tuple[int, ...]) -> None:
    with pytest.raises(configure.ConfigureError, match=r"Bazel must be 4\.2 to 8\.x; got .*--bazel=PROGRAM"):
        configure.bazel_flags(configure.Bazel("bazel", version))


def _which(result: str | None) -> Callable[[str], str | None]:
    return lambda name: result


def test_cuda_is_found_by_cuda_home_or_path(tmp_path: pathlib.Path) -> None:
    nvcc = _program(tmp_path / "cuda/bin/nvcc", "Cuda compilation tools, release 12.5, V12.5.40")
    expected = configure.Cuda(str(tmp_path / "cuda"), "12.5")
    assert configure.find_cuda({"CUDA_HOME": str(tmp_path / "cuda")}, _which(None)) == expected
    assert configure.find_cuda({}, _which(nvcc)) == expected
    assert configure.find_cuda({}, _which(None)) is None


def test_wrong_cuda_home_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(configure.ConfigureError, match=r"CUDA_HOME is .*is no program. Correct CUDA_HOME, or unset it"):
        configure.find_cuda({"CUDA_HOME": str(tmp_path)}, _which(None))


def test_fragment_quotes_and_names_everything() -> None:
    tensorflow = configure.parse_tensorflow_flags("2.17.1", _COMPILE_FLAGS, _LINK_FLAGS)
    text = configure.fragment(tensorflow, ["--flag"], None, "/a folder/python", pathlib.Path("/out/tf2.17"))
    lines = text.splitlines()
    assert "startup --output_base=/out/tf2.17" in lines
    assert "build --flag" in lines
    assert "query --flag" in lines
    assert "build '--repo_env=SFCTR_PYTHON=/a folder/python'" in lines
    assert "build --repo_env=SFCTR_TF_LIBRARY=/tf/libtensorflow_framework.so.2" in lines
    assert "build --repo_env=SFCTR_TF_DEFINES=EIGEN_MAX_ALIGN_BYTES=64" in lines
    assert "build --cxxopt=-D_GLIBCXX_USE_CXX11_ABI=1" in lines


def test_unknown_flag_fails_and_writes_nothing(tmp_path: pathlib.Path) -> None:
    output = tmp_path / "fragment"
    command = [sys.executable, str(_PATH), f"--output={output}", "--with-cuda"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "configure.py: unrecognized arguments: --with-cuda. See python configure.py --help" in result.stderr
    assert not output.exists()


def test_writes_a_fragment_for_the_running_tensorflow(tmp_path: pathlib.Path) -> None:
    bazel = _program(tmp_path / "bazel", "bazel 7.4.1")
    output = tmp_path / "fragment"
    command = [sys.executable, str(_PATH), f"--output={output}", f"--output_base={tmp_path}/base", f"--bazel={bazel}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"Wrote {output}" in result.stdout
    text = output.read_text()
    assert f"startup --output_base={tmp_path}/base" in text
    assert f"--repo_env=SFCTR_PYTHON={os.path.abspath(sys.executable)}" in text
