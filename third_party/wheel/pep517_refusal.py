"""The build backend of `pip install .`: says how the wheel is made.

The wheel needs Bazel and the TensorFlow of the target environment, neither of which pip's isolated build can see.
Without this, pip would pack a wheel that lacks the shared library.
"""

from __future__ import annotations

from typing import NoReturn


def _refuse(*_: object, **__: object) -> NoReturn:
    raise SystemExit(
        "tf_sfctr is built by Bazel, not by pip: run `make wheel`, then `pip install dist/<the wheel>`. "
        "`make test` does it in .venv."
    )


build_wheel = _refuse
build_editable = _refuse
build_sdist = _refuse
