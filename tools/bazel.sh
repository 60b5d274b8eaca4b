#!/bin/bash
# Runs Bazel with a fragment that configure.py wrote:
#   bazel.sh FRAGMENT COMMAND ARGUMENTS...
#   bazel.sh --prefix FRAGMENT   prints what the paths of the outputs begin with
#   bazel.sh --wheel FRAGMENT    prints the path of the wheel that was built last
# The fragment comes last on Bazel's list, so it wins over the `.sfctr.bazelrc` that `.bazelrc` imports.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix() { sed -n "s/^build '\{0,1\}--symlink_prefix=\(.*[^']\)'\{0,1\}$/\1/p" "$1"; }

case $1 in
  --prefix) prefix "$2" ;;
  --wheel) ls "$(prefix "$2")"bin/dist/*.whl ;;
  *)
    fragment=$1
    shift
    rc=()
    [[ $fragment == .sfctr.bazelrc ]] || rc=("--bazelrc=$fragment")
    exec "$(command -v bazel || command -v bazelisk)" "${rc[@]}" "$@"
    ;;
esac
