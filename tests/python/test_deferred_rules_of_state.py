"""The rules that make a deferred run exact, from the eighth on: random numbers, modes, data that leaves, errors."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from differential import check, error_of, matrices
from listed import Listed

PROGRAMS = Listed()
program = PROGRAMS.add


# Rule 8: the random stream.


@program
def rule8_random_state_at_every_moment(x, w):
    states = [torch.get_rng_state()]
    a = torch.rand(3)
    states.append(torch.get_rng_state())
    b = F.dropout(x + 1, 0.5)
    states.append(torch.get_rng_state())
    c = torch.empty(3).normal_()
    (x + 2).uniform_()
    d = torch.bernoulli((x + 1).sigmoid())
    states.append(torch.get_rng_state())
    e = torch.multinomial(torch.ones(5), 3)
    f = torch.randperm(5)
    torch.manual_seed(7)
    g = torch.randn_like(x)
    torch.set_rng_state(states[1])
    h = torch.randint(0, 10, (4,))
    return states, a, b, c, d, e, f, g, h


@program
def rule8_random_writes_in_order(x, w):
    y = x + 1
    z = y * 2
    y[1].uniform_()
    u = y * 3
    y.t()[:2].bernoulli_(0.5)
    return y, z, u


@program
def rule8_own_generator(x, w):
    generator = torch.Generator().manual_seed(3)
    a = torch.rand(3, generator=generator)
    state = generator.get_state()
    (x + 1).normal_(generator=generator)
    b = torch.rand(3, generator=generator)
    generator.set_state(state)
    return a, b, torch.rand(3, generator=generator), generator.get_state()


@program
def rule8_random_is_never_dead(x, w):
    torch.rand(3)
    return torch.rand(3)


@program
def rule8_checkpoint_restores_the_stream(x, w):
    def block(t):
        return F.dropout(t @ w, 0.5).tanh()

    y = checkpoint(block, x, use_reentrant=False)
    (first,) = torch.autograd.grad(y.sum(), w)
    z = checkpoint(block, x.clone().requires_grad_(), use_reentrant=True)
    z.sum().backward()
    return y, z, first, torch.rand(2)


@program
def rule8_fork_rng(x, w):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        a = torch.rand(2)
    return a, torch.rand(2)


# Rule 9: the state around operators.


@program
def rule9_default_dtype(x, w):
    a = torch.zeros(2) + 1
    torch.set_default_dtype(torch.float64)
    try:
        b = torch.zeros(2)
        c = torch.tensor([1.0])
        d = torch.arange(3) / 2
    finally:
        torch.set_default_dtype(torch.float32)
    return a, b, c, d, torch.ones(2), torch.arange(3) / 2


@program
def rule9_default_device(x, w):
    with torch.device("meta"):
        m = torch.zeros(2)
    return m, torch.zeros(2)


@program
def rule9_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        z = F.layer_norm(y.float(), (4,))
        loss = (z @ w).sum()
    loss.backward()
    return y, z, loss, w.grad


@program
def rule9_autocast_cache(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.no_grad():
            w.mul_(2)
        z = x @ w
    return y, z


@program
def rule9_deterministic_flags(x, w):
    torch.use_deterministic_algorithms(True)
    try:
        y = torch.zeros(4).index_add_(0, torch.tensor([0, 1, 0]), x[:, 0])
        flag = torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    return y, flag


@program
def rule9_modes_of_autograd(x, w):
    with torch.no_grad():
        a = w * 2
    with torch.inference_mode():
        b = w * 3
        c = b[0]
        b.add_(1)
    with torch.enable_grad():
        d = w * 4
    with torch.set_grad_enabled(False):
        e = w.t()
    return a, b, c, d, e, a + d, b + 1


@program
def rule9_attention_choice(x, w):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        a = F.scaled_dot_product_attention(q, q, q)
    b = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return a, b, torch.autograd.grad((a + b).sum(), q)


# Rule 10: compiling is not what a deferred program does; step counters need no flush.


@program
def rule10_is_compiling(x, w):
    return torch.compiler.is_compiling(), torch.jit.is_tracing(), torch.jit.is_scripting()


# Rule 11: the doors to data.


@program
def rule11_doors(x, w):
    y = x + 1
    array = y.numpy()
    found = [y.tolist(), array.tolist(), np.asarray(x * 2).tolist(), (x * 3).sum().item()]
    z = y * 2
    found.append(repr(z))
    found.append(f"{z.sum():.3f}")
    found += [float((x + 2).sum()), int((x + 3).sum()), bool((x + 4).sum() > 0), len(x + 1), (x + 1).data_ptr() != 0]
    found.append([float(v) for v in (x + 5)[0]])
    found.append((x + 6)[0, 0].item() in (x + 6))
    return found, y, z


@program
def rule11_real_tensor_with_pending_write(x, w):
    x.add_(1)
    found = [x.numpy().tolist()]
    x.mul_(2)
    found.append(x.tolist())
    x[0].zero_()
    found.append(x.sum().item())
    x.sub_(1)
    found.append(repr(x))
    x.add_(7)
    found.append(x.untyped_storage().tolist()[:4])
    return found


@program
def rule11_dlpack(x, w):
    y = x + 1
    other = torch.from_dlpack(y)
    other.add_(1)
    array = np.from_dlpack(x * 2)
    return y, other, array.tolist()


@program
def rule11_deepcopy_and_pickle(x, w):
    y = x + 1
    a = copy.deepcopy(y)
    b = pickle.loads(pickle.dumps(y * 2))
    c = copy.copy(y)
    file = io.BytesIO()
    torch.save({"y": y * 3, "view": y[0]}, file)
    file.seek(0)
    loaded = torch.load(file)
    module = copy.deepcopy(nn.Linear(2, 2).requires_grad_(False))
    return a, b, c, loaded, module.weight.shape, y


@program
def rule11_storages(x, w):
    y = x + 1
    storage = y.untyped_storage()
    size = storage.nbytes()
    y.mul_(2)
    clone = torch.tensor(storage.clone().tolist(), dtype=torch.uint8)
    return y, size, clone, y.element_size(), y.nbytes


@program
def rule11_frombuffer_and_numpy_share(x, w):
    array = np.arange(4.0)
    t = torch.from_numpy(array)
    t.add_(1)
    inside = t.numpy().tolist()
    return inside, t


@program
def rule11_iteration_and_indexing_by_tensors(x, w):
    y = x + 1
    index = torch.tensor([2, 0])
    rows = [row.sum() for row in y]
    position = (y.sum() * 0).long() + 1
    return y[index], rows, y[position], y[int(position)], list(range(4))[position], [*y.unbind()][position]


# Rule 13: errors are eager's.


@program
def rule13_errors_of_arguments(x, w):
    y = x + 1
    return [
        error_of(lambda: y @ y),
        error_of(lambda: torch.cat([y, torch.zeros(2, 2)])),
        error_of(lambda: y.view(7)),
        error_of(lambda: y + torch.zeros(5)),
        error_of(lambda: F.conv2d(y, w)),
        error_of(lambda: y.sum(dim=5)),
        error_of(lambda: torch.zeros(-1)),
        error_of(lambda: y[10]),
        error_of(lambda: y.add_(torch.zeros(2, 3, 4))),
        error_of(lambda: y.to(torch.int32).mul_(0.5)),
        error_of(lambda: y.expand(2, 2)),
        error_of(lambda: torch.ops.aten.nothing(y)),
        error_of(lambda: y.mean(dtype=torch.int32)),
        y * 2,
    ]


@program
def rule13_errors_of_autograd(x, w):
    y = x @ w
    return [
        error_of(y.backward),
        error_of(lambda: x.sum().backward()),
        error_of(lambda: w.add_(1)),
        error_of(lambda: w.t().mul_(2)),
        error_of(lambda: torch.autograd.grad(y.sum(), x)),
        error_of(y.numpy),
        error_of(lambda: setattr(y, "requires_grad", False)),
        error_of(lambda: (y.sum().backward(), y.sum().backward())),
    ]


@program
def rule13_data_that_is_there_decides_at_once(x, w):
    return [
        error_of(lambda: x[torch.tensor([5])]),
        error_of(lambda: F.embedding(torch.tensor([9]), w)),
        error_of(lambda: torch.tensor([1, 2]) // torch.tensor([1, 0])),
        error_of(lambda: torch.linalg.inv(torch.zeros(2, 2))),
        error_of(lambda: torch.linalg.cholesky(-torch.eye(2))),
        error_of(lambda: torch.gather(x, 0, torch.tensor([[7]]))),
        error_of(lambda: torch.multinomial(torch.tensor([-1.0, 2.0]), 1)),
    ]


@pytest.mark.parametrize("name", PROGRAMS.names({}))
def test_program(name: str) -> None:
    check(PROGRAMS[name], matrices)
