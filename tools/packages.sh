#!/bin/bash
# Installs the distribution's packages that the build needs, where they are missing: packages.sh [clang] [benchmark]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

missing=()
have() { command -v "$1" >/dev/null 2>&1; }
have g++ || missing+=(g++)
have git || missing+=(git)
have nm || missing+=(binutils)
if have bazel; then
  # The distribution's Bazel finds these rules in packages of their own.
  if [[ -d /usr/share/bazel ]]; then
    [[ -d /usr/share/bazel/rules/java ]] || missing+=(bazel-rules-java)
    [[ -d /usr/share/bazel/rules/proto ]] || missing+=(bazel-rules-proto)
  fi
elif ! have bazelisk; then
  missing+=(bazel-bootstrap bazel-rules-java bazel-rules-proto)
fi
[[ -d /usr/src/googletest/googletest ]] || missing+=(libgtest-dev)
"${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
for extra in "$@"; do
  case $extra in
    clang) have clang || missing+=(clang) ;;
    benchmark) [[ -e /usr/include/benchmark/benchmark.h ]] || missing+=(libbenchmark-dev) ;;
    *) echo "$0: '$extra' must be clang or benchmark" >&2; exit 2 ;;
  esac
done
((${#missing[@]})) || exit 0

if ! have apt-get; then
  echo "tf_sfctr: these programs are missing and there is no apt-get to install them: ${missing[*]}" >&2
  echo "Install what your distribution calls them, then run make again." >&2
  exit 1
fi
if ((EUID)); then
  echo "tf_sfctr: packages are missing and only root may install them. Run this, then make again:" >&2
  echo "    sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${missing[*]}"
mkdir -p "$root/.bazel"
log=$root/.bazel/apt.log
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
  tail -n 20 "$log" >&2
  echo "tf_sfctr: apt-get could not install ${missing[*]}; all of its output is in $log" >&2
  exit 1
fi
