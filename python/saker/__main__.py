"""``python -m saker``, and the command ``saker``.

``doctor`` tells what an installation is made of, ``opt`` runs saker-opt.
"""

from __future__ import annotations

import subprocess
import sys

_HELP = """usage: saker doctor            versions, processor, code generation, and what is missing
       saker opt [options] file    saker-opt: passes on graphs as text (saker opt --help)"""


def main(arguments: list[str] | None = None) -> int:
    command, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command == "doctor" and not rest:
        from saker._doctor import doctor

        return doctor()
    if command == "opt":
        from saker._doctor import opt_path

        path = opt_path()
        if path is None:
            print("saker opt: saker-opt is not there; `saker doctor` tells how to get it", file=sys.stderr)
            return 2
        return subprocess.run([path, *rest], check=False).returncode
    asked = command in ("-h", "--help")
    print(_HELP, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main())
