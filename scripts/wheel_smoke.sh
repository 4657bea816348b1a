#!/usr/bin/env bash
# Builds a wheel as a user would, installs it into a fresh environment beside the same torch release, and tries it.
# Everything is kept in build-wheel, so that a second run compiles only what has changed.
#   PYTHON               the Python whose torch the wheel is built against (default: .venv/bin/python)
#   SAKER_OTHER_PYTHONS  Pythons with other torch releases, separated by spaces: each must be refused by a sentence
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=${PYTHON:-.venv/bin/python}
case $python in */*) python=$(realpath -s "$python") ;; esac
folder=$root/build-wheel
pip_options=(--quiet --disable-pip-version-check)
mkdir -p "$folder"

# The tools of the build go beside the environment of $PYTHON, not into it.
[ -d "$folder/tools/scikit_build_core" ] ||
  "$python" -m pip install "${pip_options[@]}" --target "$folder/tools" 'scikit-build-core>=1.1,<2'
rm -rf "$folder/dist"
PYTHONPATH=$folder/tools "$python" -m pip wheel . --disable-pip-version-check --no-build-isolation --no-deps \
  --wheel-dir "$folder/dist" --config-settings=build-dir="$folder/cmake"
wheel=$(echo "$folder"/dist/saker-*.whl)
echo "wheel: $(basename "$wheel"), $(du -h "$wheel" | cut -f1)"

# The environment has torch, what torch needs, and Saker. NumPy is none of these.
release=$("$python" -c 'import torch; print(torch.__version__.partition("+")[0])')
environment=$folder/environment-$release
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
"$environment/bin/python" -m pip install "${pip_options[@]}" "torch==$release"
"$environment/bin/python" -m pip install "${pip_options[@]}" --no-deps --force-reinstall "$wheel"
"$environment/bin/python" -m pip check
cd "$folder" # so that nothing is found by way of the clone
env -u PYTHONPATH "$environment/bin/python" "$root/scripts/wheel_smoke.py" "$root"

rm -rf "$folder/unpacked"
"$python" -m zipfile -e "$wheel" "$folder/unpacked"
for other in ${SAKER_OTHER_PYTHONS:-}; do
  if said=$(PYTHONPATH=$folder/unpacked "$other" -c 'import saker' 2>&1); then
    echo "$other: a Saker for torch $release was not refused" >&2
    exit 1
  fi
  sentence=$(tail -1 <<<"$said")
  case $sentence in
    "ImportError: this Saker was built against torch $release"*) echo "refused: $sentence" ;;
    *) echo "$other: refused in another way: $said" >&2 && exit 1 ;;
  esac
done
