#!/bin/sh
# Prints the commit that `tf_sfctr/_build_info.py` records; `+` marks uncommitted changes.
commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || commit=unknown
if [ "$commit" != unknown ] && ! git diff --quiet HEAD -- 2>/dev/null; then commit="$commit+"; fi
echo "STABLE_SFCTR_COMMIT $commit"
