"""What a module is, put back where a call of it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# What a call may change in a module without an operator: whose attributes, in dicts of the module.
_DICTS = (
    "_parameters",
    "_buffers",
    "_modules",
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


@contextlib.contextmanager
def unchanged_if_it_fails(module: torch.nn.Module) -> Iterator[None]:
    """If what is inside raises: parameters, buffers, submodules, hooks and ``training`` are as before.

    A call for compiling is none of the user's, and nothing of it is to be left.
    """
    before = [(each, each.training, [dict(getattr(each, name)) for name in _DICTS]) for each in module.modules()]
    try:
        yield
    except BaseException:
        for each, training, contents in before:
            each.training = training
            for name, content in zip(_DICTS, contents, strict=True):
                found = getattr(each, name)
                if len(found) != len(content) or any(found.get(key) is not value for key, value in content.items()):
                    found.clear()
                    found.update(content)
        raise
