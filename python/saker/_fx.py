"""A captured program as a ``torch.fx.GraphModule``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from saker import _C


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory behind a tensor, as a row of elements."""
    with torch.no_grad():
        storage = tensor.untyped_storage()
        return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)


def set_grad(leaf: torch.Tensor, gradient: torch.Tensor) -> None:
    """What a backward pass does to a leaf at its end."""
    leaf.grad = gradient


for _helper in (set_grad, torch._C._set_grad_enabled, torch.ops.saker.host.default):
    torch.fx.node.has_side_effect(_helper)


# Operations of expressions that take two operands; those with more are folded.
_BINARY: dict[str, Callable] = {
    "mul": operator.mul,
    "add": operator.add,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": torch.sym_min,
    "max": torch.sym_max,
    "eq": operator.eq,
    "ne": operator.ne,
    "le": operator.le,
    "lt": operator.lt,
    "and": operator.and_,
    "or": operator.or_,
    "float Add": operator.add,
    "float Sub": operator.sub,
    "float Mul": operator.mul,
    "float Div": operator.truediv,
    "float IntDiv": operator.truediv,
    "float FloorDiv": operator.floordiv,
    "float Mod": operator.mod,
    "float Pow": operator.pow,
    "float Min": torch.sym_min,
    "float Max": torch.sym_max,
}
_UNARY: dict[str, Callable] = {
    "not": operator.not_,
    "float FromInt": float,
    "float Neg": operator.neg,
    "float Abs": operator.abs,
    "float Floor": math.floor,
    "float Ceil": math.ceil,
    "float Trunc": math.trunc,
    "float Round": round,
    **{
        f"float {name.capitalize()}": getattr(math, name)
        for name in ["sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"]
    },
}


class _Builder:
    def __init__(self, program: _C.Program) -> None:
        self.program = _C.describe_program(program)
        self.sources = program.sources
        self.root = torch.nn.Module()
        self.graph = torch.fx.Graph()
        self.values: dict[int, torch.fx.Node] = {}  # by number
        self.parameters: list[torch.fx.Node] = []
        self.symbols: dict[str, torch.fx.Node] = {}
        self.expressions: dict[str, Any] = {}  # by text
        self.entered: torch.fx.Node | None = None  # whether autograd was on
        self.grad = True

    def build(self) -> torch.fx.GraphModule:
        self._add_parameters()
        for node in self.program["nodes"]:
            self._add_node(node)
        returned = [self._argument(arg) for arg in self.program["returns"]]
        results, gradients = returned[: self.program["results"]], returned[self.program["results"] :]
        for parameter, gradient in zip(self.program["gradients"], gradients, strict=True):
            self.graph.call_function(set_grad, (self.parameters[parameter], gradient))
        self._switch_grad(True)
        self.graph.output(results)
        self.graph.lint()
        return torch.fx.GraphModule(self.root, self.graph, class_name="Captured")

    def _add_parameters(self) -> None:
        arguments = [self.graph.placeholder(f"argument{i}") for i in range(self.program["arguments"])]
        for number, (described, source) in enumerate(zip(self.program["parameters"], self.sources, strict=True)):
            kind, argument, tensor, _ = source
            if kind == "closed":
                node = self._attribute(number, tensor)
            elif kind == "flat":
                node = self.graph.call_function(flat, (arguments[argument],))
            else:
                node = arguments[argument]
            self._describe(node, described)
            self.values[described["id"]] = node
            self.parameters.append(node)
        for node, described in zip(self.parameters, self.program["parameters"], strict=True):
            for dim, size in enumerate(described.get("sizes", ())):
                if isinstance(size, str) and size.isidentifier() and size not in self.symbols:
                    self.symbols[size] = self.graph.call_function(torch.ops.aten.sym_size.int, (node, dim))

    def _attribute(self, number: int, tensor: torch.Tensor) -> torch.fx.Node:
        if isinstance(tensor, torch.nn.Parameter):
            name = f"parameter{number}"
            self.root.register_parameter(name, tensor)
        else:
            name = f"tensor{number}"
            self.root.register_buffer(name, tensor)
        return self.graph.get_attr(name)

    def _describe(self, node: torch.fx.Node, described: dict[str, Any]) -> None:
        """What the result is: a tensor without data where all sizes are numbers, and the type as text."""
        node.meta["type"] = described["text"]
        if "sizes" not in described:
            return
        sizes, strides = described["sizes"], described["strides"]
        if all(isinstance(size, int) for size in (*sizes, *strides)):
            node.meta["val"] = torch.empty_strided(sizes, strides, dtype=described["dtype"], device="meta")

    def _add_node(self, described: dict[str, Any]) -> None:
        if described["regions"]:
            raise NotImplementedError(f"{described['op']} has a body, which torch.fx cannot show")
        self._switch_grad(self._grad_mode(described))
        op = _overload(described["op"])
        args, kwargs = self._call(op, described["args"])
        node = self.graph.call_function(op, args, kwargs)
        if described["location"]:
            file, line, function = described["location"]
            node.meta["stack_trace"] = f'  File "{file}", line {line}, in {function}'
        self._take_results(op, node, described["results"])

    def _call(self, op: torch._ops.OpOverload, given: list[Any]) -> tuple[tuple, dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for formal, arg in zip(op._schema.arguments, given, strict=False):
            if formal.kwarg_only:
                kwargs[formal.name] = self._argument(arg)
            else:
                args.append(self._argument(arg))
        return tuple(args), kwargs

    def _take_results(self, op: torch._ops.OpOverload, node: torch.fx.Node, results: list[dict[str, Any]]) -> None:
        returns = op._schema.returns
        queue = list(results)
        for i, returned in enumerate(returns):
            part = node if len(returns) == 1 else self.graph.call_function(operator.getitem, (node, i))
            if "[]" not in str(returned.type) and "List" not in str(returned.type):
                self._take(part, queue.pop(0))
                continue
            for k in range(len(queue) - (len(returns) - 1 - i)):
                self._take(self.graph.call_function(operator.getitem, (part, k)), queue.pop(0))

    def _take(self, node: torch.fx.Node, described: dict[str, Any]) -> None:
        self.values[described["id"]] = node
        self._describe(node, described)

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, list):
            return [self._argument(item) for item in arg]
        if not isinstance(arg, tuple):
            return arg
        kind, what, *rest = arg
        if kind == "value":
            return self.values[what]
        if kind == "expression":
            return self._expression(what, rest[0])
        return self._object(rest[0])

    def _expression(self, tree: Any, text: str | None = None) -> Any:
        key = text or repr(tree)
        if key not in self.expressions:
            self.expressions[key] = self._compute(tree)
        return self.expressions[key]

    def _compute(self, tree: Any) -> Any:
        if not isinstance(tree, tuple):
            return tree
        name, *operands = tree
        if name == "symbol":
            return self.symbols[operands[0]]
        if name == "int":
            return self.graph.call_function(_UNARY[operands[0]], (self._expression(operands[1]),))
        made = [self._expression(operand) for operand in operands]
        if name == "mul" and made[0] == 1 and len(made) > 1:
            made = made[1:]
        if name == "add" and made[0] == 0 and len(made) > 1:
            made = made[1:]
        if name in _UNARY:
            return self.graph.call_function(_UNARY[name], (made[0],))
        result = made[0]
        for operand in made[1:]:
            result = self.graph.call_function(_BINARY[name], (result, operand))
        return result

    def _object(self, number: int) -> torch.fx.Node:
        name = f"object{number}"
        setattr(self.root, name, self.program["objects"][number])
        return self.graph.get_attr(name)

    def _grad_mode(self, described: dict[str, Any]) -> bool:
        """Whether autograd follows this operator, if it is on around the graph."""
        if not self.program["differentiable"]:
            return False
        if self.program["functional"]:
            return described["op"] != "aten::copy_"
        modes = self.program["grad_modes"]
        return described["id"] >= len(modes) or modes[described["id"]]

    def _switch_grad(self, on: bool) -> None:
        if on == self.grad:
            return
        self.grad = on
        if self.entered is None:
            self.entered = self.graph.call_function(torch.is_grad_enabled)
        self.graph.call_function(torch._C._set_grad_enabled, (self.entered if on else False,))


def _overload(name: str) -> torch._ops.OpOverload:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def to_fx(program: _C.Program) -> torch.fx.GraphModule:
    """The program as a module. Its arguments are the tensors of the program's arguments, its result a list."""
    return _Builder(program).build()
