#!/bin/bash
# Makes a virtual environment and installs requirements in it: venv.sh FOLDER REQUIREMENTS...
# A file named *.no-deps.txt is installed without its dependencies. Made anew when the Python it came from has gone.
set -euo pipefail
venv=$1
shift
if ! "$venv/bin/python" -c '' 2>/dev/null; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
fi
for file in "$@"; do
  deps=()
  [[ $file == *.no-deps.txt ]] && deps=(--no-deps)
  echo "Installing $file in $venv"
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check "${deps[@]}" -r "$file"
done
