#!/usr/bin/env bash
# Gets PyTorch's own tests of its compiler (release 2.6.0) into a folder, out of the source package of Debian's archive.
#   tests/upstream/fetch.sh FOLDER
# They are run, never committed.
set -euo pipefail

folder=${1:?usage: fetch.sh FOLDER}
suite=trixie
tests=(
  dynamo/test_autograd_function.py dynamo/test_ctx_manager.py dynamo/test_exceptions.py dynamo/test_functions.py
  dynamo/test_hooks.py dynamo/test_modes.py dynamo/test_modules.py dynamo/test_optimizers.py dynamo/test_unspec.py
  functorch/test_aotdispatch.py functorch/test_control_flow.py
)
helpers=(
  dynamo/__init__.py dynamo/mock_modules dynamo/utils.py functorch/common_utils.py
  functorch/functorch_additional_op_db.py
)

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
archive=$folder/pytorch.orig.tar.xz
[ -f "$folder/functorch/test_aotdispatch.py" ] && exit 0

if [ ! -s "$archive" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work"
  mkdir -p "$work/lists/partial"
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ' || true)
  cat >"$work/debian.sources" <<SOURCES
Types: deb-src
URIs: ${mirror:-https://deb.debian.org/debian}
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
  options=(-qq -o "Dir::Etc::sourcelist=$work/debian.sources" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$work/lists")
  apt-get "${options[@]}" update
  (cd "$work" && apt-get "${options[@]}" source --download-only pytorch=2.6.0* >/dev/null 2>&1 ||
    apt-get "${options[@]}" source --download-only pytorch >/dev/null 2>&1)
  mv "$work"/pytorch_2.6.0*.orig.tar.xz "$archive"
fi

top=$(tar tf "$archive" 2>/dev/null | head -n 1 | cut -d / -f 1 || true)
members=()
for name in "${tests[@]}" "${helpers[@]}"; do members+=("$top/test/$name"); done
tar xf "$archive" -C "$folder" --strip-components=2 "${members[@]}"
rm "$archive"
