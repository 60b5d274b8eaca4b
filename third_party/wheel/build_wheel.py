"""Packs the Python package and the shared library into a wheel (PEP 427), with the metadata of pyproject.toml.

Standard library only and no network, so that it runs as a Bazel action. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import pathlib
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

# The earliest time a zip file can hold.
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)

_BUILD_INFO = '''"""What this build of tf_sfctr was made from and for; written by the wheel builder."""

VERSION = {version!r}
COMMIT = {commit!r}
TENSORFLOW_VERSION = {tensorflow_version!r}
TENSORFLOW_MINOR = {tensorflow_minor!r}
CXX11_ABI = {cxx11_abi!r}
'''


def tensorflow_minor(version: str) -> str:
    """Returns `2.17` for `2.17.1`."""
    return ".".join(version.split(".")[:2])


def platform_tag() -> str:
    return f"linux_{platform.machine()}"


def parse_commit(status: str) -> str:
    """Returns the commit in the text of Bazel's stable status file, or `unknown`."""
    for line in status.splitlines():
        key, _, value = line.partition(" ")
        if key == "STABLE_SFCTR_COMMIT" and value:
            return value
    return "unknown"


def metadata(pyproject: Mapping[str, Any], minor: str, readme: str) -> str:
    """Returns the METADATA file (core metadata 2.1) for a wheel built for one TensorFlow minor version."""
    project = pyproject["project"]
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    lines += [f"Requires-Dist: {dependency}" for dependency in project["dependencies"]]
    for extra, dependencies in pyproject["tool"]["tf_sfctr"]["extras"].items():
        lines.append(f"Provides-Extra: {extra}")
        for dependency in dependencies:
            requirement, _, marker = dependency.format(tensorflow_minor=minor).partition(";")
            condition = f"({marker.strip()}) and " if marker else ""
            lines.append(f"Requires-Dist: {requirement.strip()} ; {condition}extra == '{extra}'")
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + readme


def write_wheel(path: pathlib.Path, dist_info: str, files: Mapping[str, bytes]) -> None:
    """Writes a wheel of `files` (archive name -> content) and the RECORD of them."""
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, content: bytes) -> None:
            info = zipfile.ZipInfo(name, _TIMESTAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(info, content)

        for name, content in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
            add(name, content)
        record.append(f"{dist_info}/RECORD,,")
        add(f"{dist_info}/RECORD", ("\n".join(record) + "\n").encode())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pyproject", type=pathlib.Path, required=True)
    parser.add_argument("--shared_library", type=pathlib.Path, required=True)
    parser.add_argument("--tensorflow_version", required=True)
    parser.add_argument("--cxx11_abi", required=True)
    parser.add_argument("--status_file", type=pathlib.Path, required=True)
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--description_files", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--sources", type=pathlib.Path, nargs="+", required=True, help="paths from the project's root")
    args = parser.parse_args(arguments)

    pyproject = tomllib.loads(args.pyproject.read_text(encoding="utf-8"))
    name, version = pyproject["project"]["name"], pyproject["project"]["version"]
    minor = tensorflow_minor(args.tensorflow_version)
    tag = f"py3-none-{platform_tag()}"
    dist_info = f"{name}-{version}.dist-info"

    description = {path.name: path for path in args.description_files}
    readme = description["README.md"].read_text(encoding="utf-8") if "README.md" in description else ""
    build_info = _BUILD_INFO.format(
        version=version,
        commit=parse_commit(args.status_file.read_text(encoding="utf-8")),
        tensorflow_version=args.tensorflow_version,
        tensorflow_minor=minor,
        cxx11_abi=int(args.cxx11_abi),
    )
    files = {path.as_posix(): path.read_bytes() for path in args.sources}
    files[f"{name}/_build_info.py"] = build_info.encode()
    files[f"{name}/{args.shared_library.name}"] = args.shared_library.read_bytes()
    files[f"{dist_info}/METADATA"] = metadata(pyproject, minor, readme).encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: tf_sfctr\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{dist_info}/WHEEL"] = wheel.encode()
    files[f"{dist_info}/top_level.txt"] = f"{name}\n".encode()
    if "LICENSE" in description:
        files[f"{dist_info}/LICENSE"] = description["LICENSE"].read_bytes()
    args.output_dir.mkdir(parents=True, exist_ok=True)
    write_wheel(args.output_dir / f"{name}-{version}-{tag}.whl", dist_info, files)


if __name__ == "__main__":
    main()
