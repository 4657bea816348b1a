"""``saker.aot_export_module`` and ``saker.aot_export_joint_simple``: graphs to take away, with nothing around them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker._aot import Functional, check_arguments
from saker._export_trace import Request, Traced, refuse, trace
from saker._fakes import is_fake
from saker._names import checks_keywords
from saker._signature import BackwardSignature, GraphSignature, name_of
from saker.errors import AssignmentError


@checks_keywords()
def aot_export_module(
    mod: torch.nn.Module,
    args: Iterable[Any],
    *,
    decompositions: dict | None = None,
    trace_joint: bool,
    output_loss_index: int | None = None,
    pre_dispatch: bool = False,
    dynamic_shapes: bool | None = None,
    kwargs: dict[str, Any] | None = None,
) -> tuple[torch.fx.GraphModule, GraphSignature]:
    """The graph of a module without writes, and a signature that says what its inputs and outputs are.

    >>> graph, signature = saker.aot_export_module(model, (x,), trace_joint=False)

    Inputs are parameters, buffers, then the leaves of ``args`` and ``kwargs``; outputs are the new contents of inputs
    that were written, then the results. With ``trace_joint`` the gradients of the loss, which is the result number
    ``output_loss_index``, come behind: for each parameter and argument that requires one. Without it the graph is that
    of a call under ``torch.no_grad()``.

    With ``dynamic_shapes`` sizes of arguments may change; if it is None they may where an argument is a fake tensor
    with symbolic sizes.
    """
    if pre_dispatch:
        refuse(
            "pre_dispatch leaves gradients out of the graph: it cannot be given together with trace_joint"
            if trace_joint
            else "pre_dispatch is unknown here: Saker records what reaches a back end, below autograd"
        )
    check_arguments(args)
    args, kwargs = tuple(args), dict(kwargs or {})
    functional = Functional(mod)
    names = list(functional.state())
    state = list(functional.state().values())
    user, in_spec = pytree.tree_flatten((args, kwargs))
    loss = _Loss(output_loss_index) if trace_joint else None
    _refuse_shared_parameters(dict(zip(names, state, strict=True)))

    def fn(leaves: list[Any]) -> tuple[Any, dict[int, torch.Tensor]]:
        call_args, call_kwargs = pytree.tree_unflatten(leaves[len(names) :], in_spec)
        given = dict(zip(names, leaves, strict=False))
        result, replaced = functional.call(given, *call_args, **call_kwargs)
        return loss.outputs(result) if loss else result, {names.index(name): t for name, t in replaced.items()}

    dynamic = [False] * len(names) + [_is_dynamic(leaf, dynamic_shapes) for leaf in user]
    request = Request(fn, [*state, *user], decompositions, dynamic, loss and loss.roots)
    request.refusals = loss.refusals if loss else []
    with contextlib.nullcontext() if trace_joint else torch.no_grad(), _attributes_kept(mod):
        traced = trace(request)
    _refuse_missing_gradients(traced, request.leaves, names, trace_joint)
    full_spec = pytree.tree_structure(((*state, *args), kwargs))
    return traced.module, _signature(traced, names, len(functional.places("_parameters")), full_spec, loss)


@checks_keywords()
def aot_export_joint_simple(
    func: Callable,
    args: tuple | list,
    *,
    trace_joint: bool,
    num_params_buffers: int = 0,
    decompositions: dict | None = None,
) -> torch.fx.GraphModule:
    """The graph of a function of tensors that gives a list of tensors, called as the function is.

    >>> graph = saker.aot_export_joint_simple(lambda a, b: [a @ b], (a, b), trace_joint=False)

    With ``trace_joint`` the graph takes (arguments, tangents) and gives (results, gradients), one for each argument and
    None where there is none; PyTorch's partitioners can cut it. The function may not write to its arguments or give
    what shares memory with them.
    """
    check_arguments(args)
    leaves, in_spec = pytree.tree_flatten(list(args))

    def fn(leaves: list[Any]) -> tuple[Any, dict[int, torch.Tensor]]:
        return func(*pytree.tree_unflatten(leaves, in_spec)), {}

    def roots(results: list[Any]) -> list[torch.Tensor]:
        return [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]

    joint = trace_joint and any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)
    dynamic = [i >= num_params_buffers and _is_dynamic(leaf, None) for i, leaf in enumerate(leaves)]
    request = Request(fn, leaves, decompositions, dynamic, roots if joint else None, tangents=joint)
    with contextlib.nullcontext() if trace_joint else torch.no_grad():
        traced = trace(request)
    if not all(child.is_leaf() for child in in_spec.children()):
        refuse(f"each argument has to be a tensor or a constant, no container of such: {in_spec}")
    if traced.written:
        refuse(f"argument {next(iter(traced.written))} is written, which such a graph cannot tell; write to a copy")
    if traced.aliases:
        refuse(f"results share memory with arguments, which such a graph cannot tell: {traced.aliases}")
    if traced.out_spec.is_leaf():
        refuse(f"the function has to give one list or tuple, and gives {traced.out_spec}")
    if not all(child.is_leaf() for child in traced.out_spec.children()):
        refuse(f"each result has to be a tensor or a constant, no container of such: {traced.out_spec}")
    return _in_pairs(traced) if joint else traced.module


class _Loss:
    """The result that is differentiated."""

    def __init__(self, index: int | None) -> None:
        if index is None:
            refuse("a joint graph differentiates one of the results: give the number of the loss as output_loss_index")
        self.index = index
        self.refusals: list[str] = []  # told when the capture is over

    def outputs(self, result: Any) -> tuple[Any, ...]:
        if isinstance(result, torch.Tensor):
            result = (result,)
        if not isinstance(result, (tuple, list)):
            refuse(f"the module gives a {type(result).__name__}: it has to be a tensor, or a list or tuple of them")
        if not -len(result) <= self.index < len(result):
            refuse(f"output_loss_index is {self.index}, and the module gives {len(result)} results")
        self.index %= len(result)
        for i, tensor in enumerate(result):
            if i != self.index and isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                self.refusals.append(
                    f"only the loss (result {self.index}) is differentiated, and result {i} requires grad too: "
                    "call detach() on it"
                )
        self._check(result[self.index])
        return tuple(result)

    def _check(self, loss: Any) -> None:
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
            self.refusals.append(
                f"result {self.index} is to be the loss and has no gradient: nothing that requires grad leads to it"
            )
        elif loss.numel() != 1:
            self.refusals.append(
                f"result {self.index} is to be the loss and has {loss.numel()} elements instead of one "
                f"(its shape is {tuple(loss.shape)})"
            )

    def roots(self, results: list[Any]) -> list[torch.Tensor]:
        return [results[self.index]]


def _refuse_shared_parameters(state: dict[str, torch.Tensor]) -> None:
    first: dict[int, str] = {}
    for name, tensor in state.items():
        known = first.setdefault(id(tensor), name)
        if known != name:
            refuse(f"an exported graph takes each parameter once: {name} is {known} too")


def _refuse_missing_gradients(traced: Traced, leaves: list[Any], names: list[str], joint: bool) -> None:
    if not joint:
        return
    for i, (leaf, gradient) in enumerate(zip(leaves, traced.gradients, strict=True)):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and gradient is None:
            name = names[i] if i < len(names) else f"argument {i - len(names)}"
            refuse(f"there is no gradient for {name}: the loss does not depend on it")


def _is_dynamic(leaf: Any, told: bool | None) -> bool:
    if not isinstance(leaf, torch.Tensor):
        return False
    if told is not None:
        return told
    return is_fake(leaf) and any(isinstance(size, torch.SymInt) for size in leaf.shape)


@contextlib.contextmanager
def _attributes_kept(mod: torch.nn.Module) -> Iterator[None]:
    """Attributes that a module assigns are taken back; a tensor among them is refused, since no graph can show it."""
    kept = {name: (module, dict(vars(module))) for name, module in mod.named_modules()}
    assigned: list[str] = []
    try:
        yield
    finally:
        for path, (module, before) in kept.items():
            for name, value in list(vars(module).items()):
                tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
                if name not in before or value is not before[name]:
                    assigned += [f"{path}.{name}" if path else name] if tensors else []
                    delattr(module, name) if name not in before else vars(module).__setitem__(name, before[name])
    if assigned:
        raise AssignmentError(assigned)


def _signature(
    traced: Traced, names: list[str], parameters: int, in_spec: pytree.TreeSpec, loss: _Loss | None
) -> GraphSignature:
    inputs = [node.name for node in traced.inputs]
    states = dict(zip(inputs, names, strict=False))
    written = {name_of(value): place for place, value in traced.written.items()}
    gradients = {name_of(value): i for i, value in enumerate(traced.gradients) if value is not None}
    backward = None
    if loss:
        backward = BackwardSignature(
            {name: names[i] for name, i in gradients.items() if i < len(names)},
            {name: inputs[i] for name, i in gradients.items() if i >= len(names)},
            name_of(traced.results[loss.index]),
        )
    return GraphSignature(
        parameters=names[:parameters],
        buffers=names[parameters:],
        user_inputs=inputs[len(names) :],
        user_outputs=[name_of(result) for result in traced.results],
        inputs_to_parameters={i: states[i] for i in inputs[:parameters]},
        inputs_to_buffers={i: states[i] for i in inputs[parameters : len(names)]},
        buffers_to_mutate={o: names[i] for o, i in written.items() if parameters <= i < len(names)},
        parameters_to_mutate={o: names[i] for o, i in written.items() if i < parameters},
        user_inputs_to_mutate={o: inputs[i] for o, i in written.items() if i >= len(names)},
        in_spec=in_spec,
        out_spec=traced.out_spec,
        backward_signature=backward,
    )


def _in_pairs(traced: Traced) -> torch.fx.GraphModule:
    """The same graph, called with (arguments, tangents) and giving (results, gradients)."""
    from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

    graph = traced.module.graph
    tangents = sum(node.op == "placeholder" for node in graph.nodes) - len(traced.inputs)
    arguments = ([0] * len(traced.inputs), [0] * tangents)
    in_spec = pytree.tree_structure((arguments, {}))
    out_spec = pytree.tree_structure(([0] * len(traced.results), [0] * len(traced.gradients)))
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(["primals", "tangents"], in_spec, out_spec)))
    traced.module.recompile()
    return traced.module
