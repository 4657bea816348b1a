"""The rules that make a deferred run exact, one after the other: whatever a program can see is eager mode's."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from differential import check, error_of, matrices
from listed import Listed

PROGRAMS = Listed()
program = PROGRAMS.add


# Rule 1: the storage is lazy, the tensor is not.


@program
def rule1_views_share_memory(x, w):
    y = x + 1
    a, b, c = y.t(), y[1:, ::2], y.view(-1)
    c.mul_(3)
    return y, a, b, c, y.unbind(0), y.diagonal(), y.unfold(1, 2, 1), y.expand(2, 3, 4), a._base is y


@program
def rule1_views_of_inputs(x, w):
    x[1].add_(5)
    view = x.t()[1:3]
    view.zero_()
    return x, view, view._base is x


@program
def rule1_view_of_view_written(x, w):
    y = x @ w
    z = y.view(-1)[2:8]
    z[1:3].mul_(2)
    z.add_(y.sum())
    return y, z, torch.autograd.grad(y.pow(2).sum() + z.sum(), w)


@program
def rule1_version_counters(x, w):
    y = x.clone()
    before = y._version
    y.add_(1)
    y[0].mul_(2)
    y.t().sub_(1)
    return y, before, y._version, y[0]._version, x._version


@program
def rule1_saved_tensor_was_changed(x, w):
    y = (x @ w).exp()
    y.add_(1)
    return error_of(lambda: y.sum().backward())


@program
def rule1_conj_and_neg(x, w):
    z = torch.complex(x, x + 1)
    c = z.conj()
    n = c.imag
    z.mul_(2)
    return z, c, n, c.resolve_conj(), n.resolve_neg(), c.real, torch.view_as_real(z), c * n


@program
def rule1_wrapped_numbers(x, w):
    half = x.to(torch.float16)
    number = torch.tensor(2.0)
    return half + 1.5, half * number, torch.arange(3) + 1.5, torch.arange(3) / 2, torch.tensor(3) * x, x**2, 2**x


# Rule 2: tensors come to share a pending storage without an operator.


@program
def rule2_data_is_assigned(x, w):
    y = x * 2
    w.data = y.t() @ y
    z = w + 1
    y.add_(100)
    return y, z, w


@program
def rule2_data_of_a_view(x, w):
    p = nn.Parameter(torch.zeros(2))
    y = x + 1
    p.data = y[0, 1:3]
    y.mul_(2)
    return p * 3, p, y


@program
def rule2_set_data_of_another_dtype(x, w):
    p = torch.zeros(2)
    y = (x * 2).double()
    p.data = y
    return p + 1, y


@program
def rule2_detach_shares(x, w):
    y = x @ w
    d = y.detach()
    d.add_(1)
    return y, d, y._version, d._version


@program
def rule2_set_(x, w):
    y = x + 1
    z = torch.empty(0)
    z.set_(y.untyped_storage(), 2, (2, 2), (1, 2))
    v = torch.empty(0)
    v.set_(y)
    v.mul_(2)
    return y, z, v


# Rule 3: the recording keeps no tensor of the program.


@program
def rule3_module_to(x, w):
    torch.manual_seed(1)
    module = nn.Linear(4, 2)
    first = module(x)
    module.to(torch.float64)
    second = module(x.double())
    return first, second, list(module.parameters())


@program
def rule3_module_apply_and_load(x, w):
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    out = module(x)
    module.apply(lambda m: nn.init.zeros_(m.bias) if hasattr(m, "bias") else None)
    state = copy.deepcopy(module.state_dict())
    module.load_state_dict({name: t + 1 for name, t in state.items()})
    return out, module(x), module.state_dict()


@program
def rule3_weak_references(x, w):
    y = x + 1
    gone = weakref.ref(y)
    z = y * 2
    del y
    gc.collect()
    return gone() is None, z


@program
def rule3_finalizers_come_at_once(x, w):
    order = []
    y = x + 1
    weakref.finalize(y, order.append, "y")
    y = y + 1
    order.append("end")
    return order, y


@program
def rule3_swap_tensors(x, w):
    y, z = x + 1, x * 2
    torch.utils.swap_tensors(y, z)
    return y, z, y + z


@program
def rule3_reference_counts(x, w):
    import sys

    y = x + 1
    y.mul_(2)
    z = y[0]
    return sys.getrefcount(y), sys.getrefcount(z), sys.getrefcount(x)


# Rule 4: metadata is written at once.


@program
def rule4_metadata_writes(x, w):
    y = x + 1
    y.t_()
    first = tuple(y.shape), y.stride()
    y.unsqueeze_(0)
    y.squeeze_(0)
    y.transpose_(0, 1)
    z = torch.empty(0)
    z.resize_(2, 3)
    z.zero_()
    y.resize_(2, 2)
    return first, y, z, y + 1


@program
def rule4_metadata_of_inputs(x, w):
    x.t_()
    x.t_()
    y = x @ w
    x.unsqueeze_(0)
    x.squeeze_(0)
    return y, x.sin(), x


@program
def rule4_metadata_of_shared_storages(x, w):
    y = x + 1
    a, b = torch.zeros(3, 4), torch.zeros(3, 4)
    a.data, b.data = x, y
    x.t_()
    y.t_()
    return a * 1, b * 1, x * 1, y * 1


@program
def rule4_out_arguments(x, w):
    out = torch.empty(0)
    torch.add(x, 1, out=out)
    kept = torch.ones(3, 4)
    alias = kept[0]
    torch.mul(x, 2, out=kept)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.long)
    torch.sort(x, out=(values, indices))
    return out, kept, alias, values, indices


@program
def rule4_as_strided_(x, w):
    y = x + 1
    y.as_strided_((2, 2), (1, 4), 1)
    return y, y * 2


# Rule 5: what cannot be recorded runs.


@program
def rule5_data_dependent_shapes(x, w):
    y = x + 1
    return y.nonzero(), y[y > 1], torch.unique(y.round()), y.masked_select(y > 0), torch.where(y > 1)


@program
def rule5_other_layouts(x, w):
    y = (x > 0) * x
    sparse = y.to_sparse()
    csr = y.to_sparse_csr()
    return sparse, sparse.to_dense() + 1, csr.to_dense(), (sparse * 2).to_dense(), torch.sparse.mm(sparse, w).sum()


@program
def rule5_meta_tensors(x, w):
    m = torch.empty(2, 3, device="meta")
    n = (x + 1).to("meta")
    return m + 1, n, n @ torch.empty(4, 2, device="meta"), m.t()


@program
def rule5_quantized(x, w):
    q = torch.quantize_per_tensor(x + 1, 0.1, 10, torch.quint8)
    return q.dequantize(), q.int_repr()


@program
def rule5_results_that_are_no_tensors(x, w):
    y = x + 1
    return torch.equal(y, x), torch.allclose(y, y + 0), y.sum().item(), bool((y > 0).any())


@program
def rule5_zero_size_and_zero_dim(x, w):
    e = torch.empty(0, 3) + 1
    s = x.sum()
    return (
        e,
        e.sum(),
        e.t(),
        torch.cat([e, x[:, :3]]),
        s,
        s + 1,
        s.expand(3),
        s.view(1, 1),
        torch.zeros(2, 0) @ e[:, :2],
    )


# Rule 6: strides are those of the real kernels.


@program
def rule6_layouts(x, w):
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    weight = torch.randn(4, 3, 3, 3)
    convolved = F.conv2d(image, weight)
    back = F.conv_transpose2d(convolved, weight.to(memory_format=torch.channels_last))
    return (
        convolved,
        back,
        F.max_pool2d(convolved, 2),
        F.interpolate(image, scale_factor=2),
        torch.linalg.svd(x),
        x.t() + x.t(),
        torch.cat([image, image]),
        image.clone(),
        image.contiguous(),
        torch.empty_like(x.t()).fill_(1),
        x.t().cumsum(0),
        F.batch_norm(image, None, None, training=True),
    )


# Rule 7: literals.


@program
def rule7_literals(x, w):
    t = torch.tensor([1.0, 2.0])
    before = t.sum().item()
    t.add_(1)
    after = t.sum().item()
    u = torch.tensor([x[0, 0], x.sum()])
    v = torch.tensor([[1, 2], [3, 4]])[1]
    return before, after, t, u, v, torch.as_tensor([x.mean(), 1.0]), x.new_tensor([1, 2]), torch.tensor(x.sum())


@pytest.mark.parametrize("name", PROGRAMS.names({}))
def test_program(name: str) -> None:
    check(PROGRAMS[name], matrices)
