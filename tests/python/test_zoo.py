"""Whole models, captured and deferred, against eager mode: losses, gradients, optimizer state, buffers and the random
stream."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from torch_versions import LENGTHS_BEYOND_A_WINDOW, symbolic_matmul
from zoo import MODELS, Case

torch.set_num_threads(1)

RECURRENT = "PyTorch's C++ code of recurrent layers asks for sizes in numbers, which makes them static"
# What is known not to work: (model, test) -> why.
KNOWN = {
    ("lstm", "dynamic"): RECURRENT,
    ("gru", "dynamic"): RECURRENT,
}
# Models that look at data: the batch sizes of a sequence; a random number that says whether to skip a layer.
READS_DATA = {("packed lstm", False), ("packed lstm", True), ("whisper encoder", True)}
# All that dynamic sizes are told to obey: the number of position embeddings, the length of a sliding window.
GUARDS = {"bert": ["length <= 32"], "mistral": [LENGTHS_BEYOND_A_WINDOW]}


def models(test: str) -> list[Any]:
    def marks(name: str) -> list[pytest.MarkDecorator]:
        why = KNOWN.get((name, test))
        return [pytest.mark.xfail(strict=True, reason=why)] if why else []

    return [pytest.param(name, marks=marks(name)) for name in MODELS]


def case_of(name: str, training: bool) -> Case:
    torch.manual_seed(0)
    case = MODELS[name]()
    case.module.train(training)
    return case


def forward(case: Case) -> Callable[..., torch.Tensor]:
    return lambda *inputs: case.loss_of(case.module, *inputs)


def with_gradients(case: Case) -> Callable[..., list[torch.Tensor]]:
    parameters = [p for p in case.module.parameters() if p.requires_grad]

    def run(*inputs: torch.Tensor) -> list[torch.Tensor]:
        loss = case.loss_of(case.module, *inputs)
        return [loss, *torch.autograd.grad(loss, parameters, allow_unused=True)]

    return run


def seeded(fn: Callable, *args: Any) -> Any:
    torch.manual_seed(5)
    return fn(*args)


FUNCTIONS = {"forward": forward, "backward": with_gradients}


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", models("capture"))
def test_captured_model_equals_eager(name: str, function: str, training: bool) -> None:
    case = case_of(name, training)
    fn = FUNCTIONS[function](case)
    if (name, training) in READS_DATA:
        with pytest.raises(saker.CaptureError) as raised:
            saker.capture(fn, *case.inputs)
        assert raised.value.reason == "DataDependent"
        assert raised.value.file.endswith(("zoo.py", "modeling_whisper.py"))
        return
    buffers = copy.deepcopy(dict(case.module.named_buffers()))
    random_state = torch.get_rng_state()
    graph = saker.capture(fn, *case.inputs)
    assert torch.equal(torch.get_rng_state(), random_state)
    same(dict(case.module.named_buffers()), buffers)
    assert graph.stats["fallbacks"] == 0
    functional = graph.functional()

    expected = seeded(fn, *case.inputs)
    expected_buffers = copy.deepcopy(dict(case.module.named_buffers()))
    for run in (graph, functional):
        case.module.load_state_dict(buffers, strict=False)
        torch.testing.assert_close(seeded(run, *case.inputs), expected)
        torch.testing.assert_close(dict(case.module.named_buffers()), expected_buffers)


@symbolic_matmul
@pytest.mark.parametrize("name", models("dynamic"))
def test_dynamic_graph_runs_at_other_sizes(name: str) -> None:
    case = case_of(name, training=False)
    if not case.dynamic:
        pytest.skip("nothing of it may change")
    for function in FUNCTIONS.values():
        fn = function(case)
        graph = saker.capture(fn, *case.inputs, dynamic=case.dynamic)
        functional = graph.functional()
        assert graph.guards == GUARDS.get(name, [])
        assert graph.stats["fallbacks"] == 0
        for batch, length in ((7, 11), (3, 9), (2, 17)):
            inputs = case.make_inputs(batch, length)
            expected = fn(*inputs)
            torch.testing.assert_close(graph(*inputs), expected)
            torch.testing.assert_close(functional(*inputs), expected)


@symbolic_matmul
@pytest.mark.parametrize("name", GUARDS)
def test_sizes_outside_of_the_guards_are_refused(name: str) -> None:
    case = case_of(name, training=False)
    graph = saker.capture(forward(case), *case.inputs, dynamic=case.dynamic)
    with pytest.raises(saker.RunError, match=GUARDS[name][0]):
        graph(*case.make_inputs(3, 33 if "<=" in GUARDS[name][0] else 5))


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}
MORE_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    **{
        f"{kind.__name__.lower()} {how}": lambda p, kind=kind, how=how: kind(p, lr=0.01, **{how: True})
        for kind in (torch.optim.SGD, torch.optim.AdamW)
        for how in ("foreach", "fused", "maximize")
    },
    "adamw amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "sgd nesterov": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.01, max_iter=3),
}


def train(
    case: Case, make_optimizer: Callable, block: Callable, steps: int = 5
) -> tuple[dict[str, Any], list[dict[str, int]]]:
    """Everything that training changes, and the counts of each block."""
    module = copy.deepcopy(case.module)
    optimizer = make_optimizer(module.parameters())
    losses, counts = [], []
    torch.manual_seed(3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = case.loss_of(module, *case.inputs)
        loss.backward()
        return loss

    for _ in range(steps):
        with block() as entered:
            if isinstance(optimizer, torch.optim.LBFGS):
                losses.append(optimizer.step(closure))
            else:
                losses.append(closure())
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                optimizer.step()
        if entered:
            counts.append(entered.stats())
    state = {
        "losses": losses,
        "parameters": dict(module.named_parameters()),
        "gradients": {name: p.grad for name, p in module.named_parameters()},
        "versions": {name: p._version for name, p in module.named_parameters()},
        "buffers": dict(module.named_buffers()),
        "optimizer": optimizer.state_dict(),
        "random state": torch.get_rng_state(),
    }
    return state, counts


def same(got: Any, expected: Any) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def check_training(case: Case, make_optimizer: Callable) -> None:
    expected, _ = train(case, make_optimizer, contextlib.nullcontext)
    got, counts = train(case, make_optimizer, saker.deferred)
    same(got, expected)
    assert all(count["layout_mismatches"] == 0 for count in counts)
    assert all(count["fallbacks"] == 0 for count in counts)
    assert all(count["recorded"] > 0 for count in counts)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", models("deferred"))
def test_deferred_training_is_eager_training(name: str, optimizer: str) -> None:
    check_training(case_of(name, training=True), OPTIMIZERS[optimizer])


@pytest.mark.parametrize("optimizer", MORE_OPTIMIZERS)
def test_deferred_optimizers(optimizer: str) -> None:
    check_training(case_of("mlp", training=True), MORE_OPTIMIZERS[optimizer])


@pytest.mark.parametrize("name", ["mlp", "gpt2", "convnet"])
def test_one_block_around_all_steps(name: str) -> None:
    case = case_of(name, training=True)
    expected, _ = train(case, OPTIMIZERS["adamw"], contextlib.nullcontext)
    with saker.deferred() as block:
        got, _ = train(case, OPTIMIZERS["adamw"], contextlib.nullcontext)
    same(got, expected)
    assert block.stats()["layout_mismatches"] == 0
