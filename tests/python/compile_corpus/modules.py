"""nn.Module: hooks, containers, buffers, tying, parametrizations, modules that change between calls."""

import copy
import functools

import torch
from torch import nn

from .world import changed, vec, world


def _seeded(make):
    torch.manual_seed(3)
    return make()


def _params(module):
    return lambda: [*module.parameters(), *module.buffers()]


def linear():
    m = _seeded(lambda: nn.Linear(3, 2))

    def grow():
        m.weight = nn.Parameter(m.weight.detach()[:, :3] * 2)

    def no_bias():
        m.bias = None

    return world(m, vec(4, 3), changes=[grow, no_bias], state=_params(m))


def module_is_closed_over():
    m = _seeded(lambda: nn.Linear(3, 2))
    return world(lambda x: m(x).relu(), vec(4, 3), changes=[lambda: m.requires_grad_(False)], state=_params(m))


def module_as_an_argument():
    m = _seeded(lambda: nn.Linear(3, 2))
    w = world(lambda mod, x: mod(x) * 2, m, vec(4, 3))
    other = copy.deepcopy(m)
    return changed(w, [lambda: setattr(w, "args", (other, vec(4, 3)))])


def sequential():
    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)))
    changes = [
        lambda: m.append(nn.Tanh()),
        lambda: m.__setitem__(1, nn.GELU()),
        lambda: m.__delitem__(0),
        lambda: m.register_module("late", nn.Sigmoid()),
    ]
    return world(m, vec(2, 3), changes=changes, state=_params(m))


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(n)])
        self.acts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        self.scales = nn.ParameterList([torch.full((3,), float(i + 1)) for i in range(2)])
        self.table = nn.ParameterDict({"w": torch.ones(3)})
        self.kind = "a"
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = self.acts[self.kind](layer(x)) * self.scales[i % 2] + self.shift
        return x * self.table["w"]


def module_containers():
    m = _seeded(lambda: Block(2))
    torch.manual_seed(5)
    extra = nn.Linear(3, 3)

    def swap():
        m.layers[0], m.layers[1] = m.layers[1], m.layers[0]

    changes = [
        lambda: setattr(m, "kind", "b"),
        lambda: m.layers.append(extra),
        swap,
        lambda: m.acts.update({"b": nn.Sigmoid()}),
        lambda: m.scales.__setitem__(0, torch.zeros(3)),
        lambda: setattr(m, "shift", torch.zeros(3)),
        lambda: m.table.update({"w": torch.full((3,), 4.0)}),
        lambda: m.double().float(),
    ]
    return world(m, vec(2, 3), changes=changes, state=_params(m))


def train_and_eval():
    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
    return world(m, vec(4, 3), changes=[m.eval, m.train, lambda: m[1].eval()], state=_params(m))


def dropout_rate_changes():
    m = nn.Dropout(0.5)
    return world(m, vec(4, 3), changes=[lambda: setattr(m, "p", 0.9), lambda: setattr(m, "p", 0.0)])


def batch_norm():
    m = _seeded(lambda: nn.BatchNorm1d(3))
    changes = [
        m.eval,
        m.train,
        lambda: setattr(m, "momentum", 0.5),
        m.reset_running_stats,
        lambda: setattr(m, "momentum", None),
    ]
    return world(m, vec(4, 3), changes=changes, state=_params(m))


def layer_norm_and_embedding():
    table, norm = _seeded(lambda: nn.Embedding(5, 4)), nn.LayerNorm(4)

    def fn(index):
        return norm(table(index))

    return world(fn, torch.tensor([0, 3, 4]), state=lambda: [*table.parameters(), *norm.parameters()])


def convolution():
    m = _seeded(lambda: nn.Conv2d(2, 3, 3, padding=1))
    w = world(m, vec(1, 2, 5, 5), state=_params(m))
    return changed(w, [lambda: setattr(w, "args", (vec(1, 2, 4, 4),)), lambda: setattr(m, "stride", (2, 2))])


def attention():
    m = _seeded(lambda: nn.MultiheadAttention(4, 2, batch_first=True)).eval()
    return world(lambda x: m(x, x, x, need_weights=False)[0], vec(2, 3, 4), state=_params(m))


def transformer_layer():
    m = _seeded(lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True))
    return world(m, vec(2, 3, 4), state=_params(m), changes=[m.eval])


def recurrent_cell():
    m = _seeded(lambda: nn.GRUCell(3, 3))

    def fn(xs):
        h = torch.zeros(2, 3)
        for x in xs:
            h = m(x, h)
        return h

    return world(fn, vec(4, 2, 3), state=_params(m))


def forward_hook():
    m, log = _seeded(lambda: nn.Linear(3, 3)), []

    def hook(mod, args, out):
        log.append(out.shape[0])
        return out * 2

    handle = {}

    def add():
        handle["h"] = m.register_forward_hook(hook)

    return world(m, vec(2, 3), state=lambda: [log, *m.parameters()], changes=[add, lambda: handle["h"].remove()])


def forward_pre_hook():
    m = _seeded(lambda: nn.Linear(3, 3))
    return world(
        m, vec(2, 3), state=_params(m), changes=[lambda: m.register_forward_pre_hook(lambda mod, args: (args[0] * 3,))]
    )


def hook_with_kwargs():
    class Scale(nn.Module):
        def forward(self, x, *, k=2):
            return x * k

    m = Scale()
    m.register_forward_pre_hook(lambda mod, args, kwargs: (args, {"k": kwargs.get("k", 1) + 1}), with_kwargs=True)
    return world(m, vec(), k=4)


def hook_of_a_submodule():
    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    return world(
        m, vec(2, 3), state=_params(m), changes=[lambda: m[0].register_forward_hook(lambda mod, args, out: out - 1)]
    )


def global_module_hook():
    m, handle = _seeded(lambda: nn.Linear(3, 3)), {}

    def add():
        handle["h"] = nn.modules.module.register_module_forward_hook(lambda mod, args, out: out + 1)

    return world(m, vec(2, 3), changes=[add, lambda: handle["h"].remove()], state=_params(m))


def backward_hook():
    m, log = _seeded(lambda: nn.Linear(3, 3)), []
    m.register_full_backward_hook(lambda mod, gi, go: log.append(go[0].shape[0]))
    return world(m, vec(2, 3, grad=True), state=lambda: [log, *m.parameters()])


def weight_tying():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    m = _seeded(Tied)

    def untie():
        m.b.weight = nn.Parameter(m.a.weight.detach() * 2)

    return world(m, vec(2, 3), changes=[untie], state=_params(m))


def parametrization():
    class Double(nn.Module):
        def forward(self, w):
            return w * 2

    m = _seeded(lambda: nn.Linear(3, 3))
    nn.utils.parametrize.register_parametrization(m, "weight", Double())
    return world(m, vec(2, 3), state=_params(m))


def weight_norm():
    m = _seeded(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)))
    return world(m, vec(2, 3), state=_params(m))


def lazy_module():
    torch.manual_seed(0)
    m = nn.LazyLinear(2)
    return world(m, vec(4, 3), state=lambda: [p for p in m.parameters() if not nn.parameter.is_lazy(p)])


def module_writes_to_itself():
    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.last = None
            self.calls = 0

        def forward(self, x):
            self.total = self.total + x
            self.last = x * 2
            return self.total * 2

    m = Stateful()
    return world(m, vec(), state=m)


def module_counts_calls():
    class Counting(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    m = Counting()
    return world(m, vec(), state=m)


def buffer_is_written_in_place():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.mean.mul_(0.9).add_(x.detach(), alpha=0.1)
            return x - self.mean

    m = Running()
    return world(m, vec(), state=m, changes=[lambda: m.register_buffer("mean", torch.ones(3)), lambda: m.mean.zero_()])


def forward_is_replaced():
    m = _seeded(lambda: nn.Linear(3, 3))
    return world(m, vec(2, 3), state=_params(m), changes=[lambda: setattr(m, "forward", lambda x: x + 1)])


def class_forward_is_replaced():
    class Net(nn.Module):
        def forward(self, x):
            return x + 1

    m = Net()
    return world(m, vec(), changes=[lambda: setattr(Net, "forward", lambda self, x: x - 1)])


def submodule_is_replaced():
    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    torch.manual_seed(8)
    other = nn.Linear(3, 3)
    return world(
        lambda x: m(x),
        vec(2, 3),
        changes=[lambda: setattr(m, "0", other), lambda: setattr(m, "1", None)],
        state=_params(m),
    )


def parameters_are_iterated():
    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))
    return world(
        lambda x: x * sum(p.abs().sum() for p in m.parameters()),
        vec(),
        changes=[lambda: m.append(nn.Linear(3, 1, bias=False)), lambda: setattr(m[0], "bias", None)],
    )


def named_parameters_are_iterated():
    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))
    return world(lambda x: [(n, x * p.sum()) for n, p in m.named_parameters() if "weight" in n], vec())


def state_dict_is_loaded():
    m = _seeded(lambda: nn.Linear(3, 3))
    other = {k: v * 2 for k, v in m.state_dict().items()}
    return world(m, vec(2, 3), state=_params(m), changes=[lambda: m.load_state_dict(other)])


def dtype_of_a_module_changes():
    m = _seeded(lambda: nn.Linear(3, 3))
    w = world(m, vec(2, 3), state=_params(m))

    def wide():
        m.double()
        w.args = (vec(2, 3).double(),)

    return changed(w, [wide])


def frozen_parameter():
    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))
    return world(
        m, vec(2, 3), state=_params(m), changes=[lambda: m[0].requires_grad_(False), lambda: m.requires_grad_(False)]
    )


def functional_call():
    m = _seeded(lambda: nn.Linear(3, 3))
    params = {k: v.detach() * 2 for k, v in m.named_parameters()}
    return world(lambda x: torch.func.functional_call(m, params, (x,)), vec(2, 3))


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    m = _seeded(lambda: nn.Linear(3, 3))
    return world(lambda x: checkpoint(m, x, use_reentrant=False), vec(2, 3, grad=True), state=_params(m))


def checkpointed_with_dropout():
    from torch.utils.checkpoint import checkpoint

    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(3, 3)))

    def fn(x):
        y = nn.functional.dropout(x * 2, 0.5)
        return checkpoint(m, y, use_reentrant=False) + torch.rand(3)

    return world(fn, vec(2, 3, grad=True), state=_params(m))


def checkpointed_function_with_keywords():
    from torch.utils.checkpoint import checkpoint

    def block(x, other, scale=1, *, shift):
        return torch.sin(x * other) * scale + shift, {"k": scale}

    def fn(x, y):
        out, more = checkpoint(block, x, y, 3, use_reentrant=False, shift=2.0, determinism_check="none")
        return out.sum(), more["k"]

    return world(fn, vec(grad=True), vec(seed=2))


def checkpointed_by_a_partial():
    import functools

    from torch.utils.checkpoint import checkpoint

    run = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=True)
    m = _seeded(lambda: nn.Linear(3, 3))
    return world(lambda x: run(m.__call__, x).relu(), vec(2, 3, grad=True), state=_params(m))


def checkpoint_inside_of_a_checkpoint():
    from torch.utils.checkpoint import checkpoint

    a, b = _seeded(lambda: nn.Linear(3, 3)), _seeded(lambda: nn.Linear(3, 3))

    def outer(x):
        return checkpoint(b, torch.tanh(a(x)), use_reentrant=False) * 2

    return world(lambda x: checkpoint(outer, x, use_reentrant=False), vec(2, 3, grad=True), state=_params(a))


def checkpointed_layers():
    from torch.utils.checkpoint import checkpoint

    m = _seeded(lambda: nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.GELU()) for _ in range(3)))

    def fn(x):
        for layer in m:
            x = checkpoint(layer, x, use_reentrant=False)
        return x.sum()

    return world(fn, vec(2, 3, grad=True), state=_params(m), changes=[lambda: m[1][0].weight.data.mul_(2)])


def checkpointed_sequence():
    from torch.utils.checkpoint import checkpoint_sequential

    m = _seeded(lambda: nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)]))
    return world(lambda x: checkpoint_sequential(m, 2, x, use_reentrant=False), vec(2, 3, grad=True), state=_params(m))


def checkpointed_without_gradients():
    from torch.utils.checkpoint import checkpoint

    m = _seeded(lambda: nn.Linear(3, 3))

    def fn(x):
        with torch.no_grad():
            y = checkpoint(m, x, use_reentrant=False)
        return y

    return world(fn, vec(2, 3, grad=True), state=_params(m))


def checkpointed_function_changes_something():
    from torch.utils.checkpoint import checkpoint

    m = _seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    return world(lambda x: checkpoint(m, x, use_reentrant=False), vec(4, 3, grad=True), state=_params(m))


def checkpointed_function_writes_to_its_argument():
    from torch.utils.checkpoint import checkpoint

    def fn(x):
        y = x * 2
        return checkpoint(lambda t: t.view(-1).add_(1).sin(), y, use_reentrant=False), y

    return world(fn, vec(grad=True))


def checkpointed_function_fails():
    from torch.utils.checkpoint import checkpoint

    def block(x):
        raise ValueError("no")

    def fn(x):
        try:
            return checkpoint(block, x, use_reentrant=False)
        except ValueError:
            return x * 3

    return world(fn, vec(grad=True))


def checkpointed_in_the_other_way():
    from torch.utils.checkpoint import checkpoint

    m = _seeded(lambda: nn.Linear(3, 3))
    return world(lambda x: checkpoint(m, x, use_reentrant=True), vec(2, 3, grad=True), state=_params(m))


def shared_block_is_called_twice():
    m = _seeded(lambda: nn.Linear(3, 3))
    return world(lambda x: m(m(x)), vec(2, 3), state=_params(m))


def many_layers():
    m = _seeded(lambda: nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(6)]))
    return world(m, vec(2, 3), state=_params(m), changes=[lambda: m[5][0].weight.data.mul_(2)])


def loss_function():
    loss = nn.CrossEntropyLoss()
    return world(
        lambda x, t: loss(x, t),
        vec(4, 3, grad=True),
        torch.tensor([0, 1, 2, 1]),
        changes=[lambda: setattr(loss, "reduction", "sum"), lambda: setattr(loss, "label_smoothing", 0.1)],
    )


def partial_of_a_module():
    class Scale(nn.Module):
        def forward(self, x, k):
            return x * k

    return world(functools.partial(Scale(), k=3), vec())


def user_function_of_autograd():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + x * 0

    return world(lambda x: Double.apply(x) + 1, vec(grad=True))


def lazy_modules_in_a_model():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.LazyLinear(4)
            self.b = nn.LazyBatchNorm1d()

        def forward(self, x):
            return self.b(self.a(x)).relu()

    torch.manual_seed(0)
    m = Model()
    return world(m, vec(4, 3), state=lambda: [type(m.a), *(p for p in m.parameters() if not nn.parameter.is_lazy(p))])


def a_lazy_module_made_anew():
    torch.manual_seed(0)
    box = [nn.LazyLinear(2)]

    def another():
        torch.manual_seed(1)
        box[0] = nn.LazyLinear(2)

    return world(lambda x: box[0](x), vec(4, 3), state=lambda: type(box[0]), changes=[another])
