"""A captured program as a ``torch.fx.GraphModule``."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.fx

from saker import _C
from saker._fx_examples import Examples
from saker._fx_numbers import ON_INTEGERS, compute

Table = dict[torch._ops.OpOverload, Callable]


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


@dataclasses.dataclass(frozen=True)
class Form:
    """How a program is to look as a graph for a back end."""

    names: list[str]  # of the placeholders
    places: list[int] | None = None  # for each argument of the program its placeholder; they are the same if not given
    # Values that the program made and that are inputs: placeholders after the others, by the number of the value.
    inputs: dict[int, str] = dataclasses.field(default_factory=dict)
    decompositions: Table = dataclasses.field(default_factory=dict)
    # Writes to inputs are left out: their new contents are put in front of the results.
    returns_writes: bool = False


class _Size(NamedTuple):
    """Where a symbol is found: in a size of what a node gives."""

    node: torch.fx.Node
    dim: int


class Scope(NamedTuple):
    """What the program that is being added calls its values and symbols."""

    program: dict[str, Any]
    values: dict[int, Any]
    types: dict[int, dict[str, Any]]
    symbols: dict[str, Any]
    expressions: dict[str, Any]


class Builder:
    """Adds a program to a new graph, node by node."""

    def __init__(self, program: _C.Program, examples: Examples | None = None, form: Form | None = None) -> None:
        described = _C.describe_program(program)
        self.scope = Scope(described, {}, {}, {}, {})
        self.sources = program.sources
        self.examples = examples or Examples(described)
        self.form = form
        self.shared: dict[tuple, torch.fx.GraphModule] = {}  # bodies, by what they do
        self.start()

    def start(self) -> None:
        self.root = torch.nn.Module()
        self.graph = torch.fx.Graph()
        self.parameters: list[torch.fx.Node] = []
        self.written: dict[torch.fx.Node, torch.fx.Node] = {}  # inputs, and what they hold afterwards
        self.entered: torch.fx.Node | None = None  # whether autograd was on
        self.grad = True
        self.expanding: list[Any] = []  # operators whose decompositions are being added

    @property
    def program(self) -> dict[str, Any]:
        return self.scope.program

    @property
    def values(self) -> dict[int, Any]:
        return self.scope.values

    def add_program(self) -> list[Any]:
        """Everything but the output; gives what the program returns."""
        self._add_parameters()
        for node in self.program["nodes"]:
            self.add_node(node)
        return [self.argument(arg) for arg in self.program["returns"]]

    def build(self) -> torch.fx.GraphModule:
        returned = self.add_program()
        results, gradients = returned[: self.program["results"]], returned[self.program["results"] :]
        for parameter, gradient in zip(self.program["gradients"], gradients, strict=True):
            self.graph.call_function(set_grad, (self.parameters[parameter], gradient))
        self.switch_grad(True)
        return self.finish(results)

    def finish(self, results: list[Any]) -> torch.fx.GraphModule:
        if self.form is None:
            self.graph.output(results)
        else:
            end = self.graph.output(tuple(results))
            end.meta["val"] = tuple(r.meta.get("val") if isinstance(r, torch.fx.Node) else r for r in results)
            self.drop_unread()
        self.graph.lint()
        return torch.fx.GraphModule(self.root, self.graph, class_name="Captured")

    def drop_unread(self) -> None:
        """Sizes and items of results that nothing has read."""
        self.graph.eliminate_dead_code(lambda node: node.op != "call_function" or not _is_free(node))

    # --- inputs ---

    def _add_parameters(self) -> None:
        count = self.program["arguments"]
        names = self.form.names if self.form else [f"argument{i}" for i in range(count)]
        arguments = [self.graph.placeholder(name) for name in names]
        if self.form:
            if self.form.places is not None:
                arguments = [arguments[place] for place in self.form.places]
            for number, name in self.form.inputs.items():
                self.values[number] = self.graph.placeholder(name)
        for number, (described, source) in enumerate(zip(self.program["parameters"], self.sources, strict=True)):
            kind, argument, tensor, _ = source
            if kind == "closed":
                node = self._attribute(number, tensor)
            elif kind == "gradient":
                owner = arguments[argument] if tensor is None else self._attribute(number, tensor)
                node = self.graph.call_function(getattr, (owner, "grad"))
            elif kind == "flat":
                node = self.graph.call_function(flat, (arguments[argument],))
            else:
                node = arguments[argument]
            self._describe(node, described)
            self.values[described["id"]] = node
            self.parameters.append(node)
        self.bind_symbols(self.program["parameters"])

    def bind_symbols(self, parameters: list[dict[str, Any]]) -> None:
        """Symbols are found in the sizes of parameters."""
        for node, described in zip(self.parameters, parameters, strict=True):
            if "number" in described and symbol_of(described["number"]):
                self.scope.symbols.setdefault(symbol_of(described["number"]), node)
            for dim, size in enumerate(described.get("sizes", ())):
                name = symbol_of(size)
                if name and name not in self.scope.symbols:
                    made = self.graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
                    made.meta["val"] = self.number(size)
                    self.scope.symbols[name] = made

    def _attribute(self, number: int, tensor: torch.Tensor) -> torch.fx.Node:
        if isinstance(tensor, torch.nn.Parameter):
            name = f"parameter{number}"
            self.root.register_parameter(name, tensor)
        else:
            name = f"tensor{number}"
            self.root.register_buffer(name, tensor)
        return self.graph.get_attr(name)

    def _describe(self, node: torch.fx.Node, described: dict[str, Any]) -> None:
        """What the result is: a tensor without data, and the type as text."""
        self.scope.types[described["id"]] = described
        node.meta["type"] = described["text"]
        value = None
        if "sizes" in described:
            sizes, strides = ([self.number(n) for n in described[what]] for what in ("sizes", "strides"))
            value = self.examples.tensor(sizes, strides, described["dtype"], described["device"])
        elif "number" in described:
            value = self.number(described["number"])
        if value is not None:
            node.meta["val"] = value

    def number(self, described: Any) -> Any:
        """An int, or an expression as a symbolic int. None where it cannot be told."""
        if not isinstance(described, tuple):
            return described
        try:
            return compute(described[1], self._example_of, lambda function, operands: function(*operands))
        except KeyError:
            return None

    def _example_of(self, symbol: str) -> Any:
        node = self.scope.symbols.get(symbol)
        if isinstance(node, torch.fx.Node) and "val" in node.meta:
            return node.meta["val"]
        return node if isinstance(node, int) else self.examples.symbol(symbol)

    # --- nodes ---

    def add_node(self, described: dict[str, Any]) -> None:
        if all(result["id"] in self.values for result in described["results"]) and described["results"]:
            self._describe_input(described["results"])  # an input instead
            return
        self.switch_grad(self.grad_mode(described))
        if described["bodies"]:
            from saker._fx_bodies import add_call

            add_call(self, described)
            return
        if described["op"] == "saker::loop_rows":
            from saker._fx_bodies import add_rows

            add_rows(self, described)
            return
        op = _overload(described["op"])
        args, kwargs = self._call(op, described["args"])
        if self._is_final_write(op, args):
            self.written[args[0]] = args[1]
            self.values[described["results"][0]["id"]] = args[1]
            self.scope.types[described["results"][0]["id"]] = described["results"][0]
            return
        if self.form and self.form.decompositions and self._decompose(op, described):
            return
        self._add_call(op, args, kwargs, described)

    def _describe_input(self, results: list[dict[str, Any]]) -> None:
        for result in results:
            self._describe(self.values[result["id"]], result)

    def _add_call(self, op: Any, args: tuple, kwargs: dict[str, Any], described: dict[str, Any]) -> None:
        node = self.graph.create_node("call_function", op, args, kwargs, name=self._name(op))
        self.add_location(node, described)
        self._take_results(op, node, described["results"])

    @staticmethod
    def add_location(node: torch.fx.Node, described: dict[str, Any]) -> None:
        if described["location"]:
            file, line, function = described["location"]
            node.meta["stack_trace"] = f'  File "{file}", line {line}, in {function}'

    def _name(self, op: torch._ops.OpOverload) -> str:
        return self.graph._target_to_str(op._schema.name.rpartition("::")[2])

    def _is_final_write(self, op: Any, args: tuple) -> bool:
        if not (self.form and self.form.returns_writes) or op is not torch.ops.aten.copy_.default or self.expanding:
            return False
        return args[0] in self.parameters

    def _call(self, op: torch._ops.OpOverload, given: list[Any]) -> tuple[tuple, dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        needed = 0  # what is the default at the end is left out
        for formal, arg in zip(op._schema.arguments, given, strict=False):
            value = self.argument(arg)
            told = not formal.has_default_value() or not _same_constant(value, formal.default_value)
            if not formal.kwarg_only:
                args.append(value)
                needed = len(args) if told else needed
            elif told:
                kwargs[formal.name] = value
        return tuple(args[:needed]), kwargs

    def _take_results(self, op: torch._ops.OpOverload, node: torch.fx.Node, results: list[dict[str, Any]]) -> None:
        returns = op._schema.returns
        queue = list(results)
        whole: list[Any] = []
        for i, returned in enumerate(returns):
            part = node if len(returns) == 1 else self.graph.call_function(operator.getitem, (node, i))
            if "[]" not in str(returned.type) and "List" not in str(returned.type):
                self.take(part, queue.pop(0))
                whole.append(part.meta.get("val"))
                continue
            items = []
            for k in range(len(queue) - (len(returns) - 1 - i)):
                item = self.graph.call_function(operator.getitem, (part, k))
                self.take(item, queue.pop(0))
                items.append(item.meta.get("val"))
            part.meta["val"] = items
            whole.append(items)
        if len(returns) > 1:
            node.meta["val"] = tuple(whole)

    def take(self, node: torch.fx.Node, described: dict[str, Any]) -> None:
        self.values[described["id"]] = node
        self._describe(node, described)
        if "number" in described and symbol_of(described["number"]):
            self.scope.symbols.setdefault(symbol_of(described["number"]), node)
        for dim, size in enumerate(described.get("sizes", ())):
            if symbol_of(size):
                self.scope.symbols.setdefault(symbol_of(size), _Size(node, dim))

    # --- decompositions ---

    def _decompose(self, op: Any, described: dict[str, Any]) -> bool:
        """Adds what the table says in place of the operator, if it says something; False if not."""
        from saker._decompose import decompose

        table = self.form.decompositions
        known = next((key for key in (op, op.overloadpacket) if key in table), None)
        if known is None or op in self.expanding:
            return False
        inner = decompose(table[known], op, described, self)
        if inner is None:
            return False
        outer, returned = self.scope, inner.returned
        self.scope = Scope(_C.describe_program(inner.program), {}, {}, inner.symbols, {})
        self.expanding.append(op)
        try:
            for parameter, node in zip(self.program["parameters"], inner.arguments, strict=True):
                self.values[parameter["id"]] = node
                self.scope.types[parameter["id"]] = parameter
            for node in self.program["nodes"]:
                self.add_node(node)
            results = [None if i is None else self.argument(self.program["returns"][i]) for i in returned]
        finally:
            self.expanding.pop()
            self.scope = outer
        for result, node in zip(described["results"], results, strict=True):
            self.values[result["id"]] = node
            self.scope.types[result["id"]] = result
        return True

    # --- arguments ---

    def argument(self, arg: Any) -> Any:
        if isinstance(arg, list):
            return [self.argument(item) for item in arg]
        if not isinstance(arg, tuple):
            return arg
        kind, what, *rest = arg
        if kind == "value":
            return self.values[what]
        if kind == "expression":
            return self._expression(what, rest[0])
        return self._object(rest[0])

    def _expression(self, tree: Any, text: str) -> Any:
        if text not in self.scope.expressions:
            self.scope.expressions[text] = compute(tree, self.symbol, self._call_on_numbers)
        return self.scope.expressions[text]

    def symbol(self, name: str) -> Any:
        if name not in self.scope.symbols:
            raise NotImplementedError(f"{name} is a number that is read from data, which torch.fx cannot show")
        found = self.scope.symbols[name]
        if isinstance(found, _Size):
            found = self.graph.call_function(torch.ops.aten.sym_size.int, tuple(found))
            self.set_symbol(name, found)
        return found

    def set_symbol(self, name: str, node: torch.fx.Node) -> None:
        value = self.number(("expression", ("symbol", name), name))
        if value is not None:
            node.meta["val"] = value
        self.scope.symbols[name] = node

    def knows_symbol(self, name: str) -> bool:
        return name in self.scope.symbols

    def _call_on_numbers(self, function: Callable, operands: tuple) -> torch.fx.Node:
        node = self.graph.call_function(function, operands)
        examples = [o.meta.get("val") if isinstance(o, torch.fx.Node) else o for o in operands]
        if function in ON_INTEGERS and all(isinstance(e, (int, torch.SymInt)) for e in examples):
            node.meta["val"] = function(*examples)
        return node

    def _object(self, number: int) -> torch.fx.Node:
        name = f"object{number}" + "_inner" * len(self.expanding)
        setattr(self.root, name, self.program["objects"][number])
        return self.graph.get_attr(name)

    # --- autograd around the graph ---

    def grad_mode(self, described: dict[str, Any]) -> bool:
        """Whether autograd follows this operator, if it is on around the graph."""
        if self.form:
            return True  # whoever runs the graph sees to it
        if not self.program["differentiable"]:
            return False
        if self.program["functional"]:
            return described["op"] != "aten::copy_"
        return described["grad"]

    def switch_grad(self, on: bool) -> None:
        if on == self.grad:
            return
        self.grad = on
        if self.entered is None:
            self.entered = self.graph.call_function(torch.is_grad_enabled)
        self.graph.call_function(torch._C._set_grad_enabled, (self.entered if on else False,))


def symbol_of(number: Any) -> str | None:
    """The name, where a number is a plain symbol."""
    if isinstance(number, tuple) and isinstance(number[1], tuple) and number[1][0] == "symbol":
        return number[1][1]
    return None


def _same_constant(value: Any, default: Any) -> bool:
    if isinstance(value, list):
        return isinstance(default, list) and len(value) == len(default) and all(map(_same_constant, value, default))
    return type(value) is type(default) and not isinstance(value, torch.fx.Node) and value == default


def _is_free(node: torch.fx.Node) -> bool:
    """Made for whoever may need it: not an operator of the program."""
    return node.target in (torch.ops.aten.sym_size.int, operator.getitem) or node.target in ON_INTEGERS


def _overload(name: str) -> torch._ops.OpOverload:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def hooks_in_front(module: torch.fx.GraphModule) -> list[tuple[Any, int]]:
    """Takes what sets hooks on arguments out of the graph, unless something is written before: calls, and which one.

    A back end may run the graph on tensors of its own, which are not those that the hooks are for.
    """
    placeholders = {node: i for i, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    found = []
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        schema = getattr(node.target, "_schema", None)
        if node.target is torch.ops.saker.hook.default and not node.users:
            call, tensors = node.args
            if len(tensors) == 1 and tensors[0] in placeholders:
                found.append((getattr(module, call.target), placeholders[tensors[0]]))
                module.graph.erase_node(node)
        elif schema is None or schema.is_mutable:
            break
    if found:
        module.recompile()
    return found


def to_fx(program: _C.Program) -> torch.fx.GraphModule:
    """The program as a module. Its arguments are the tensors of the program's arguments, its result a list."""
    return Builder(program).build()
