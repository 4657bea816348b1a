"""What surrounds operators: modes of PyTorch, flags, hooks on what is saved. Inside of a call, around it, left on."""

from __future__ import annotations

import contextlib
import threading

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

from .world import surrounded, vec, world


class _Adding(TorchFunctionMode):
    def __init__(self, k=1):
        self.k = k

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out + self.k if func in (torch.sin, torch.add) else out


class _Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.sin else out


# --- modes around the call ---


def a_mode_around():
    mode = _Adding(1)
    return surrounded(world(lambda x: torch.sin(x) * 2, vec(grad=True)), lambda: mode, lambda: setattr(mode, "k", 4))


def another_mode_of_the_class():
    return surrounded(world(lambda x: torch.sin(x), vec()), lambda: _Adding(3))


def a_mode_comes_and_goes():
    w = world(lambda x: torch.sin(x) + 1, vec())
    steps = [_Doubling, lambda: _Adding(1), lambda: _Adding(2), contextlib.nullcontext, _Doubling]
    return surrounded(w, contextlib.nullcontext, *[lambda s=s: setattr(w, "around", s) for s in steps])


def two_modes_and_their_order():
    def both(first, second):
        @contextlib.contextmanager
        def enter():
            with first(), second():
                yield

        return enter

    w = world(lambda x: torch.sin(x), vec())
    return surrounded(w, both(_Adding, _Doubling), lambda: setattr(w, "around", both(_Doubling, _Adding)))


def one_mode_twice_and_two_of_a_class():
    def enter(*modes):
        def make():
            stack = contextlib.ExitStack()
            for mode in modes:
                stack.enter_context(mode)
            return stack

        return make

    a, b = _Adding(1), _Adding(1)
    w = world(lambda x: (torch.sin(x), torch.overrides._get_current_function_mode() is a), vec())
    return surrounded(w, enter(a, a), lambda: setattr(w, "around", enter(a, b)), lambda: setattr(b, "k", 3))


def a_mode_that_counts():
    class Counting(BaseTorchFunctionMode):
        count = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.count += 1
            return super().__torch_function__(func, types, args, kwargs)

    mode = Counting()
    return surrounded(world(lambda x: torch.sin(x), vec(), state=lambda: mode.count), lambda: mode)


def a_mode_that_notes_that_it_was_asked():
    asked = False

    class Noting(BaseTorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            nonlocal asked
            asked = True
            return super().__torch_function__(func, types, args, kwargs)

    def forget():
        nonlocal asked
        asked = False

    return surrounded(world(lambda x: torch.sin(x) * 2, vec(), state=lambda: asked), Noting, forget)


def a_mode_gives_something_of_its_own():
    class Giving(BaseTorchFunctionMode):
        def __init__(self, given):
            self.given = given

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.add:
                return self.given
            return super().__torch_function__(func, types, args, kwargs)

    mode = Giving(vec(seed=3))
    change = [lambda: setattr(mode, "given", vec(seed=5)), lambda: setattr(mode, "given", 7)]
    return surrounded(world(lambda x: torch.add(x, 3), vec()), lambda: mode, *change)


def a_mode_is_given_another_method():
    class Changing(BaseTorchFunctionMode):
        pass

    def tripling(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * 3

    w = world(lambda x: torch.sin(x), vec())
    return surrounded(w, Changing, lambda: setattr(Changing, "__torch_function__", tripling))


def a_mode_is_given_a_method_of_its_own():
    mode = _Doubling()

    def tripling(func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * 3

    change = lambda: setattr(mode, "__torch_function__", tripling)  # noqa: E731
    return surrounded(world(lambda x: torch.sin(x), vec()), lambda: mode, change)


def a_mode_around_makes_another_tensor_of_arguments():
    class Casting(BaseTorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func in (torch.Tensor.add, torch.add):
                args = tuple(a.double() if isinstance(a, torch.Tensor) else a for a in args)
            return super().__torch_function__(func, types, args, kwargs)

    return surrounded(world(lambda x: (x.add(1), torch.add(x, x), x.shape, x.dtype), vec()), Casting)


def the_length_of_the_stack():
    w = world(lambda x: x + torch._C._len_torch_function_stack(), vec())
    return surrounded(w, _Doubling, lambda: setattr(w, "around", contextlib.nullcontext))


def a_default_device():
    def fn(x):
        return torch.ones(3) + x, torch.tensor([1.0]), torch.get_default_device().type

    w = world(fn, vec())
    return surrounded(w, lambda: torch.device("cpu"), lambda: setattr(w, "around", contextlib.nullcontext))


def a_mode_is_popped_for_a_while():
    def fn(x):
        with torch.overrides._pop_mode_temporarily() as mode:
            y = torch.sin(x)
        return y, torch.sin(x), mode.k

    return surrounded(world(fn, vec()), _Adding)


# --- modes inside of it ---


def a_mode_inside_of_a_mode():
    def fn(x):
        with _Doubling():
            y = torch.sin(x)
        return y, torch.sin(x)

    return surrounded(world(fn, vec()), _Adding)


def a_mode_that_is_returned():
    def fn(x):
        with _Adding(2) as mode:
            y = torch.sin(x)
        return y, mode

    return world(fn, vec())


def a_mode_is_pushed_and_stays():
    def fn(x):
        torch._C._push_on_torch_function_stack(_Adding(2))
        return torch.sin(x)

    w = world(fn, vec())
    return surrounded(w, contextlib.nullcontext, lambda: setattr(w, "around", _Doubling))


def a_mode_from_outside_is_pushed_and_stays():
    def fn(x, mode):
        torch._C._push_on_torch_function_stack(mode)
        return torch.sin(x)

    mode = _Adding(2)
    return surrounded(world(fn, vec(), mode), lambda: mode, lambda: setattr(mode, "k", 3))


def a_mode_is_popped_and_gone():
    def fn(x):
        y = torch.sin(x)
        torch._C._pop_torch_function_stack()
        return y, torch.sin(x)

    return surrounded(world(fn, vec()), _Adding)


def a_device_inside():
    def fn(x):
        with torch.device("cpu"):
            return torch.zeros(3) + x

    return world(fn, vec())


def an_exception_leaves_a_mode():
    def fn(x):
        try:
            with _Adding(3):
                y = torch.sin(x)
                raise ValueError
        except ValueError:
            return y, torch.sin(x)

    return world(fn, vec())


# --- __torch_function__ is turned off ---


class _Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        return out * 2 if func is torch.sin else out


def classes_are_not_asked():
    w = world(lambda x: torch.sin(x), vec().as_subclass(_Tagged))
    off = [torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction, contextlib.nullcontext]
    return surrounded(w, contextlib.nullcontext, *[lambda o=o: setattr(w, "around", o) for o in off])


def modes_are_not_asked():
    def off(disable):
        @contextlib.contextmanager
        def enter():
            with _Adding(), disable():
                yield

        return enter

    w = world(lambda x: (torch.sin(x), torch._C._is_torch_function_mode_enabled()), vec())
    kinds = [torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction, contextlib.nullcontext]
    return surrounded(w, off(contextlib.nullcontext), *[lambda k=k: setattr(w, "around", off(k)) for k in kinds])


def classes_are_not_asked_inside():
    def fn(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = torch.sin(x)
        return y, torch.sin(x)

    return world(fn, vec().as_subclass(_Tagged))


# --- flags ---


def deterministic_algorithms_inside():
    def fn(x):
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True)
        y = x.cumsum(0)
        torch.use_deterministic_algorithms(before)
        return y, torch.are_deterministic_algorithms_enabled()

    return world(fn, vec(grad=True))


def deterministic_algorithms_are_left_on():
    def fn(x):
        torch.use_deterministic_algorithms(True, warn_only=True)
        return x.cumsum(0)

    @contextlib.contextmanager
    def off():
        yield
        torch.use_deterministic_algorithms(False)

    return surrounded(world(fn, vec()), off)


def default_dtype_inside():
    def fn(x):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(3)
        torch.set_default_dtype(torch.float32)
        return y, torch.ones(3) + x

    return world(fn, vec())


def matmul_precision_inside():
    def fn(x):
        torch.set_float32_matmul_precision("medium")
        y = x @ x
        torch.set_float32_matmul_precision("highest")
        return y

    return world(fn, vec(3, 3))


def attention_kernels_inside():
    def fn(q):
        with sdpa_kernel(SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    return world(fn, vec(1, 2, 4, 8, grad=True))


def attention_kernels_around():
    w = world(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q), vec(1, 2, 4, 8, grad=True))
    math, flash = [lambda k=k: sdpa_kernel(k) for k in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION)]
    return surrounded(w, math, lambda: setattr(w, "around", flash), lambda: setattr(w, "around", math))


def onednn_flags_inside():
    def fn(x):
        with torch.backends.mkldnn.flags(enabled=False):
            return x @ x

    return world(fn, vec(3, 3, grad=True))


def cudnn_flags_inside():
    def fn(x):
        with torch.backends.cudnn.flags(enabled=False):
            return x @ x, torch.backends.cudnn.enabled

    return world(fn, vec(3, 3))


def anomaly_mode_inside():
    def fn(x):
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            return x * 2

    return world(fn, vec(grad=True))


def number_of_threads():
    fn = lambda x: x * torch.get_num_threads()  # noqa: E731
    before = torch.get_num_threads()
    return world(fn, vec(), changes=[lambda: torch.set_num_threads(before + 1), lambda: torch.set_num_threads(before)])


def flags_that_are_asked():
    def fn(x):
        precision, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.enabled
        return x + 1 if precision == "highest" and cudnn else x - 1

    w = world(fn, vec())
    return surrounded(
        w, contextlib.nullcontext, lambda: setattr(w, "around", lambda: torch.backends.cudnn.flags(enabled=False))
    )


def a_flag_is_put_back_where_an_operator_fails():
    def fn(x, index):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(3)[index]
        except IndexError:
            y = torch.zeros(1)
        finally:
            torch.set_default_dtype(before)
        return y, torch.ones(1) + x

    w = world(fn, vec(), torch.tensor([0, 2]))
    change = lambda i: lambda: setattr(w, "args", (vec(), torch.tensor(i)))  # noqa: E731
    return surrounded(w, contextlib.nullcontext, change([1, 7]), change([2, 1]))


def memory_is_filled():
    def fn(x):
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True)
        y = torch.empty(3)
        torch.use_deterministic_algorithms(before)
        return y, x + 1

    return world(fn, vec())


def autocast_as_a_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def callee(x):
        return x @ x

    return world(lambda x: (callee(x), x @ x), vec(3, 3, grad=True))


def autocast_inside_of_autocast():
    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            with torch.autocast("cpu", enabled=False):
                z = y.float() @ x
            return y, z, x @ x

    return world(fn, vec(3, 3, grad=True))


def autocast_by_hand():
    def fn(x, context):
        context.__enter__()
        y = x @ x
        context.__exit__(None, None, None)
        return y, x @ x

    return world(fn, vec(3, 3), torch.autocast("cpu", dtype=torch.bfloat16))


# --- hooks on what is saved ---


def saved_tensors_are_packed_inside():
    def fn(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            return (x * x).sin()

    return world(fn, vec(grad=True))


def saved_tensors_are_packed_by_a_function_that_tells():
    def pack(t):
        print("packed", tuple(t.shape))
        return t.clone()

    def fn(x):
        y = x.exp()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 3):
            z = (y * x).sin()
        return z * y

    return world(fn, vec(grad=True))


def saved_tensors_are_kept_by_the_call():
    def fn(x):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            y = x.exp()
        return y, len(kept)

    return world(fn, vec(grad=True))


def saved_tensors_go_to_the_cpu():
    def fn(x):
        with torch.autograd.graph.save_on_cpu():
            return (x * x).sin()

    return world(fn, vec(grad=True))


def saved_tensors_are_packed_around():
    w = world(lambda x: (x * x).sin(), vec(grad=True))
    return surrounded(w, lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t))


def hooks_on_saved_tensors_are_off():
    def fn(x):
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            return x.sin() * x

    return world(fn, vec(grad=True))


# --- profiling, which shows nothing of the program ---


def a_span_of_the_profiler():
    def fn(x):
        with torch.autograd.profiler.record_function("here"):
            y = x * 2
        with torch.profiler.record_function("there"):
            return y.sin()

    return world(fn, vec(grad=True))


def a_function_that_is_a_span():
    @torch.profiler.record_function("callee")
    def callee(x):
        return x * 2

    return world(lambda x: callee(x).sin(), vec(grad=True))


def is_there_a_profiler():
    w = world(lambda x: x + 1 if torch.autograd._profiler_enabled() else x - 1, vec())
    return surrounded(w, contextlib.nullcontext, lambda: setattr(w, "around", torch.autograd.profiler.profile))


# --- streams and events ---


def streams_of_the_cpu():
    def fn(x):
        stream = torch.cpu.Stream()
        with torch.cpu.stream(stream):
            y = x * 2
        torch.cpu.synchronize()
        return y, torch.cpu.current_stream() is not None

    return world(fn, vec())


# --- what belongs to a thread ---


def an_attribute_of_a_thread():
    local = threading.local()
    local.k = 2

    def fn(x):
        return x * local.k, hasattr(local, "other")

    return world(fn, vec(), changes=[lambda: setattr(local, "k", 5), lambda: setattr(local, "other", 1)])


def an_attribute_of_a_thread_is_written():
    local = threading.local()
    local.k = 2

    def fn(x):
        local.last = x * local.k
        if hasattr(local, "gone"):
            del local.gone
        return local.last + 1

    changes = [lambda: setattr(local, "gone", 5), lambda: delattr(local, "last")]
    return world(fn, vec(), state=lambda: vars(local), changes=changes)


def a_default_device_is_set():
    def fn(x):
        torch.set_default_device("cpu")
        y = torch.ones(3)
        torch.set_default_device(None)
        return y + x

    return world(fn, vec(), state=lambda: getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None))


# --- contexts of Python's ---


def a_stack_of_contexts():
    def fn(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            y = x * 2
            stack.callback(lambda: None)
        return y, x * 3

    return world(fn, vec(grad=True))


def a_context_of_a_generator():
    @contextlib.contextmanager
    def scaled(k):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        try:
            yield k * 2
        finally:
            torch.set_grad_enabled(before)

    def fn(x):
        with scaled(3) as k:
            y = x * k
        return y, x * 3

    return world(fn, vec(grad=True))


def a_context_of_a_generator_that_catches():
    @contextlib.contextmanager
    def calm():
        try:
            yield
        except ValueError as error:
            error.add_note("seen")

    def fn(x):
        with calm():
            x = x * 2
            raise ValueError("no")
        return x

    return world(fn, vec(grad=True))


def a_context_of_a_generator_as_a_decorator():
    @contextlib.contextmanager
    def quiet():
        with torch.no_grad():
            yield

    @quiet()
    def callee(x):
        return x * 2

    return world(lambda x: (callee(x), x * 3), vec(grad=True))


def a_context_that_keeps_things():
    class Scope:
        depth = 0

        def __enter__(self):
            self.depth += 1
            return self

        def __exit__(self, *details):
            self.depth -= 1

    scope = Scope()

    def fn(x):
        with scope as s:
            y = x * s.depth
            with scope:
                y = y + scope.depth
        return y

    return world(fn, vec(), state=lambda: scope.depth)


def suppressed():
    def fn(x):
        with contextlib.suppress(KeyError):
            x = x + {}["a"]
        return x + 1

    return world(fn, vec())


def a_context_is_returned():
    class Holding:
        def __init__(self, k):
            self.k = k

        def __enter__(self):
            return self

        def __exit__(self, *details):
            return False

    def fn(x):
        context = Holding(3)
        with context:
            x = x * context.k
        return context, x

    return world(fn, vec())


def no_grad_is_returned():
    def fn(x):
        context = torch.no_grad()
        with context:
            y = x * 2
        return y, context

    return world(fn, vec(grad=True))
