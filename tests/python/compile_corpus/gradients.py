"""Gradients that the program takes itself, by torch.autograd.grad and torch.func."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

from .world import changed, surrounded, vec, world

grad = torch.autograd.grad


def _both(fn):
    """With other numbers too: a replay computes, it does not remember."""
    w = world(fn, vec(2, 3, grad=True), vec(3, 3, seed=1, grad=True))
    given = [(vec(2, 3, seed=n, grad=True), vec(3, 3, seed=n + 1, grad=True)) for n in (5, 7)]
    return changed(w, [lambda args=args: setattr(w, "args", args) for args in given])


def of_one_input():
    return _both(lambda x, w: grad((x @ w).sin().sum(), x)[0])


def of_all_inputs():
    return _both(lambda x, w: grad((x @ w).tanh().pow(2).sum(), (x, w)))


def of_saved_results():
    return _both(lambda x, w: grad((x.exp() * (x @ w).sigmoid()).softmax(-1).sqrt().sum(), (x, w)))


def of_something_in_the_middle():
    def fn(x, w):
        h = x @ w
        y = F.layer_norm(h, (3,)).relu().sum() + F.gelu(h).sum()
        return grad(y, h)[0], h

    return _both(fn)


def with_tangents():
    return _both(lambda x, w: grad((x @ w).cos(), (x, w), grad_outputs=x.detach() * 2))


def the_graph_is_kept():
    def fn(x, w):
        y = (x @ w).exp()
        first = grad(y.sum(), x, retain_graph=True)[0]
        return first, grad((y * 2).sum(), w)[0]

    return _both(fn)


def one_is_unused():
    return _both(lambda x, w: grad((x * 2).sum(), (x, w), allow_unused=True))


def a_graph_of_the_gradient():
    def fn(x, w):
        y = (x @ w).sin().sum()
        (g,) = grad(y, x, create_graph=True)
        return y + (g.norm(2, dim=1) - 1).pow(2).mean()

    return _both(fn)


def a_gradient_of_a_gradient():
    def fn(x, w):
        (g,) = grad((x * x * x @ w).sum(), x, create_graph=True)
        return grad((g * g).sum(), (x, w))

    return _both(fn)


def through_views_and_writes():
    def fn(x, w):
        y = (x * 2).clone()
        y[0] = y[1] * 3
        y.mul_(2)
        z = y.t()[1:].reshape(-1)
        return grad((z * z).sum(), x)[0]

    return _both(fn)


def of_a_convolution():
    def fn(x, w):
        y = F.conv1d(x.view(1, 2, 3), w.view(1, 3, 3)[:, :2], padding=1)
        return grad(F.max_pool1d(y, 2).sum(), (x, w))

    return _both(fn)


def with_dropout():
    return _both(lambda x, w: grad(F.dropout(x @ w, 0.5).sum(), (x, w)))


def of_an_embedding():
    def fn(x, w):
        y = F.embedding(torch.tensor([0, 2, 2]), w) * 2
        return grad(F.cross_entropy(y, torch.tensor([0, 1, 2])), w)[0]

    return _both(fn)


def without_a_graph_around():
    def fn(x, w):
        with torch.no_grad():
            with torch.enable_grad():
                y = (x @ w).sum()
            return x - 0.1 * grad(y, x)[0]

    return _both(fn)


def a_few_steps():
    def fn(x, w):
        for _ in range(3):
            x = x - 0.1 * grad((x @ w).pow(2).sum(), x, create_graph=True)[0]
        return x

    return _both(fn)


def of_a_function():
    return _both(lambda x, w: torch.func.grad(lambda v: (v @ w).sin().sum())(x))


def and_value():
    return _both(lambda x, w: torch.func.grad_and_value(lambda v, u: (v @ u).sin().sum(), argnums=(0, 1))(x, w))


def one_for_each_row():
    def fn(x, w):
        return torch.func.vmap(torch.func.grad(lambda row: (row @ w).sin().sum()))(x)

    return _both(fn)


def vector_jacobian_product():
    def fn(x, w):
        y, pull = torch.func.vjp(lambda v: v @ w, x)
        return pull(y)

    return _both(fn)


def jacobian():
    return _both(lambda x, w: torch.func.jacrev(lambda v: (v @ w).sin())(x[0]))


def it_fails():
    def fn(x, w):
        try:
            return grad((x.detach() * 2).sum(), x)
        except RuntimeError as error:
            return str(error)[:40], x + 1

    return _both(fn)


def a_hook_in_the_middle():
    seen = []

    def fn(x, w):
        h = x @ w
        h.register_hook(lambda g: seen.append(1) or g * 2)
        return grad(h.sum(), x)[0]

    w = _both(fn)
    w.state = lambda: seen
    return w


def jacobian_vector_product():
    return _both(lambda x, w: torch.func.jvp(lambda v: (v @ w).sin(), (x,), (x * 2,)))


def jacobian_vector_product_with_more():
    def fn(x, w):
        out, tangent, more = torch.func.jvp(lambda v: ((v @ w).sin(), v.sum()), (x,), (x * 2,), has_aux=True)
        return out, tangent.cos(), more

    return _both(fn)


def jacobian_vector_product_of_constants():
    return _both(lambda x, w: torch.func.jvp(lambda v: (torch.ones(3), v * 0 + w.sum(), v[0]), (x,), (x * 2,)))


def linearized():
    def fn(x, w):
        out, push = torch.func.linearize(lambda v: (v @ w).sin(), x)
        return out, push(x * 2)

    return _both(fn)


def dual_numbers():
    def fn(x, w):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, x * 2)
            out = (dual @ w).sin() * dual.sum()
            return tuple(forward_ad.unpack_dual(out))

    return _both(fn)


def dual_numbers_around():
    def fn(dual):
        return tuple(forward_ad.unpack_dual(dual.sin() * 2))

    w = world(fn, vec())

    @contextlib.contextmanager
    def around():
        with forward_ad.dual_level():
            w.args = (forward_ad.make_dual(vec(), vec(seed=2)),)
            yield
            w.args = (vec(),)

    return surrounded(w, around)


def jacobian_forward_of_many():
    return _both(lambda x, w: torch.func.jacfwd(lambda v: (v.exp(), v.sum()))(x[0]))


def jacobian_forward():
    return _both(lambda x, w: torch.func.jacfwd(lambda v: (v @ w).sin())(x[0]))


def hessian():
    return _both(lambda x, w: torch.func.hessian(lambda v: (v @ w).sin().sum())(x[0]))
