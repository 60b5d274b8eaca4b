#!/usr/bin/env python3
"""Finds TensorFlow, Bazel and CUDA, and writes what Bazel has to know about them.

Asks nothing. Run it with the Python whose TensorFlow the ops are to be built for:

    python configure.py
    bazel build //:wheel

The result is `.sfctr.bazelrc`, which `.bazelrc` imports. Flags select what differs between Bazel versions; there is
one WORKSPACE for all.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

_ROOT = pathlib.Path(__file__).resolve().parent
_DEBIAN_RULES = pathlib.Path("/usr/share/bazel/rules")

# First and last minor version whose C++ interface the sources follow.
_MIN_TENSORFLOW = (2, 17)
_MAX_TENSORFLOW = (2, 21)
_MIN_PYTHON = (3, 10)
_MIN_BAZEL = (4, 2)
_MAX_BAZEL_MAJOR = 8  # Bazel 9 has no WORKSPACE

_ABI_DEFINE = "_GLIBCXX_USE_CXX11_ABI"


class ConfigureError(Exception):
    """Something that the build needs is missing or unsupported; the text says what to do."""


@dataclasses.dataclass(frozen=True)
class TensorFlow:
    """The installed TensorFlow, as Bazel needs it."""

    version: str
    include_dir: str
    library: str  # path of libtensorflow_framework.so.2
    cxx11_abi: str
    defines: tuple[str, ...]
    linkopts: tuple[str, ...]

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


@dataclasses.dataclass(frozen=True)
class Bazel:
    """The Bazel on PATH: its version, or None where the distribution's build does not know it."""

    binary: str
    version: tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class Cuda:
    """A CUDA toolkit. Recorded only; no source needs it yet."""

    home: str
    version: str


def check_python(version: tuple[int, ...]) -> None:
    if version[:2] < _MIN_PYTHON:
        raise ConfigureError(
            f"Python must be {_dotted(_MIN_PYTHON)} or newer; this is {_dotted(version[:3])}. "
            "Run configure.py with a newer Python."
        )


def check_tensorflow_version(version: str) -> None:
    match = re.match(r"(\d+)\.(\d+)\.", version)
    if not match or not _MIN_TENSORFLOW <= (int(match[1]), int(match[2])) <= _MAX_TENSORFLOW:
        raise ConfigureError(
            f"TensorFlow must be {_dotted(_MIN_TENSORFLOW)} to {_dotted(_MAX_TENSORFLOW)}; got {version}. "
            "Install a supported one: pip install tensorflow-cpu==2.17.1"
        )


def parse_bazel_version(text: str) -> tuple[int, ...] | None:
    """Returns (7, 4, 1) for `bazel 7.4.1`, None for the `bazel no_version` of Debian's build."""
    match = re.search(r"^bazel (\d+)\.(\d+)(?:\.(\d+))?", text, re.MULTILINE)
    return tuple(int(part) for part in match.groups(default="0")) if match else None


def parse_cuda_version(text: str) -> str:
    """Returns `12.5` for what `nvcc --version` prints, or `unknown`."""
    match = re.search(r"release (\d+\.\d+)", text)
    return match[1] if match else "unknown"


def parse_tensorflow_flags(version: str, compile_flags: Sequence[str], link_flags: Sequence[str]) -> TensorFlow:
    """Sorts the flags of `tf.sysconfig` into what Bazel needs; unknown ones are an error, not a silent loss."""
    include_dir = library_dir = library = cxx11_abi = ""
    defines: list[str] = []
    linkopts: list[str] = []
    for flag in compile_flags:
        if flag.startswith("-I"):
            include_dir = include_dir or flag[2:]
        elif flag.startswith("-D"):
            defines.append(flag[2:])
            key, _, value = flag[2:].partition("=")
            if key == _ABI_DEFINE:
                cxx11_abi = value
        elif flag.lstrip("-").startswith("std="):
            if flag.split("=")[1] != "c++17":
                raise ConfigureError(f"TensorFlow {version} wants {flag}; this project is built as C++17.")
        else:
            raise ConfigureError(f"TensorFlow {version}: compile flag {flag!r} is not understood by configure.py.")
    for flag in link_flags:
        if flag.startswith("-L"):
            library_dir = library_dir or flag[2:]
        elif flag.startswith("-l:libtensorflow_framework"):
            library = flag[3:]
        else:
            linkopts.append(flag)
    if not (include_dir and library_dir and library and cxx11_abi):
        raise ConfigureError(
            f"TensorFlow {version}: its flags name no headers, no shared framework library or no C++ ABI: "
            f"{shlex.join([*compile_flags, *link_flags])}. Install TensorFlow from its official wheel."
        )
    return TensorFlow(version, include_dir, f"{library_dir}/{library}", cxx11_abi, tuple(defines), tuple(linkopts))


def find_tensorflow() -> TensorFlow:
    if importlib.util.find_spec("tensorflow") is None:
        raise ConfigureError(
            f"TensorFlow is not installed in {sys.executable}. Install it (pip install tensorflow-cpu==2.17.1), or run "
            "configure.py with the Python that has it."
        )
    # The cheap check first: importing TensorFlow takes seconds.
    for distribution in ("tensorflow", "tensorflow-cpu", "tf-nightly"):
        try:
            check_tensorflow_version(importlib.metadata.version(distribution))
        except importlib.metadata.PackageNotFoundError:
            continue
        break
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow as tf
    except Exception as error:
        raise ConfigureError(f"TensorFlow in {sys.executable} does not import: {error}") from error
    check_tensorflow_version(tf.__version__)
    found = parse_tensorflow_flags(tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags())
    for path in (found.include_dir, found.library):
        if not os.path.exists(path):
            raise ConfigureError(f"TensorFlow {found.version} names {path}, which is missing. Install it again.")
    return found


def find_bazel(requested: str | None) -> Bazel:
    binary = shutil.which(requested or "bazel") or (None if requested else shutil.which("bazelisk"))
    if binary is None:
        raise ConfigureError(
            f"{requested or 'bazel'} is not on PATH. Install Bazel, on Debian and Ubuntu with: "
            "apt-get install bazel-bootstrap bazel-rules-java bazel-rules-proto"
        )
    # Outside the workspace: there, a fragment of an earlier configuration would be read.
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False, cwd="/")
    return Bazel(binary, parse_bazel_version(output.stdout))


def find_cuda(environ: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> Cuda | None:
    home = environ.get("CUDA_HOME", "")
    nvcc = f"{home}/bin/nvcc" if home else which("nvcc")
    if nvcc is None:
        return None
    if not os.access(nvcc, os.X_OK):
        raise ConfigureError(f"CUDA_HOME is {home}, but {nvcc} is no program. Correct CUDA_HOME, or unset it.")
    output = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    return Cuda(home or str(pathlib.Path(nvcc).resolve().parent.parent), parse_cuda_version(output.stdout))


def bazel_flags(bazel: Bazel, debian_rules: pathlib.Path = _DEBIAN_RULES) -> list[str]:
    """Returns the flags with which this Bazel builds the one WORKSPACE; raises if it cannot."""
    if bazel.version is not None and not (bazel.version >= _MIN_BAZEL and bazel.version[0] <= _MAX_BAZEL_MAJOR):
        raise ConfigureError(
            f"Bazel must be {_dotted(_MIN_BAZEL)} to {_MAX_BAZEL_MAJOR}.x; got {_dotted(bazel.version)} "
            f"({bazel.binary}). Name another one with --bazel=PROGRAM."
        )
    if bazel.version is None or bazel.version[0] < 5:
        # The distribution's Bazel, which may download nothing: the rules come from its packages and from stand-ins.
        for name in ("java", "proto"):
            if not (debian_rules / name / "WORKSPACE").exists():
                raise ConfigureError(
                    f"{bazel.binary} is the distribution's Bazel, but {debian_rules / name} is missing. "
                    f"Install it: apt-get install bazel-rules-{name}"
                )
        return [
            "--override_repository=rules_cc=%workspace%/third_party/rules_cc",
            "--override_repository=remote_coverage_tools=%workspace%/third_party/remote_coverage_tools",
            f"--override_repository=rules_java={debian_rules}/java",
            f"--override_repository=rules_proto={debian_rules}/proto",
        ]
    flags = []
    if bazel.version[0] >= 6:
        flags.append("--noenable_bzlmod")
    if bazel.version[0] >= 8:
        flags.append("--enable_workspace")
    return flags


def fragment(
    tensorflow: TensorFlow, flags: Sequence[str], cuda: Cuda | None, python: str, output_base: pathlib.Path
) -> str:
    """Returns the text of the fragment of .bazelrc."""
    repo_env = {
        "SFCTR_PYTHON": python,
        "SFCTR_TF_VERSION": tensorflow.version,
        "SFCTR_TF_INCLUDE_DIR": tensorflow.include_dir,
        "SFCTR_TF_LIBRARY": tensorflow.library,
        "SFCTR_TF_CXX11_ABI": tensorflow.cxx11_abi,
        "SFCTR_TF_DEFINES": " ".join(define for define in tensorflow.defines if not define.startswith(_ABI_DEFINE)),
        "SFCTR_TF_LINKOPTS": " ".join(tensorflow.linkopts),
        "SFCTR_CUDA_HOME": cuda.home if cuda else "",
    }
    lines = [
        "# Written by configure.py; run it again rather than editing this.",
        f"# TensorFlow {tensorflow.version}; CUDA {cuda.version if cuda else 'none'}.",
        "startup " + shlex.quote(f"--output_base={output_base}"),
    ]
    everywhere = [*flags, *(f"--repo_env={name}={value}" for name, value in repo_env.items())]
    for flag in everywhere:
        quoted = shlex.quote(flag.replace("%workspace%", str(_ROOT)))
        lines += [f"{command} {quoted}" for command in ("build", "fetch", "query")]
    # For every target, the core's too: all are linked into one library.
    lines.append(f"build --cxxopt=-D{_ABI_DEFINE}={tensorflow.cxx11_abi}")
    lines.append("build " + shlex.quote(f"--symlink_prefix={output_base}-"))
    return "\n".join(lines) + "\n"


def _dotted(version: Sequence[int]) -> str:
    return ".".join(str(part) for part in version)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigureError(f"{message}. See python configure.py --help")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _Parser(
        prog="configure.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--bazel", metavar="PROGRAM", help="Bazel to build with (default: bazel or bazelisk on PATH)")
    parser.add_argument(
        "--output", metavar="FILE", default=".sfctr.bazelrc", help="file to write (default: %(default)s)"
    )
    parser.add_argument(
        "--output_base", metavar="DIR", help="where Bazel keeps its outputs (default: .bazel/tf<minor version>)"
    )
    try:
        args = parser.parse_args(arguments)
        check_python(tuple(sys.version_info[:3]))
        bazel = find_bazel(args.bazel)
        flags = bazel_flags(bazel)
        tensorflow = find_tensorflow()
        cuda = find_cuda(os.environ)
    except ConfigureError as error:
        print(f"configure.py: {error}", file=sys.stderr)
        return 1
    output_base = _ROOT / (args.output_base or f".bazel/tf{tensorflow.minor}")
    output = _ROOT / args.output
    output.write_text(fragment(tensorflow, flags, cuda, os.path.abspath(sys.executable), output_base), encoding="utf-8")
    version = _dotted(bazel.version) if bazel.version else "of the distribution"
    print(f"TensorFlow {tensorflow.version} ({os.path.dirname(tensorflow.library)})")
    print(f"Bazel {version} ({bazel.binary})")
    print(f"CUDA {cuda.version} ({cuda.home})" if cuda else "CUDA: none")
    print(f"Wrote {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
