#!/usr/bin/env bash
# Installs what is missing and nothing else: Debian packages, then .venv with what requirements.txt names.
# A second run finds everything there and does nothing.
#   SAKER_BASE_PYTHON   the Python to make .venv from (default: python3.11, else python3)
#   SAKER_TORCH         a torch version other than that of requirements.txt; it goes into .venv-VERSION
set -euo pipefail
cd "$(dirname "$0")/.."

base=${SAKER_BASE_PYTHON:-$(command -v python3.11 || command -v python3 || true)}

# --- Debian packages -------------------------------------------------------------------------------------------------
missing=()
need() { # need PACKAGE TEST...: PACKAGE is missing if TEST fails
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
need g++ command -v g++
need cmake command -v cmake
need ninja-build command -v ninja
need ccache command -v ccache
need git command -v git
need libgtest-dev test -e /usr/include/gtest/gtest.h
if [ -z "$base" ]; then
  missing+=(python3 python3-venv python3-dev)
else
  need python3-venv "$base" -c 'import ensurepip'
  need python3-dev "$base" -c 'import os, sysconfig; assert os.path.exists(sysconfig.get_paths()["include"] + "/Python.h")'
fi
for extra in "$@"; do need "$extra" dpkg -s "$extra"; done

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "setup: missing Debian packages, install them as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  apt-get update -qq
  updated=yes
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  base=${base:-$(command -v python3)}
fi

# Generated code needs LLVM 22. Where the distribution has none, or nobody may install it, Saker is built without.
if [ ! -e /usr/lib/llvm-22/bin/llvm-config ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  [ -n "${updated:-}" ] || apt-get update -qq
  if apt-cache show llvm-22-dev >/dev/null 2>&1; then
    echo "setup: installing llvm-22-dev"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends llvm-22-dev >/dev/null
  fi
fi

# --- Python packages --------------------------------------------------------------------------------------------------
if ! "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "setup: Python 3.11 or newer is needed, and $base is $("$base" --version)" >&2
  exit 1
fi
venv=.venv
wanted=$(cat requirements.txt)
if [ -n "${SAKER_TORCH:-}" ]; then
  venv=.venv-$SAKER_TORCH
  wanted=$(sed "s/^torch==.*/torch==$SAKER_TORCH/" requirements.txt)
fi
if [ "$(cat "$venv/.saker-installed" 2>/dev/null || true)" != "$wanted" ]; then
  echo "setup: installing Python packages into $venv"
  [ -x "$venv/bin/python" ] || "$base" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r <(echo "$wanted")
  # transformers comes after torch, so that it takes the torch that is there.
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check transformers==5.22.2
  if [ "$venv" = .venv ]; then
    site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    echo "$PWD/python" >"$site/saker.pth"
  fi
  echo "$wanted" >"$venv/.saker-installed"
fi
