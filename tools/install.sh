#!/bin/bash
# Builds the wheel for a virtual environment's TensorFlow and installs it there if it changed:
#   install.sh VENV FRAGMENT
# FRAGMENT is the file that configure.py writes for that TensorFlow.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
fragment=$2
# Two makes at once must not install into one environment at once.
mkdir -p .bazel
exec 9>.bazel/install.lock
flock 9
python=$PWD/$venv/bin/python
if [[ ! -e $fragment || configure.py -nt $fragment || $venv/requirements.stamp -nt $fragment ]]; then
  "$python" configure.py --output="$fragment"
fi
tools/bazel.sh "$fragment" build //:wheel 9>&-
wheel=$(tools/bazel.sh --wheel "$fragment")
digest=$(sha256sum "$wheel" | cut -d' ' -f1)
if [[ $(cat "$venv/wheel.stamp" 2>/dev/null) != "$digest" ]]; then
  "$python" -m pip install -qq --disable-pip-version-check --no-deps --force-reinstall "$wheel"
  echo "$digest" >"$venv/wheel.stamp"
fi
