"""Leaves of autograd that the program makes itself."""

from __future__ import annotations

import torch
from torch import nn

from .world import changed, vec, world

grad = torch.autograd.grad


def _both(fn, needs=True):
    """With other numbers too. The second argument is one that autograd follows, or none is."""
    w = world(fn, vec(2, 3), vec(3, 3, seed=1, grad=needs))
    given = [(vec(2, 3, seed=n), vec(3, 3, seed=n + 1, grad=needs)) for n in (5, 7)]
    return changed(w, [lambda args=args: setattr(w, "args", args) for args in given])


def a_result_is_a_leaf():
    return _both(lambda x, w: (x * 2).requires_grad_())


def a_view_of_an_argument_is_a_leaf():
    def fn(x, w):
        row = x.view(-1)
        row.requires_grad_(True)
        return row

    return _both(fn)


def by_the_attribute():
    def fn(x, w):
        y = x.sin()
        y.requires_grad = True
        return y, (y @ w).sum()

    return _both(fn)


def a_leaf_and_what_depends_on_it():
    def fn(x, w):
        leaf = x.exp().requires_grad_()
        return leaf, leaf.sin(), leaf @ w

    return _both(fn)


def only_what_depends_on_it():
    return _both(lambda x, w: x.detach().requires_grad_().sin().sum(), needs=False)


def forces():
    """As programs of physics do: the gradient with respect to positions, by which weights are trained."""

    def fn(x, w):
        positions = x.detach().requires_grad_()
        energy = (positions @ w).tanh().pow(2).sum()
        (force,) = grad(energy, positions, create_graph=True)
        return energy, -force

    return _both(fn)


def forces_without_training():
    def fn(x, w):
        positions = x.clone().requires_grad_(True)
        (force,) = grad((positions @ w.detach()).cos().sum(), positions)
        return force

    return _both(fn)


def a_gradient_penalty():
    def fn(x, w):
        between = (x * 0.3).detach().requires_grad_()
        (g,) = grad((between @ w).sigmoid().sum(), between, create_graph=True)
        return ((g.norm(dim=1) - 1) ** 2).mean()

    return _both(fn)


def taken_back():
    def fn(x, w):
        leaf = (x + 1).requires_grad_()
        first = leaf.sin()
        leaf.requires_grad_(False)
        return first, leaf.cos(), leaf

    return _both(fn)


def set_twice():
    return _both(lambda x, w: (x * 3).requires_grad_().requires_grad_().sin())


def of_a_copy_of_weights():
    def fn(x, w):
        fast = w.detach().clone().requires_grad_()
        for _ in range(2):
            (g,) = grad((x @ fast).pow(2).mean(), fast)
            fast = (fast - 0.1 * g).detach().requires_grad_()
        return x @ fast

    return _both(fn)


def made_as_a_leaf():
    def fn(x, w):
        offset = torch.zeros(3, requires_grad=True)
        y = (x + offset).exp().sum()
        return y, grad(y, offset)[0]

    return _both(fn)


def made_as_leaves_by_other_functions():
    def fn(x, w):
        made = (
            torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
            torch.ones_like(x, requires_grad=True),
            x.new_zeros(3, requires_grad=True),
            torch.full((3,), 0.5, requires_grad=True),
        )
        y = sum((x * each).sum() for each in made)
        return y, grad(y, made), made[1]

    return _both(fn)


def random_numbers_as_leaves():
    def fn(x, w):
        noise = torch.randn(3, requires_grad=True)
        y = (noise * x).sum()
        return y, grad(y, noise, create_graph=True)[0], noise

    return _both(fn)


def a_parameter_made_inside():
    def fn(x, w):
        scale = nn.Parameter(torch.ones(3) * 2)
        y = (x * scale).sum()
        return y, scale

    return _both(fn)


def of_whole_numbers():
    """Autograd says that it cannot."""
    return _both(lambda x, w: x.long().requires_grad_())


def of_what_has_a_history():
    return _both(lambda x, w: (x @ w).requires_grad_().sum())


def of_what_has_a_history_taken_back():
    """Autograd says that it cannot."""
    return _both(lambda x, w: (x @ w).requires_grad_(False))


def written_as_a_leaf():
    """Autograd says that it cannot."""
    return _both(lambda x, w: (x * 2).requires_grad_().add_(1))


def written_under_no_grad():
    def fn(x, w):
        leaf = (x * 2).requires_grad_()
        with torch.no_grad():
            leaf.mul_(3)
        return leaf, leaf.sin()

    return _both(fn)


def under_no_grad():
    def fn(x, w):
        with torch.no_grad():
            leaf = x.cos().requires_grad_()
            inside = leaf.sin()
        return leaf, inside, leaf.sin()

    return _both(fn)


def two_views_one_leaf():
    def fn(x, w):
        one, two = x.view(-1), x.view(-1)
        one.requires_grad_()
        return one, two, one.sin(), two.sin()

    return _both(fn)
