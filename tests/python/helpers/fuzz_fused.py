"""Random programs with generated code against eager mode, from the command line: long runs, and runs that may crash.

    PYTHONPATH=python python tests/python/helpers/fuzz_fused.py --seeds 0 10000 --cpu avx2 --guard behind

Prints what is wrong as a small program with its seed, and ends with 1. Before each program its seed goes to the file
``--trail``: after a crash it is the last one there.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 1000), metavar=("FIRST", "END"))
    parser.add_argument(
        "--cpu", default="", help="avx512, avx2, sse4 or scalar; what the machine has, if it is not given"
    )
    parser.add_argument("--guard", default="", choices=["", "behind", "before"], help="pages that cannot be touched")
    parser.add_argument("--bits", action="store_true", help='with precision="eager", which has eager mode\'s bits')
    parser.add_argument("--trail", default=os.devnull)
    given = parser.parse_args()
    os.environ["SAKER_COMPILE"] = "sync"
    if given.cpu:
        os.environ["SAKER_CPU"] = given.cpu

    import torch

    import saker
    from fused_check import failure, smallest
    from fused_programs import make
    from saker import _C

    warnings.simplefilter("ignore")
    saker.set_logs("")
    saker.set_stages("fuse,verify")
    torch.set_num_threads(1)
    if given.guard:
        _C.set_guard_pages(given.guard)
    wrong = 0
    with open(given.trail, "w", encoding="utf-8") as trail:
        for seed in range(*given.seeds):
            trail.write(f"{seed}\n")
            trail.flush()
            program = make(seed)
            if found := failure(program, bits=given.bits):
                wrong += 1
                small, found = smallest(program, found, given.bits)
                print(f"{small.told()}\n# {found}\n")
            saker.reset()
    print(f"{given.seeds[1] - given.seeds[0]} programs, {wrong} wrong, {_C.kernels_launched()} kernels launched")
    return 1 if wrong or not _C.kernels_launched() else 0


if __name__ == "__main__":
    sys.exit(main())
