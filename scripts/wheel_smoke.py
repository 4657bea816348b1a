"""Tries an installed Saker, without the clone that it was built from: scripts/wheel_smoke.sh runs this.

python scripts/wheel_smoke.py CLONE    # the folder that nothing may be imported from
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import warnings
from importlib import metadata
from pathlib import Path

warnings.simplefilter("ignore")  # torch says that it finds no NumPy
import torch  # noqa: E402

import saker  # noqa: E402


def check(what: str, true: object) -> None:
    if not true:
        sys.exit(f"wheel: {what}: no")
    print(f"wheel: {what}: yes")


def training(compiler) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4))
    run = compiler(model)
    for _ in range(5):
        model.zero_grad()
        run(torch.randn(16, 8)).square().mean().backward()
        with torch.no_grad():  # by hand: PyTorch's optimizers load its compiler
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    return [parameter.detach() for parameter in model.parameters()]


def main() -> None:
    clone = Path(sys.argv[1])
    package = Path(saker.__file__).parent
    check("imported from the environment, not from the clone", clone / "python" not in package.parents)
    check(f"version {saker.__version__} is that of the package", metadata.version("saker") == saker.__version__)
    needed = f"torch=={torch.__version__.partition('+')[0]}"
    check(f"the package needs {needed}", metadata.requires("saker") == [needed])
    check("the license is in the package", any(path.name == "LICENSE" for path in metadata.files("saker") or []))

    expected = training(lambda model: model)
    check("training gives eager mode's parameters", all(map(torch.equal, training(saker.compile), expected)))
    check("calls were replayed", saker.stats()["replays"] == 4 and not saker.stats()["stops"])
    check("explain finds a graph", saker.explain(torch.nn.Linear(3, 3))(torch.ones(2, 3)).captured)

    tool = Path(sysconfig.get_path("scripts")) / "saker-opt"
    helped = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False)
    check("saker-opt --help prints help", helped.returncode == 0 and helped.stdout.startswith("usage: saker-opt"))
    graph = saker.capture(lambda x: x.sin() + x.sin(), torch.ones(3)).text
    run = subprocess.run([tool, "--passes=cse,dce", "-"], input=graph, capture_output=True, text=True, check=False)
    check("saker-opt reads what Saker prints", run.returncode == 0 and run.stdout.count("aten::sin") == 1)
    loaded = [name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))]
    check("PyTorch's compiler was not loaded", not loaded)


if __name__ == "__main__":
    main()
