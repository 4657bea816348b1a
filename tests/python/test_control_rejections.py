"""What PyTorch rejects in calls of higher-order operators is rejected: the same class, in words that name the place."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback

import pytest
import torch

import saker
from alone import alone
from higher_order_cells import entered
from higher_order_rejections import REJECTIONS, Rejection, X
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

CASES = [(rejection, entry) for rejection in REJECTIONS for entry in rejection.entries]
CLASSES = ("AssertionError", "AttributeError", "IndexError", "RuntimeError", "TypeError", "ValueError")

_EAGER = """
import json, sys
import torch
sys.path[:0] = {path!r}
from higher_order_wrong_calls import REJECTIONS, X

found = {{}}
for rejection in REJECTIONS:
    try:
        with torch.no_grad():
            rejection.call(X.clone())
        found[rejection.name] = None
    except Exception as error:
        found[rejection.name] = [each.__name__ for each in type(error).__mro__]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def eager() -> dict[str, list[str] | None]:
    """The classes of what eager mode raises. PyTorch's compiler, which it starts, is kept out of this process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _EAGER.format(path=sys.path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def error_of(rejection: Rejection, entry: str) -> tuple[BaseException, list[str]]:
    try:
        with torch.no_grad():
            entered(entry, rejection.call, X)(X.clone())
    except Exception as error:
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
        return error.with_traceback(None), files
    raise AssertionError("accepted")


@pytest.mark.parametrize(("rejection", "entry"), CASES, ids=lambda each: getattr(each, "name", each))
def test_rejected(rejection: Rejection, entry: str, eager: dict[str, list[str] | None]) -> None:
    saker.reset()
    error, files = error_of(rejection, entry)
    text = str(error)
    for word in rejection.words:
        assert word in text, text
    if rejection.by == "saker":
        code = rejection.call.__code__
        file, line, _ = text.split(":", 2)
        assert file == code.co_filename, text
        assert code.co_firstlineno < int(line) <= code.co_firstlineno + 25, text
    else:  # Python and PyTorch name no line; the traceback does
        assert rejection.call.__code__.co_filename in files
    expected = eager[rejection.name]
    if rejection.accepted:
        assert expected is None, f"eager mode rejects it now, with {expected}"
        return
    assert expected is not None, "eager mode accepts it now"
    wanted = next(name for name in expected if name in CLASSES)
    assert wanted in [each.__name__ for each in type(error).__mro__], f"{wanted} in eager mode, and {type(error)} here"


def test_functions_by_keyword_are_guarded() -> None:
    scale = {"by": 2.0}

    def program(x):
        return torch.cond(pred=x.sum() > 0, true_fn=lambda v: v * scale["by"], false_fn=lambda v: v - 1, operands=(x,))

    compiled = saker.compile(program)
    for scale["by"] in (2.0, 2.0, 5.0):
        torch.testing.assert_close(compiled(X), X * scale["by"])


@alone
def test_random_state_in_a_body() -> None:
    """What a body reads of the generator is what it is when the body runs; the first time in a process, too."""

    def body(v):
        state = torch.get_rng_state()
        first = torch.rand(3, 3)
        torch.set_rng_state(state)
        return torch.rand(3, 3) - first + v

    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, body, lambda v: v * 2, (x,)))
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(X), X)


@pytest.mark.parametrize("entry", ["compile", "capture", "aot_function", "deferred"])
def test_a_loop_whose_condition_never_holds(entry: str) -> None:
    from torch._higher_order_ops.while_loop import while_loop

    with torch.no_grad():
        found = entered(entry, lambda x: while_loop(lambda v: False, lambda v: (v + 1,), (x,))[0], X)(X)
    torch.testing.assert_close(found, X)
