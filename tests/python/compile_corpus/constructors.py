"""Tensors made by the classes of tensors: of numbers, of sizes, of other tensors."""

import torch

from .world import vec, world


def of_numbers():
    scale = [2.0, 3.0, 4.0]
    return world(
        lambda x: x * torch.FloatTensor(scale) + torch.Tensor([1, 2, 3]) + torch.LongTensor((1, 2, 3)),
        vec(),
        changes=[lambda: scale.__setitem__(0, 7.0)],
    )


def of_numbers_in_lists():
    def program(x):
        return x + torch.DoubleTensor([[1, 2, 3], [4, 5, 6]]) * torch.BoolTensor([True, False, True])

    return world(program, vec())


def of_sizes():
    return world(lambda x: x + torch.Tensor(2, 3).zero_() + torch.FloatTensor(3).fill_(2), vec())


def of_sizes_that_change():
    sizes = [2]
    return world(
        lambda x: x + torch.Tensor(sizes[0], 3).fill_(1),
        vec(),
        changes=[lambda: sizes.__setitem__(0, 4), lambda: sizes.__setitem__(0, 5)],
    )


def of_sizes_of_an_argument():
    return world(lambda x: x + torch.Tensor(x.size(0)).fill_(1) + torch.Tensor(x.shape).zero_(), vec())


def of_a_tensor():
    def fn(x):
        same = torch.Tensor(x)
        same.add_(1)
        return same * 2

    return world(fn, vec())


def of_a_tensor_and_written():
    def fn(x):
        made = torch.FloatTensor([1, 2, 3])
        made[0] = x.sum()
        made += x
        return made

    return world(fn, vec())


def of_numbers_with_gradients():
    def fn(x):
        weight = torch.Tensor([1, 2, 3]).requires_grad_()
        return (x * weight).sum(), weight

    return world(lambda x: fn(x)[0], vec())


def of_a_number_of_a_tensor():
    return world(lambda x: x + torch.Tensor([x.shape[0], x.dim()]).sum(), vec())
