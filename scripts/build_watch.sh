#!/bin/sh
# Builds the watched loop as the extension module saker_watch for a CPython, without torch.
#   scripts/build_watch.sh python3.12 build/watch312 [g++|clang++-19]
# pybind11's headers come from that Python's packages, or from PYBIND11_INCLUDE.
set -e
python=$1
out=$2
cxx=${3:-g++}
case $cxx in clang*) cc=$(echo "$cxx" | sed 's/clang++/clang/') ;; *) cc=gcc ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
include=$($python -c "import sysconfig; print(sysconfig.get_paths()['include'])")
pybind=${PYBIND11_INCLUDE:-$($python -c "import pybind11; print(pybind11.get_include())")}
suffix=$($python -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
flags="-O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror -DNDEBUG -I$root/src -isystem $include -isystem $pybind"
launcher=$(command -v ccache || true)
mkdir -p "$out"
objects=
for file in "$root"/src/watch/*.c "$root"/src/watch/*.cpp "$root/src/python/watch.cpp" "$root/tools/watch_module.cpp"; do
  object=$out/$(basename "$file").o
  case $file in
    *.c) $launcher $cc -std=gnu11 $flags -c "$file" -o "$object" ;;
    *) $launcher $cxx -std=c++20 $flags -c "$file" -o "$object" ;;
  esac
  objects="$objects $object"
done
$cxx -shared $objects -o "$out/saker_watch$suffix"
