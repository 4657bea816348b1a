"""Exported graphs: what they compute, what their signatures say, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import saker


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.relu(self.norm(self.linear(x)))
        return y.square().sum(), y.detach()


def state_of(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def test_inference_graph_and_signature() -> None:
    net, x = Net(), torch.randn(5, 4)
    module, signature = saker.aot_export_module(net, [x], trace_joint=False)
    assert signature.parameters == ["linear.weight", "linear.bias", "norm.weight", "norm.bias"]
    assert signature.buffers == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert list(signature.inputs_to_parameters.values()) == signature.parameters
    assert list(signature.inputs_to_buffers.values()) == signature.buffers
    assert list(signature.buffers_to_mutate.values()) == signature.buffers
    assert signature.user_inputs == ["arg7_1"]
    assert signature.user_inputs_to_mutate == signature.parameters_to_mutate == {}
    assert signature.backward_signature is None
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    assert names == [*signature.inputs_to_parameters, *signature.inputs_to_buffers, *signature.user_inputs]
    before = [tensor.clone() for tensor in state_of(net)]
    got = module(*state_of(net), x)
    torch.testing.assert_close(state_of(net), before)  # the graph writes nothing
    expected = net(x)
    torch.testing.assert_close(list(got), [*net.buffers(), *expected])
    end = next(iter(reversed(module.graph.nodes)))
    assert [value.name for value in end.args[0]] == [*signature.buffers_to_mutate, *signature.user_outputs]


def test_joint_graph_and_signature() -> None:
    net, x = Net(), torch.randn(5, 4, requires_grad=True)
    module, signature = saker.aot_export_module(net, [x], trace_joint=True, output_loss_index=0)
    backward = signature.backward_signature
    assert list(backward.gradients_to_parameters.values()) == signature.parameters
    assert list(backward.gradients_to_user_inputs.values()) == ["arg7_1"]
    assert backward.loss_output == signature.user_outputs[0]
    got = module(*state_of(net), x)
    loss, seen = net(x)
    gradients = torch.autograd.grad(loss, [*net.parameters(), x])
    torch.testing.assert_close(list(got), [*net.buffers(), loss, seen, *gradients])


def test_every_node_has_a_value_without_data() -> None:
    module, _ = saker.aot_export_module(Net(), [torch.randn(5, 4)], trace_joint=True, output_loss_index=0)
    for node in module.graph.nodes:
        assert "val" in node.meta, node
    relu = next(node for node in module.graph.nodes if node.target is torch.ops.aten.relu.default)
    assert relu.meta["val"].shape == (5, 3)
    assert relu.meta["val"].device.type == "cpu"


def test_arguments_may_be_trees_and_constants() -> None:
    class Scaled(nn.Module):
        def forward(self, pair: dict[str, torch.Tensor], scale: int, *, shift: float) -> dict[str, torch.Tensor]:
            return {"sum": (pair["a"] + pair["b"]) * scale + shift}

    pair = {"a": torch.randn(2), "b": torch.randn(2)}
    module, signature = saker.aot_export_module(Scaled(), [pair, 3], trace_joint=False, kwargs={"shift": 0.5})
    assert signature.user_inputs == ["arg0_1", "arg1_1", "arg2_1", "arg3_1"]
    (got,) = module(pair["a"], pair["b"], 3, 0.5)
    torch.testing.assert_close(got, (pair["a"] + pair["b"]) * 3 + 0.5)
    assert torch.utils._pytree.tree_unflatten([got], signature.out_spec)["sum"] is got


def test_written_arguments_are_outputs() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            y[0].add_(4)
            self.seen.add_(x)
            return x + y

    net, x, y = Writes(), torch.randn(3), torch.randn(2, 3)
    module, signature = saker.aot_export_module(net, [x, y], trace_joint=False)
    assert list(signature.buffers_to_mutate.values()) == ["seen"]
    assert list(signature.user_inputs_to_mutate.values()) == ["arg2_1"]
    got = module(net.seen, x, y)
    expected = net(x, y)
    torch.testing.assert_close(list(got), [net.seen, y, expected])


def test_replaced_buffer_is_an_output() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps = self.steps + 1
            return x * self.steps

    net, x = Counts(), torch.randn(3)
    module, signature = saker.aot_export_module(net, [x], trace_joint=False)
    assert net.steps == 0
    assert list(signature.buffers_to_mutate.values()) == ["steps"]
    torch.testing.assert_close(module(net.steps, x), (torch.ones(()), x))


def test_sizes_may_change() -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(0) / x.shape[0]

    module, _ = saker.aot_export_module(Mean(), [torch.randn(5, 4)], trace_joint=False, dynamic_shapes=True)
    x = torch.randn(7, 6)
    torch.testing.assert_close(module(x), (x.mean(0),))
    sizes = next(iter(module.graph.nodes)).meta["val"].shape
    assert all(isinstance(size, torch.SymInt) for size in sizes)


def test_decompositions_replace_operators() -> None:
    table = torch._decomp.core_aten_decompositions()
    net, x = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.GELU()), torch.randn(5, 4)
    module, _ = saker.aot_export_module(net, [x], trace_joint=False, decompositions=table)
    used = {node.target for node in module.graph.nodes if node.op == "call_function"}
    plain, _ = saker.aot_export_module(net, [x], trace_joint=False)
    decomposed = {node.target for node in plain.graph.nodes if node.op == "call_function"} & set(table)
    assert decomposed, "nothing in this module has a decomposition"
    assert not used & decomposed
    assert all("val" in node.meta for node in module.graph.nodes)
    torch.testing.assert_close(module(*state_of(net), x)[0], net(x))


def test_decompositions_with_sizes_that_change() -> None:
    table = torch._decomp.get_decompositions([torch.ops.aten.native_layer_norm])
    net, x = nn.LayerNorm(4), torch.randn(5, 4)
    fake = torch._subclasses.FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())
    symbolic = torch.fx.experimental.symbolic_shapes.StatelessSymbolicContext(
        [
            torch.fx.experimental.symbolic_shapes.DimDynamic.DYNAMIC,
            torch.fx.experimental.symbolic_shapes.DimDynamic.STATIC,
        ]
    )
    args = [fake.from_tensor(x, symbolic_context=symbolic)]
    module, _ = saker.aot_export_module(net, args, trace_joint=False, decompositions=table)
    assert torch.ops.aten.native_layer_norm.default not in {node.target for node in module.graph.nodes}
    for rows in (5, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(module(*state_of(net), x)[0], net(x))


# --- simple joint graphs ---


def product(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * y, y * y.detach()


def test_simple_graph_is_called_as_the_function_is() -> None:
    x, y = torch.randn(2, requires_grad=True), torch.randn(2)
    module = saker.aot_export_joint_simple(product, [x, y], trace_joint=False)
    torch.testing.assert_close(module(x, y), product(x, y))


def test_simple_joint_graph_can_be_cut_by_torch() -> None:
    from functorch.compile import default_partition

    x, y = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)
    joint = saker.aot_export_joint_simple(product, [x, y], trace_joint=True)
    tangents = [torch.randn(2), torch.randn(2)]
    expected = torch.autograd.grad(product(x, y), [x, y], tangents)
    results, gradients = joint([x, y], tangents)
    torch.testing.assert_close(results, list(product(x, y)))
    torch.testing.assert_close(gradients, list(expected))
    forward, backward = default_partition(joint, [x, y], num_fwd_outputs=2)
    made = forward(x, y)
    torch.testing.assert_close(list(backward(*made[2:], *tangents)), list(expected))


def test_simple_joint_graph_gives_none_where_there_is_no_gradient() -> None:
    x, y = torch.randn(2, requires_grad=True), torch.randn(2)
    joint = saker.aot_export_joint_simple(product, [x, y], trace_joint=True)
    _, gradients = joint([x, y], [torch.ones(2)])
    assert gradients[1] is None
    torch.testing.assert_close(gradients[0], y)


# --- refusals ---


class Calls(nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.ones(2))
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(self.p, *args)


def exported(fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return saker.aot_export_module(Calls(fn), args, **{"trace_joint": False, **options})


def transposed(p, x):
    x.t_()
    return (x * 2,)


def written(p, x, *rest):
    x.mul_(2)
    return (x + p, *rest)


def parameter_is_written(p, x):
    p.mul_(2)
    return (p + x,)


def several_need_gradients(p, x):
    return p * x, (p * x).sum()


def loss_is_no_scalar(p, x):
    return (p * x,)


def loss_needs_no_gradient(p, x):
    return ((p.detach() * x).sum(),)


def parameter_is_not_used(p, x):
    return (x.sum(),)


VECTOR = torch.randn(2)
JOINT = {"trace_joint": True, "output_loss_index": 0}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "metadata": (
        lambda: exported(transposed, torch.randn(2, 4)),
        "argument 1 comes to have other sizes, strides or memory",
    ),
    "parameter is written": (
        lambda: exported(parameter_is_written, VECTOR),
        r"argument \d requires grad and is written",
    ),
    "argument that requires grad": (
        lambda: exported(written, torch.randn(2, requires_grad=True)),
        r"argument \d requires grad and is written",
    ),
    "aliases": (
        lambda: exported(written, VECTOR, VECTOR.view(-1)),
        "argument 1 is written, and it shares memory with argument 2",
    ),
    "duplicates": (lambda: exported(written, VECTOR, VECTOR), "argument 1 is written, and it is argument 2 too"),
    "pre_dispatch": (lambda: exported(loss_is_no_scalar, VECTOR, pre_dispatch=True), "pre_dispatch"),
    "joint pre_dispatch": (
        lambda: exported(loss_is_no_scalar, VECTOR, pre_dispatch=True, **JOINT),
        "together with trace_joint",
    ),
    "no loss index": (lambda: exported(loss_is_no_scalar, VECTOR, trace_joint=True), "output_loss_index"),
    "bad loss index": (
        lambda: exported(loss_is_no_scalar, VECTOR, trace_joint=True, output_loss_index=3),
        "gives 1 results",
    ),
    "other results": (
        lambda: exported(several_need_gradients, VECTOR, trace_joint=True, output_loss_index=1),
        "result 0 requires grad too",
    ),
    "loss is no scalar": (lambda: exported(loss_is_no_scalar, VECTOR, **JOINT), "has 2 elements instead of one"),
    "loss needs no gradient": (
        lambda: exported(loss_needs_no_gradient, VECTOR, **JOINT),
        "result 0 is to be the loss and has no gradient",
    ),
    "a parameter has no gradient": (
        lambda: exported(parameter_is_not_used, torch.randn(2, requires_grad=True), **JOINT),
        "no gradient for p: ",
    ),
    "subclass": (
        lambda: exported(loss_is_no_scalar, torch.nested.nested_tensor([VECTOR], layout=torch.jagged)),
        "subclass",
    ),
    "closed-over tensor is written": (lambda: exported(lambda p, x: VECTOR.add_(x), VECTOR.clone()), "no argument"),
    "simple: writes": (
        lambda: saker.aot_export_joint_simple(lambda x: [x.add_(1)], [VECTOR], trace_joint=False),
        "argument 0 is written",
    ),
    "simple: aliases": (
        lambda: saker.aot_export_joint_simple(lambda x: [x.view(-1)], [VECTOR], trace_joint=False),
        "results share memory with arguments",
    ),
    "simple: trees in": (
        lambda: saker.aot_export_joint_simple(lambda x: [x[0]], [[VECTOR]], trace_joint=False),
        "each argument has to be",
    ),
    "simple: trees out": (
        lambda: saker.aot_export_joint_simple(lambda x: [[x + 1]], [VECTOR], trace_joint=False),
        "each result has to be",
    ),
    "simple: no list": (
        lambda: saker.aot_export_joint_simple(lambda x: x + 1, [VECTOR], trace_joint=False),
        "has to give one list or tuple",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    before, version = VECTOR.clone(), VECTOR._version
    with pytest.raises(saker.CaptureError, match=message):
        call()
    assert torch.equal(VECTOR, before)
    assert VECTOR._version == version
    assert torch.is_grad_enabled()


def test_duplicate_parameters_are_refused() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    with pytest.raises(saker.CaptureError, match=r"1\.weight is 0\.weight too"):
        saker.aot_export_module(net, [torch.randn(2)], trace_joint=False)


def test_assigned_tensors_are_refused_and_taken_back() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = torch.zeros(2)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = x * 2
            self.other = [x + 1]
            return x + 1

    net = nn.Sequential(Keeps())
    last = net[0].last
    with pytest.raises(ValueError, match=r"kept a tensor of the capture in self\.0\.last, self\.0\.other") as raised:
        saker.aot_export_module(net, [torch.randn(2)], trace_joint=False)
    assert isinstance(raised.value, saker.CaptureError)
    assert net[0].last is last
    assert net[0].calls == 0
    assert not hasattr(net[0], "other")
