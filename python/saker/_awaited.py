"""Functions of the user's (``torch.autograd.Function``) in programs that ``saker.aot_function`` compiles.

Their backwards never run ahead of time. So a program that has some runs eagerly at first, and they are looked at while
it does (``_functions.Study``). Once the backward of each has run, the program is compiled with what they computed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import eager_transforms
from torch.autograd.function import _SingleLevelFunction

from saker._functions import NotOpened, Study, is_followed
from saker._torch_version import APPLIES, apply_arguments


class _Applied(threading.local):
    calls: _Calls | None = None  # what is done with Functions on this thread


_applied = _Applied()


class _Door:
    """Stands for the part of ``apply`` that is C code. Before torch 2.14 names of ``apply`` that programs keep come to
    it as well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._made: Any = None
        self._under: Any = None  # what stood there before: that of saker._doors, or nothing

    def _put(self, now: Any, then: Any) -> bool:
        if vars(APPLIES).get("apply") is not now:
            return False
        if then is None:
            del APPLIES.apply
        else:
            APPLIES.apply = then
        return True

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._under = vars(APPLIES).get("apply")
                self._made = APPLIES.apply = classmethod(_apply)
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                if self._open == 0:
                    self._put(self._made, self._under)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """While a Function is looked at: what it reads of classes is guarded."""
        with self._lock:
            removed = self._put(self._made, self._under)
        try:
            yield
        finally:
            with self._lock:
                if removed and self._open:
                    self._put(self._under, self._made)


_door = _Door()


def _apply(function: Any, *args: Any, **kwargs: Any) -> Any:
    calls = _applied.calls
    given = None if calls is None else apply_arguments(function, args, kwargs)
    if given is None:
        return super(_SingleLevelFunction, function).apply(*args, **kwargs)
    # What a Function calls belongs to it.
    _applied.calls = None
    try:
        with _door.closed():
            return calls.apply(function, given)
    finally:
        _applied.calls = calls


class _Calls:
    """The calls of Functions in one run of a program, in order."""

    def __init__(self, way: str, studies: list[Study], first: bool = False) -> None:
        self.way, self.studies, self.first = way, studies, first
        self.count = 0
        self.fits = True

    def apply(self, function: Any, args: tuple[Any, ...]) -> Any:
        if not is_followed(args):
            return function.apply(*args)
        if self.first:
            self.studies.append(Study(function, ahead=True))
        place = self.count
        self.count += 1
        # A transform calls PyTorch's own class for one of its levels: it belongs to the call around it.
        within = torch._C._are_functorch_transforms_active()
        self.fits = self.fits and not within and place < len(self.studies) and self.studies[place].function is function
        if self.fits:
            return getattr(self.studies[place], self.way)(*args)
        if self.way == "studied":
            return function.apply(*args)
        raise NotOpened("it calls other Functions than before")

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        before, _applied.calls = _applied.calls, self
        try:
            with _door.opened(), self._without_gradients_inside():
                yield
        finally:
            _applied.calls = before

    @contextlib.contextmanager
    def _without_gradients_inside(self) -> Iterator[None]:
        """A program that calls torch.func.grad and its like stays as it is: their gradients pass no opened Function."""
        if self.way != "studied":
            yield
            return
        plain = eager_transforms._grad_increment_nesting

        def increment() -> int:
            if _applied.calls is self:
                self.fits = False
            return plain()

        eager_transforms._grad_increment_nesting = increment
        try:
            yield
        finally:
            eager_transforms._grad_increment_nesting = plain


class Awaited:
    """A program that was not compiled because of its Functions, and may be once their backwards have run."""

    def __init__(self, compile: Callable[[Any, tuple, dict[str, Any], Awaited], Any]) -> None:
        self._compile = compile
        self._studies: list[Study] = []
        self._runs = 0
        self._calls: contextlib.ExitStack | None = None
        self._refused = False

    def begin(self) -> bool:
        """The program is going to run eagerly: is it looked at? In runs 1, 2, 3, 5, 9 and so on it is."""
        number, self._runs = self._runs, self._runs + 1
        if self._refused or self._calls is not None or number & (number - 1) or number > _MOST_RUNS:
            return False
        calls = _Calls("studied", self._studies, first=number == 0)
        stack = contextlib.ExitStack()
        stack.enter_context(calls.here())
        stack.callback(self._ended, calls)
        self._calls = stack
        return True

    def end(self) -> None:
        stack, self._calls = self._calls, None
        if stack is not None:
            stack.close()

    def _ended(self, calls: _Calls) -> None:
        self._refused = self._refused or not calls.fits or calls.count != len(self._studies) or not calls.count

    def again(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What is compiled now, or None: their backwards have not run."""
        if self._refused or any(study.refused() for study in self._studies):
            return None, None, None
        if not self._studies or not all(study.known() for study in self._studies):
            return None
        if not all(study.holds_ahead() for study in self._studies):
            return None, None, None
        try:
            return (*self._compile(function, args, kwargs, self), None)
        except NotOpened:
            return None, None, None

    def opened(self) -> contextlib.AbstractContextManager[None]:
        """While the program is captured."""
        return self._run("opened")

    def repeated(self) -> contextlib.AbstractContextManager[None]:
        """While it runs again, where gradients are differentiated."""
        return self._run("again")

    @contextlib.contextmanager
    def _run(self, way: str) -> Iterator[None]:
        calls = _Calls(way, self._studies)
        with calls.here():
            yield
        if not calls.fits or calls.count != len(self._studies):
            raise NotOpened("it calls other Functions than before")

    def backward_holds(self) -> bool:
        return all(study.backward_holds() for study in self._studies)


_MOST_RUNS = 1000
