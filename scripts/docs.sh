#!/usr/bin/env bash
# Builds the pages of docs as a site in build-docs/site: scripts/docs.sh [PYTHON]. MkDocs gets an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
environment=build-docs/environment
mkdir -p build-docs
if ! cmp -s requirements-docs.txt build-docs/installed.txt; then
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
  cp requirements-docs.txt build-docs/installed.txt
fi
"$environment/bin/mkdocs" build --quiet --strict --clean
# A page loads nothing from elsewhere: it may only link there.
if grep -rlE '<(script|img|iframe)[^>]+src="(https?:)?//|<link[^>]+href="(https?:)?//[^"]+"[^>]*stylesheet|url\((https?:)?//' \
  --include='*.html' --include='*.css' build-docs/site; then
  echo "docs: these files load something from the network" >&2
  exit 1
fi
echo "docs: build-docs/site/index.html, $(find build-docs/site -name '*.html' | wc -l) pages"
