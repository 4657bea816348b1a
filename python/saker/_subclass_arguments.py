"""What a function does to arguments that are tensor subclasses, done again on those of a call.

Graphs see the tensors inside. What autograd knows of the subclass around them (that a result is a view of it, that it
was written, and how often) is found out on the stand-ins and told to the arguments of each call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


class _View:
    """A result that is a view of a tensor, or the tensor: an argument, or what is no result itself."""

    def __init__(self, base: int, view: torch.Tensor | None) -> None:
        self.base = base  # among the arguments; behind them, bases
        self.view = view
        self.grad = view is None or not view._base.requires_grad or view.grad_fn is not None

    def of(self, bases: list[torch.Tensor]) -> torch.Tensor:
        base = bases[self.base]
        if self.view is None:
            return base
        with torch.set_grad_enabled(self.grad):
            return self.view._view_func_unsafe(base)


class Arguments:
    """The stand-ins of a call's arguments, of which some (``watched``) are made of others."""

    def __init__(self, tensors: list[torch.Tensor], watched: list[int]) -> None:
        self._tensors, self._watched = tensors, watched
        self._versions = {i: tensors[i]._version for i in watched}
        self._histories = {i: tensors[i].grad_fn for i in watched}

    def ended(self, results: list[Any]) -> tuple[Redone, list[torch.Tensor]]:
        """After the function: what it did to them, and what that needs: bases of views, and contents."""
        bases: list[torch.Tensor] = []
        redone = Redone(self._writes(), self._rewritten(), self._views(results, bases), len(bases))
        return redone, [*bases, *(self._tensors[i].clone() for i in redone.contents)]

    def _writes(self) -> dict[int, int]:
        moved = {i: self._tensors[i]._version - before for i, before in self._versions.items()}
        return {i: count for i, count in moved.items() if count}

    def _rewritten(self) -> list[int]:
        return [i for i in self._watched if self._tensors[i].grad_fn is not self._histories[i]]

    def _views(self, results: list[Any], bases: list[torch.Tensor]) -> dict[int, _View]:
        """By place; behind the arguments are bases that the function made."""

        def place_of(base: torch.Tensor) -> int | None:
            found = [i for i in self._watched if self._tensors[i] is base]
            if not found and is_traceable_wrapper_subclass(base):
                if not any(base is known for known in bases):
                    bases.append(base)
                found = [len(self._tensors) + i for i, known in enumerate(bases) if known is base]
            return found[0] if found else None

        views: dict[int, _View] = {}
        viewed = [result for result in results if isinstance(result, torch.Tensor) and _is_made_again(result)]
        for place, result in enumerate(results):
            if not isinstance(result, torch.Tensor):
                continue
            if any(result is argument for argument in map(self._tensors.__getitem__, self._watched)):
                views[place] = _View(place_of(result), None)
            elif _is_made_again(result):
                base = place_of(result._base)
                if base is not None:
                    views[place] = _View(base, result)
            elif is_traceable_wrapper_subclass(result) and any(view._base is result for view in viewed):
                views[place] = _View(place_of(result), None)
        return views


def _is_made_again(tensor: torch.Tensor) -> bool:
    """Is it a view that can be made again? Sizes that change are known to the capture only."""
    if not tensor._is_view():
        return False
    numbers = [*tensor.size(), *tensor.stride(), tensor.storage_offset()]
    return not any(isinstance(number, torch.SymInt) for number in numbers)


class Redone:
    def __init__(self, writes: dict[int, int], contents: list[int], views: dict[int, _View], bases: int) -> None:
        self.writes = writes  # how often an argument is written
        self.contents = contents  # arguments that get other contents and another history
        self.views = views  # by place among the results
        self.bases = bases
        self.needed = bases + len(contents)

    def run(self, arguments: list[torch.Tensor], versions: list[int], needed: list[torch.Tensor]) -> dict[int, Any]:
        """Views, by their places. ``versions`` are those that the arguments had before the call."""
        bases, contents = needed[: self.bases], needed[self.bases :]
        for i, now in zip(self.contents, contents, strict=True):
            with torch.enable_grad():
                arguments[i].copy_(now)
        for i, count in self.writes.items():
            while arguments[i]._version < versions[i] + count:
                torch.autograd.graph.increment_version(arguments[i])
        return {place: view.of([*arguments, *bases]) for place, view in self.views.items()}
