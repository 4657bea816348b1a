"""Nodes with bodies in ``torch.fx`` graphs: calls of PyTorch's operators on graph modules that are attributes.

Bodies are closed: they have placeholders for the operands of their node, then for values from outside that they read,
in the order in which they read them, then for sizes that no operand has. Equal bodies are one attribute.
"""

from __future__ import annotations

import dataclasses
import itertools
import keyword
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from saker._control_flow import BODY_MARK
from saker._describe import Described, operands
from saker._fx import Builder, Scope, symbol_of
from saker._fx_loops import while_backward

_higher = torch.ops.higher_order
# The first argument of those that the body of a call or of a branch is given.
_GIVEN = {"saker::call": 0, "saker::if": 1}
# Which argument of a loop its bodies are given in each step.
_CLOSED = {"saker::while": 1, "saker::while_backward": 1, "saker::scan": 3}


def add_call(builder: Builder, described: Described) -> None:
    """Adds a node with bodies to the graph that is being built."""
    rule = _RULES.get(described["op"])
    if rule is None:
        raise NotImplementedError(f"{described['op']} has bodies, and torch.fx has no operator like it")
    rule(_Call(builder, described))


class _Call:
    """A node with bodies on its way into a graph."""

    def __init__(self, builder: Builder, described: Described) -> None:
        self.builder = builder
        self.described = described
        self.args = [builder.argument(arg) for arg in _args(described)]
        # What all bodies are given at the end of their operands, the same in each step; what is lifted comes behind.
        first = _GIVEN.get(described["op"])
        self.last = list(self.args[_CLOSED[described["op"]]] if first is None else self.args[first:])
        closed = len(self.last)
        self.places: dict[int, int] = {}  # of values from outside that bodies read, among those
        self.lifted_types: list[Described] = []
        for number in _free_values(described["bodies"]):
            self.places[number] = self._lift(number)
        self.symbols = self._symbols_from_outside()
        self.lifted = [*self.last[closed:], *map(builder.symbol, self.symbols)]

    def _lift(self, number: int) -> int:
        node = self.builder.values[number]
        for place, known in enumerate(self.last):
            if known is node:
                return place
        self.last.append(node)
        self.lifted_types.append(self.builder.scope.types[number])
        return len(self.last) - 1

    def _symbols_from_outside(self) -> list[str]:
        found: dict[str, None] = {}
        for body in self.described["bodies"]:
            parameters = [*body["parameters"], *self.lifted_types]
            bound = {symbol_of(size) for parameter in parameters for size in _sizes(parameter)}
            found.update(dict.fromkeys(name for name in _symbols(body) if name not in bound))
        return [name for name in found if self.builder.knows_symbol(name)]

    def body(
        self,
        number: int,
        prefix: str,
        *,
        gives_one: bool = False,
        results: int | None = None,
        counter: tuple[int, Described] | None = None,
    ) -> torch.fx.Node:
        body = self.described["bodies"][number]
        body = {**body, "returns": body["returns"][:results]}
        module = _BodyBuilder(self, body, counter).build_body(gives_one)
        return self.builder.graph.get_attr(_install(self.builder, module, prefix))

    def add(self, target: Callable, name: str, *args: Any) -> torch.fx.Node:
        graph = self.builder.graph
        node = graph.create_node("call_function", target, args, name=graph._target_to_str(name))
        self.builder.add_location(node, self.described)
        return node

    def take(self, node: torch.fx.Node, flipped: int | None = None) -> None:
        """Items of what the node gives are the results; those from ``flipped`` on come from the end."""
        results = self.described["results"]
        whole = []
        for i, result in enumerate(results):
            item = self.builder.graph.call_function(operator.getitem, (node, i))
            self.builder.take(item, result)
            whole.append(item.meta.get("val"))
            if flipped is not None and i >= flipped:
                self.builder.take(self.flip(item), result)
        node.meta["val"] = tuple(whole)

    def flip(self, value: torch.fx.Node) -> torch.fx.Node:
        made = self.builder.graph.call_function(torch.ops.aten.flip.default, (value, [0]))
        if value.meta.get("val") is not None:
            made.meta["val"] = self.builder.examples.compute(torch.ops.aten.flip.default, value.meta["val"], [0])
        return made


def _region(call: _Call) -> None:
    body = call.body(0, "subgraph")
    call.take(call.add(_higher.invoke_subgraph, "invoke_subgraph", body, body.target, *call.args, *call.lifted))


def _if(call: _Call) -> None:
    condition, *given = call.args
    bodies = call.body(0, "true_graph"), call.body(1, "false_graph")
    call.take(call.add(_higher.cond, "cond", condition, *bodies, (*given, *call.lifted)))


def _while(call: _Call) -> None:
    carried, closed = call.args
    results = call.described["results"]
    if _is_stacked(call):
        _while_stacked(call)
        return
    histories = [each for each in results[len(carried) :] if each["id"] in _read(call.builder.program)]
    # What a loop keeps for its backward is in no module: that runs the loop again. Others read how many steps there
    # were, which is carried besides.
    counter = (len(carried), histories[0]) if histories else None
    bodies = (
        call.body(0, "while_loop_cond_graph", gives_one=True, counter=counter),
        # Without what a history keeps.
        call.body(1, "while_loop_body_graph", results=len(carried), counter=counter),
    )
    start = [_zero_steps(call.builder, each) for each in histories]
    node = call.add(_higher.while_loop, "while_loop", *bodies, (*carried, *start), (*closed, *call.lifted))
    call.described = {**call.described, "results": [*results[: len(carried)], *histories]}
    call.take(node)


def _is_stacked(call: _Call) -> bool:
    """Is what each step has given asked for?"""
    results = call.described["results"]
    history = ("value", results[-1]["id"]) if len(results) > len(call.args[0]) else None
    nodes = call.builder.program["nodes"]
    return any(node["op"] == "saker::loop_rows" and node["args"][0] == history for node in nodes)


def _while_stacked(call: _Call) -> None:
    carried, closed = call.args
    bodies = (
        call.body(0, "while_loop_cond_graph", gives_one=True),
        call.body(1, "while_loop_body_graph", results=len(carried)),
    )
    node = call.add(
        _higher.while_loop_stack_output,
        "while_loop_stack_output",
        *bodies,
        tuple(carried),
        (*closed, *call.lifted),
    )
    *results, history = call.described["results"]
    call.builder.values[history["id"]] = node
    for i, result in enumerate(results):
        item = call.builder.graph.call_function(operator.getitem, (node, i))
        last = call.builder.graph.call_function(torch.ops.aten.select.int, (item, 0, -1))
        call.builder.take(last, result)


def add_rows(builder: Builder, described: Described) -> None:
    """The results of a loop that gives what each of its steps has given."""
    loop = builder.argument(described["args"][0])
    if loop.target is not _higher.while_loop_stack_output:
        raise NotImplementedError("what the steps of a loop gave is asked for outside of the graph with the loop")
    for i, result in enumerate(described["results"]):
        builder.take(builder.graph.call_function(operator.getitem, (loop, i)), result)


def _zero_steps(builder: Builder, described: Described) -> torch.fx.Node:
    given = {"dtype": described["dtype"], "device": described["device"]}
    made = builder.graph.call_function(torch.ops.aten.zeros.default, ([1],), given)
    made.meta["val"] = builder.examples.compute(torch.ops.aten.zeros.default, [1], **given)
    return made


def _while_backward(call: _Call) -> None:
    carried, closed, flowing = call.args
    bodies = (
        call.body(0, "while_loop_cond_graph", gives_one=True),
        call.body(1, "while_loop_body_graph"),
        call.body(2, "while_loop_backward_graph"),
    )
    given = (tuple(carried), tuple(flowing), (*closed, *call.lifted))
    call.take(call.add(while_backward, "while_backward", *bodies, *given))


def _scan(call: _Call) -> None:
    reverse, carried, sliced, closed = call.args
    if not carried:  # then the order does not matter
        body = call.body(0, "body_graph")
        call.take(call.add(_higher.map_impl, "map_impl", body, sliced, [*closed, *call.lifted]))
        return
    body = call.body(0, "scan_combine_graph")
    rows = [call.flip(value) for value in sliced] if reverse else sliced
    node = call.add(_higher.scan, "scan", body, carried, rows, [*closed, *call.lifted])
    call.take(node, len(carried) if reverse else None)


_RULES: dict[str, Callable[[_Call], None]] = {
    "saker::call": _region,
    "saker::if": _if,
    "saker::while": _while,
    "saker::while_backward": _while_backward,
    "saker::scan": _scan,
}


class _BodyBuilder(Builder):
    """Adds a body to a graph of its own."""

    def __init__(self, call: _Call, body: Described, counter: tuple[int, Described] | None = None) -> None:
        """``counter``: its place among what is carried, and what it is like."""
        self.call, outer, self.counter = call, call.builder, counter
        around = {key: outer.program[key] for key in ("objects", "differentiable", "functional")}
        self.scope = Scope({**body, **around}, {}, {}, {}, {})
        self.examples = outer.examples
        self.form = outer.form and dataclasses.replace(outer.form, returns_writes=False)
        self.shared = outer.shared
        self.steps: torch.fx.Node | None = None
        self.start()
        self.expanding = list(outer.expanding)

    def build_body(self, gives_one: bool) -> torch.fx.GraphModule:
        parameters = [*self.program["parameters"], *self.call.lifted_types]
        for number, described in enumerate(parameters):
            self._add_counter(number)
            node = self.graph.placeholder(_name_of(described["name"], number, self.parameters))
            self.take(node, described)
            self.parameters.append(node)
        self._add_counter(len(parameters))
        first = len(self.parameters) - len(self.call.last)
        for number, place in self.call.places.items():
            self.values[number] = self.parameters[first + place]
            self.scope.types[number] = self.call.builder.scope.types[number]
        for name in self.call.symbols:
            node = self.graph.placeholder(name)
            self.set_symbol(name, node)
            node.meta["type"] = f"int({name})"
        self.bind_symbols(parameters)
        for node in self.program["nodes"]:
            self.add_node(node)
        results = self._apart([self.argument(arg) for arg in self.program["returns"]])
        self.switch_grad(True)
        if self.steps is not None and not gives_one:
            results.append(self.graph.call_function(torch.ops.aten.add.Tensor, (self.steps, 1)))
            results[-1].meta["val"] = self.steps.meta.get("val")
        values = tuple(r.meta.get("val") if isinstance(r, torch.fx.Node) else r for r in results)
        end = self.graph.output(results[0] if gives_one else tuple(results))
        end.meta["val"] = values[0] if gives_one else values
        self.drop_unread()
        self.graph.lint()
        module = torch.fx.GraphModule(self.root, self.graph, class_name="Body")
        module.meta[BODY_MARK] = True
        return module

    def _add_counter(self, number: int) -> None:
        if self.counter is None or number != self.counter[0]:
            return
        self.steps = self.graph.placeholder("steps_taken")
        self.take(self.steps, self.counter[1])

    def grad_mode(self, described: Described) -> bool:
        return True if not self.program["differentiable"] else super().grad_mode(described)

    def _apart(self, results: list[Any]) -> list[Any]:
        """Results that are memory of their own: a copy of what is an operand, a view of one, or given already."""
        roots = {_root(node) for node in self.parameters}
        for i, result in enumerate(results):
            if not isinstance(result, torch.fx.Node) or not isinstance(result.meta.get("val"), torch.Tensor):
                continue
            if _root(result) in roots:
                results[i] = self.graph.call_function(torch.ops.aten.clone.default, (result,))
                results[i].meta.update(result.meta)
            roots.add(_root(results[i]))
        return results


def _name_of(name: str, number: int, before: list[torch.fx.Node]) -> str:
    """A placeholder is called as the parameter of the program's function, if that is known."""
    name, taken = re.sub(r"\W", "_", name), {node.target for node in before}
    if name == "self":
        name = "self_"
    if name.isidentifier() and not keyword.iskeyword(name) and name not in taken:
        return name
    return next(name for copy in itertools.count(1) if (name := f"arg{number}_{copy}") not in taken)


def _root(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose memory this one's tensor is in."""
    while node.op == "call_function":
        if node.target is operator.getitem:
            owner = node.args[0]
            schema = getattr(owner.target, "_schema", None)
            if schema is None or not any(returned.alias_info for returned in schema.returns):
                return node
            node = owner
            continue
        schema = getattr(node.target, "_schema", None)
        aliases = [r.alias_info.before_set for r in schema.returns if r.alias_info] if schema else []
        shared = [
            node.args[i]
            for i, formal in enumerate(schema.arguments if aliases else ())
            if formal.alias_info and formal.alias_info.before_set in aliases and i < len(node.args)
        ]
        if not shared or not isinstance(shared[0], torch.fx.Node):
            return node
        node = shared[0]
    return node


# --- what bodies read ---


def _free_values(bodies: list[Described]) -> list[int]:
    """Values that are read in bodies and made outside of them, in the order in which they are read."""
    found: dict[int, None] = {}
    for body in bodies:
        made = {value["id"] for value in _made(body)}
        found.update(dict.fromkeys(number for number in _read(body) if number not in made))
    return list(found)


def _made(body: Described) -> Iterator[Described]:
    yield from body["parameters"]
    for node in body["nodes"]:
        yield from node["results"]
        for inner in node["bodies"]:
            yield from _made(inner)


def _args(node: Described) -> list[Any]:
    """The arguments that are in the graph: histories are not."""
    return node["args"][:3] if node["op"] == "saker::while_backward" else node["args"]


def _read(body: Described) -> Iterator[int]:
    for node in body["nodes"]:
        yield from operands(_args(node))
        for inner in node["bodies"]:
            yield from _read(inner)
    yield from operands(body["returns"])


def _sizes(described: Described) -> list[Any]:
    return [*described.get("sizes", ()), *([described["number"]] if "number" in described else [])]


def _symbols(body: Described) -> Iterator[str]:
    """Names of the symbols in the arguments of operators."""
    for node in body["nodes"]:
        yield from _symbols_of(node["args"])
        for inner in node["bodies"]:
            yield from _symbols(inner)
    yield from _symbols_of(body["returns"])


def _symbols_of(args: Any) -> Iterator[str]:
    for arg in args:
        if isinstance(arg, list):
            yield from _symbols_of(arg)
        elif isinstance(arg, tuple) and arg[0] == "expression":
            yield from _leaves(arg[1])


def _leaves(tree: Any) -> Iterator[str]:
    if not isinstance(tree, tuple):
        return
    if tree[0] == "symbol":
        yield tree[1]
        return
    for operand in tree[1:]:
        yield from _leaves(operand)


# --- bodies as attributes ---


def _install(builder: Builder, module: torch.fx.GraphModule, prefix: str) -> str:
    """The name of the attribute that the body is: that of an equal one, or a new one."""
    key = _key(module)
    module = builder.shared.setdefault(key, module)
    name = next((name for name, known in builder.root.named_children() if known is module), None)
    if name is None:
        number = next(n for n in range(len(builder.shared) + 1) if not hasattr(builder.root, f"{prefix}_{n}"))
        name = f"{prefix}_{number}"
        setattr(builder.root, name, module)
    return name


def _key(module: torch.fx.GraphModule) -> tuple:
    """Equal for bodies that do the same on operands of the same kinds."""
    numbers = {node: i for i, node in enumerate(module.graph.nodes)}

    def part(arg: Any) -> Any:
        if isinstance(arg, torch.fx.Node):
            return ("node", numbers[arg])
        if isinstance(arg, (list, tuple)):
            return (type(arg), *map(part, arg))
        if isinstance(arg, slice):
            return ("slice", part(arg.start), part(arg.stop), part(arg.step))
        return (type(arg), repr(arg))

    def target(node: torch.fx.Node) -> Any:
        if node.op == "get_attr":
            return id(getattr(module, node.target))
        return None if node.op == "placeholder" else node.target

    return tuple(
        (
            node.op,
            target(node),
            part(node.args),
            *((name, part(arg)) for name, arg in node.kwargs.items()),
            _kind(node) if node.op == "placeholder" else None,
        )
        for node in module.graph.nodes
    )


def _kind(node: torch.fx.Node) -> Any:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):  # where it begins in its memory does not matter
        return (value.dtype, value.device, str(value.shape), str(value.stride()))
    return node.meta.get("type")
