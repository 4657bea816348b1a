"""Compiled functions that write to tensors from outside, called by several threads, in children, and by kernels.

Each program runs in a process of its own: a deadlock then ends with a timeout, and fork() meets no threads of others.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import os, signal, sys, threading, time, warnings
import torch
import saker

warnings.simplefilter("ignore")
torch.set_num_threads(1)
sys.setswitchinterval(1e-5)


def together(count, work):
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
"""


def passes(program: str, timeout: float = 60) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START + program], check=False, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- writes that threads share ---

SHARED = """
b = torch.zeros(10)


def f(x):
    b.add_(1)
    for _ in range(3):
        x = x.sin() * 2
    return x.exp()


g = saker.compile(f, recompile_limit=LIMIT)
if WARM:
    g(torch.randn(10, requires_grad=True)), g(torch.randn(10))
    b.zero_()
before = b._version


def work(number):
    for k in range(40):
        x = torch.randn(SIZE, requires_grad=True)
        x.register_hook(lambda grad: (g(x.detach()), None)[1] if HOOK else None)
        g(x).sum().backward()
        if not HOOK:
            g(x.detach())


together(4, work)
# Calls that overlap run the program itself, in which eager mode's threads may lose a write now and then.
assert all(316 <= each <= 320 for each in b.tolist()), b
assert b._version - before == 320, b._version - before
assert LIMIT < 8 or saker.stats()["replays"] > 0
"""


@pytest.mark.parametrize("hook", [False, True])
@pytest.mark.parametrize(
    ("warm", "size", "limit"), [(True, "10", 8), (False, "10", 8), (True, "8 + k % 5", 20), (True, "8 + k % 5", 2)]
)
def test_no_write_is_lost(hook: bool, warm: bool, size: str, limit: int) -> None:
    program = SHARED.replace("HOOK", repr(hook)).replace("WARM", repr(warm))
    passes(program.replace("SIZE", size).replace("LIMIT", repr(limit)))


def test_no_write_through_data_is_lost() -> None:
    passes("""
b = torch.zeros(4)


def f(x):
    b.data.add_(1)
    b.mul_(1)
    return x.sin().cos()


g = saker.compile(f)
g(torch.ones(2)), g(torch.ones(3)), g(torch.ones(4))
b.zero_()
before = b._version
together(4, lambda number: [g(torch.ones(2 + k % 3)) for k in range(100)])
assert b.tolist() == [400.0] * 4, b
assert b._version - before == 400, b._version - before
""")


def test_a_call_that_runs_for_long_keeps_nobody_waiting() -> None:
    passes("""
b, going = torch.zeros(2), threading.Event()


def f(x, wait):
    b.add_(1)
    if wait is not None:
        started.set()
        wait.wait()
    return x * 2


started = threading.Event()
g = saker.compile(f)
for _ in range(3):
    g(torch.ones(2), None)
thread = threading.Thread(target=g, args=(torch.ones(2), going))
thread.start()
started.wait()
start = time.perf_counter()
for _ in range(200):
    g(torch.ones(2), None)
assert time.perf_counter() - start < 2
going.set()
thread.join()
assert b.tolist() == [204.0] * 2, b
before = saker.stats()["replays"]
g(torch.ones(2), None)
assert saker.stats()["replays"] == before + 1
""")


# --- a child of a process with threads ---

# Without products of matrices: locks of MKL's own are not made for children either.
FORK = """
import itertools

numbers = itertools.cycle(range(30))
b = torch.zeros(300, 300)


def f(x, *more):
    b.add_(x)
    for _ in range(100):
        x = x * 0.5 + 1
    return x


g = saker.compile(f)
x = torch.randn(300, 300)
for each in (x, x, x.t().requires_grad_(), x[:1]):
    g(each)
x = x.detach()
stop = []


def work():
    while not stop:
        WORK


threads = [threading.Thread(target=work) for _ in range(2)]
for each in threads:
    each.start()
for _ in range(6):
    time.sleep(0.02)
    pid = os.fork()
    if pid == 0:
        signal.alarm(15)
        before = saker.stats()["replays"]
        for _ in range(3):
            g(x)
        inner = threading.Thread(target=g, args=(x,))
        inner.start()
        g(x)
        inner.join()
        os._exit(0 if saker.stats()["replays"] - before >= 3 else 3)
    _, status = os.waitpid(pid, 0)
    if status:
        stop.append(1)
        raise SystemExit(f"the child ended with {status}")
stop.append(1)
for each in threads:
    each.join()
"""


# The second one runs the program itself for a new class of arguments each time, beyond the limit.
@pytest.mark.parametrize("work", ["g(x)", "g(x, *range(next(numbers)))"])
def test_a_child_waits_for_no_thread_of_its_parent(work: str) -> None:
    passes(FORK.replace("WORK", work), timeout=120)


# --- kernels written in Python ---

KERNEL = """
lib = torch.library.Library("attacks_threads", "FRAGMENT")
lib.define("op(Tensor x) -> Tensor")
b = torch.zeros(1)


def kernel(x):
    if x[0] < 2.5:
        return x * 1
    out = []
    thread = threading.Thread(target=lambda: out.append(g(x.detach() * 0 + 1)))
    thread.start()
    thread.join()
    return x + out[0]


lib.impl("op", kernel, "CPU")


def f(x):
    b.add_(1)
    y = torch.ops.attacks_threads.op(x.detach() * 2)
    return x * y


g = saker.compile(f)
counts = []
for run in (f, g):
    b.zero_()
    results = []
    first = b._version
    kept, g = g, run
    for factor in (1, 1, 3, 3, 1):
        x = (torch.ones(3) * factor).requires_grad_(GRAD)
        y = run(x)
        if GRAD:
            y.sum().backward()
        results.append((y.tolist(), x.grad.tolist() if GRAD else None, b.item(), b._version - first))
    g = kept
    counts.append(results)
assert counts[0] == counts[1], counts
assert saker.stats()["replays"] > 0
"""


FUNCTION = """
class Waits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return kernel(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


"""


@pytest.mark.parametrize("grad", [False, True])
def test_a_kernel_waits_for_a_thread_that_calls_the_function(grad: bool) -> None:
    passes(KERNEL.replace("GRAD", repr(grad)))


@pytest.mark.parametrize("grad", [False, True])
def test_a_function_waits_for_a_thread_that_calls_the_function(grad: bool) -> None:
    program = KERNEL.replace("torch.ops.attacks_threads.op(x.detach() * 2)", "Waits.apply(x * 2)")
    passes(program.replace("GRAD", repr(grad)).replace("def f(x):", FUNCTION + "def f(x):"))
