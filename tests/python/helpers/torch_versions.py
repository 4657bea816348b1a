"""What differs between versions of PyTorch and transformers as far as tests see it. Only this file asks for them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
import torch


def at_least(major: int, minor: int) -> bool:
    return torch.__version__ >= f"{major}.{minor}"


# --- 2.13 ---

# What modes and subclasses call comes back to a capture.
CAPTURES_SEE_PYTHON = at_least(2, 13)
captures_see_python = pytest.mark.skipif(
    not CAPTURES_SEE_PYTHON, reason="captures go through subclasses and dispatch modes from torch 2.13 on"
)
# Before, PyTorch's C++ code of matmul asks for sizes in numbers, which makes them static.
SYMBOLIC_MATMUL = at_least(2, 13)
symbolic_matmul = pytest.mark.skipif(not SYMBOLIC_MATMUL, reason="matmul of this torch makes dynamic sizes static")
# Before, control flow operators call torch.compile themselves, in each of their files.
control_flow_in_one_place = pytest.mark.skipif(
    not at_least(2, 13), reason="control flow operators of this torch start its compiler in too many places"
)
# Products of 8-bit floats scale each row, on the CPU.
SCALES_ROWS = at_least(2, 13)
# Kernels that older versions have not, by what they say.
MISSING_KERNELS = {} if at_least(2, 13) else {"where": '"where_cpu" not implemented for \'UInt'}
# The lists of known failures are those of this version and later ones: before, more samples pass or are not there.
KNOWN_FAILURES_ARE_CURRENT = at_least(2, 13)

# Before, not every operator of the table is there.
HAS_ALL_OPERATORS = at_least(2, 13)

# --- 2.14 ---

# Arguments that got another name: by operator, the name it has now and the one it had.
RENAMED_ARGUMENTS = {
    f"aten::{base}{overload}": ("grad_output", "grad")
    for base in ("_cdist_backward", "_pdist_backward")
    for overload in ("", ".out")
    if not at_least(2, 14)
}
# Operators that are gone, and new ones.
REMOVED_OPERATORS = {"aten::cholesky", "aten::cholesky.out"} if at_least(2, 14) else set()
NEW_OPERATORS = {
    f"aten::linalg_{base}{overload}"
    for base in ("polar", "matrix_sqrth")
    for overload in ("", ".out")
    if not at_least(2, 14)
}
ABSENT_OPERATORS = REMOVED_OPERATORS | NEW_OPERATORS
# Complex numbers of bfloat16.
BCOMPLEX32 = [torch.bcomplex32] if at_least(2, 14) else []
# Programs of the corpus that this torch.compile captures and Saker does not, beside those of behind.txt.
BEHIND_HERE = {"classes.user_keys_in_dicts", "libraries.weak_references_compared"} if at_least(2, 14) else set()
if at_least(2, 15):
    BEHIND_HERE |= {"effects.bytearray_from_outside", "names.deleted_cell"}
# The bound of softshrink is rounded to the tensor's dtype, as the core takes it to be where it is not told the version.
SOFTSHRINK_ROUNDS = at_least(2, 14)
# A checkpoint without a function gives a decorator.
checkpoint_decorates = pytest.mark.skipif(not at_least(2, 14), reason="checkpoint() takes a function before torch 2.14")
# Statistics of group norm have gradients. Before, eager mode's backward forgets them where no gradient of the
# normalized tensor comes with them, and a compiled one does not.
statistics_have_gradients = pytest.mark.skipif(
    not at_least(2, 14), reason="eager mode loses gradients of group norm's statistics before torch 2.14"
)
# Scans are told their length, which may be zero; functions of map and scan may write.
SCANS_TAKE_LENGTHS = at_least(2, 14)
scans_take_lengths = pytest.mark.skipif(not SCANS_TAKE_LENGTHS, reason="scan() knows no length before torch 2.14")
# What torch.autograd.Function.apply does inside of torch.func.grad is C code.
FUNCTION_UNDER_GRAD_STOPS = "calls-unknown" if at_least(2, 14) else "computes-with"
# Names of it that programs keep are that C code itself: nothing can stand before it.
KEPT_APPLY_IS_SEEN = not at_least(2, 14)
# The pages that are made of tests are made with 2.13: later versions reject other calls.
pages_are_of_this_version = pytest.mark.skipif(at_least(2, 14), reason="the page is made with torch 2.13")
# Samples of OpInfo on which eager mode reads memory that it should not, when their dimensions are permuted: the numbers
# of a head must lie beside each other, and the kernel does not ask.
READ_ELSEWHERE_WHEN_PERMUTED = {"torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"}

# --- 2.15 ---

# Eager mode's selective checkpoints save what operators with ordered effects give, unless told MUST_RECOMPUTE.
EFFECTS_ARE_SAVED = at_least(2, 15)
# Integers that follow from a key and from no generator.
integers_are_drawn_by_keys = pytest.mark.skipif(not at_least(2, 15), reason="torch draws integers by keys from 2.15 on")

# --- transformers 5 ---

try:
    TRANSFORMERS_5 = int(version("transformers").partition(".")[0]) >= 5
except PackageNotFoundError:
    TRANSFORMERS_5 = True
# Layers of experts are products of groups. Before, they ask which experts were chosen.
EXPERTS_READ_DATA = not TRANSFORMERS_5
# From which length on a sliding window of eight positions leaves some out.
LENGTHS_BEYOND_A_WINDOW = "length >= 8" if TRANSFORMERS_5 else "length >= 7"
