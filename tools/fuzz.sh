#!/bin/bash
# Builds each libFuzzer target and runs it for a bounded time: fuzz.sh FRAGMENT SECONDS
# The corpus grows in .bazel/fuzz; a crashing input stays there too and its path is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
fragment=$1
seconds=$2
shopt -s nullglob
prefix=$(tools/bazel.sh --prefix "$fragment")
for source in tests/core/*_fuzz.cc; do
  name=$(basename "$source" .cc)
  tools/bazel.sh "$fragment" build --config=fuzz "//tests/core:$name"
  mkdir -p ".bazel/fuzz/$name"
  echo "$name: $seconds s"
  "${prefix}bin/tests/core/$name" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix=".bazel/fuzz/$name-" ".bazel/fuzz/$name"
done
