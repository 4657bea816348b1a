"""flex_attention with block masks: values and gradients against attention written out, and blocks that are skipped."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

import saker
from saker import _flex_attention, _flex_blocks
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

torch.vmap(torch.sin)(torch.ones(2))  # the first one loads decompositions of PyTorch, which is not recorded
BATCH, HEADS, LENGTH, WIDTH, BLOCK = 2, 4, 128, 8, 16
DOCUMENTS = torch.arange(256).mul(7).remainder(256).sort().values // 37
MASKS = {
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i >= j) & (i - j < 20),
    "documents": lambda b, h, i, j: (DOCUMENTS[i] == DOCUMENTS[j]) & (i >= j),
    "blind rows": lambda b, h, i, j: (i >= 40) & (i < 90) & (i > j),
    "blind columns": lambda b, h, i, j: (j >= 35) & (j < 60),
    "full blocks": lambda b, h, i, j: (i // 32 >= j // 32) | (j < 3),
    "nothing": lambda b, h, i, j: (i < 0) & (j < 0),
    "all": lambda b, h, i, j: (i >= 0) & (j >= 0),
}
OF_BATCHES_AND_HEADS = {
    "by head": lambda b, h, i, j: (i - j).abs() < 5 + 30 * h,
    "by batch": lambda b, h, i, j: (i - j).abs() < 5 + 60 * b,
    "by both": lambda b, h, i, j: ((i - j).abs() < 5 + 60 * b) & (i * h >= j),
}


def written_out(q, k, v, mask, score=None):
    """Results and logarithms of sums, of double precision."""
    q, k, v = (tensor.double() for tensor in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(groups, 1).expand(q.shape[0], -1, -1, -1) for tensor in (k, v))
    b, h, i, j = (
        torch.arange(n).view([-1 if d == place else 1 for d in range(4)])
        for place, n in enumerate((q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
    )
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = (score(scores, b, h, i, j) if score else scores).masked_fill(~mask(b, h, i, j), -math.inf)
    return torch._safe_softmax(scores, -1) @ v, scores.logsumexp(-1)


def inputs(length=LENGTH, width=None, heads=HEADS, batch=BATCH, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = ((BATCH, HEADS, length), *2 * ((batch, heads, width or length),))
    return [torch.randn(*size, WIDTH, generator=generator) for size in sizes]


def blocks_of(mask, length=LENGTH, width=None, *, batch=None, heads=None, size=BLOCK):
    return create_block_mask(mask, batch, heads, length, width or length, device="cpu", BLOCK_SIZE=size)


def outcome(function, tensors, others=()):
    """Results, and gradients of all; those of other dtypes in single precision."""
    tensors = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    result = function(*tensors)
    result = result[0] if isinstance(result, tuple) else result
    return [result.detach().float(), *torch.autograd.grad(result.sin().sum(), [*tensors, *others])]


def check(found, expected):
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def nodes_of(function, *tensors):
    text = str(saker.capture(function, *tensors))
    return text.count("saker::scan("), text.count("saker::if(")


@pytest.fixture(params=["some heads", "some rows"])
def amounts(request, monkeypatch):
    if request.param == "some rows":
        monkeypatch.setattr(_flex_attention, "_SCORES", 1)
        monkeypatch.setattr(_flex_blocks, "_FEWEST_ROWS", 4)
    saker.reset()


@pytest.mark.usefixtures("amounts")
@pytest.mark.parametrize("length", [128, 72, 97])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, length):
    blocks = blocks_of(MASKS[mask], length)
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))
    before = saker.stats()["replays"]
    for seed in range(3):
        tensors = inputs(length, seed=seed)
        check(outcome(compiled, tensors), outcome(lambda *t: written_out(*t, MASKS[mask]), tensors))
    assert saker.stats()["replays"] >= before + 2, saker.stats()["stops"]


@pytest.mark.usefixtures("amounts")
@pytest.mark.parametrize(
    ("mask", "lists"),
    [
        ("by head", (None, HEADS)),
        ("by head", (BATCH, HEADS)),
        ("by batch", (BATCH, None)),
        ("by batch", (BATCH, HEADS)),
        ("by both", (BATCH, HEADS)),
    ],
)
@pytest.mark.parametrize("heads", [HEADS, 2])
def test_masks_of_batches_and_heads(mask, lists, heads):
    blocks = blocks_of(OF_BATCHES_AND_HEADS[mask], 90, batch=lists[0], heads=lists[1])
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, enable_gqa=True))
    for seed in range(2):
        tensors = inputs(90, heads=heads, seed=seed)
        check(outcome(compiled, tensors), outcome(lambda *t: written_out(*t, OF_BATCHES_AND_HEADS[mask]), tensors))


@pytest.mark.parametrize("how", ["compile", "aot_function"])
@pytest.mark.parametrize("sizes", [(100, 40), (40, 100), (64, 256)])
@pytest.mark.parametrize("size", [16, (32, 16), (16, 64)])
def test_lengths_and_sizes_of_blocks(how, sizes, size):
    blocks = blocks_of(MASKS["window"], *sizes, size=size)
    compiled = getattr(saker, how)(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))
    for seed in range(2):
        tensors = inputs(*sizes, seed=seed)
        check(outcome(compiled, tensors), outcome(lambda *t: written_out(*t, MASKS["window"]), tensors))


def test_keys_of_one_batch_and_one_head():
    blocks = blocks_of(OF_BATCHES_AND_HEADS["by both"], batch=BATCH, heads=HEADS)
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, enable_gqa=True))
    for seed in range(2):
        tensors = inputs(heads=1, batch=1, seed=seed)
        check(outcome(compiled, tensors), outcome(lambda *t: written_out(*t, OF_BATCHES_AND_HEADS["by both"]), tensors))


@pytest.mark.usefixtures("amounts")
@pytest.mark.parametrize("mask", ["documents", "by both"])
def test_gradients_of_what_scores_close_over(mask):
    generator = torch.Generator().manual_seed(1)
    bias, slopes = torch.randn(HEADS, 97, 97, generator=generator), torch.rand(HEADS, generator=generator)
    given = [each.requires_grad_() for each in (bias, slopes)]
    mask = {**MASKS, **OF_BATCHES_AND_HEADS}[mask]
    blocks = blocks_of(mask, 97, batch=BATCH, heads=HEADS)

    def score(s, b, h, i, j):
        return torch.tanh(s) + bias[h, i, j] - slopes[h] * (i - j) / 97

    def small(s, b, h, i, j):
        return s - slopes[h] * (i - j) / 97

    for each, followed in ((score, given), (small, [slopes])):
        compiled = saker.compile(lambda q, k, v, each=each: flex_attention(q, k, v, score_mod=each, block_mask=blocks))
        for seed in range(2):
            tensors = inputs(97, seed=seed)
            expected = outcome(lambda *t, each=each: written_out(*t, mask, each), tensors, followed)
            torch.testing.assert_close(outcome(compiled, tensors, followed), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", ["window", "blind rows", "nothing"])
def test_sums_and_their_gradients(mask):
    blocks = blocks_of(MASKS[mask])
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, return_lse=True))

    def both(function, tensors):
        tensors = [tensor.clone().requires_grad_() for tensor in tensors]
        result, sums = function(*tensors)
        seen = sums > -math.inf
        total = result.sin().sum() + torch.where(seen, sums, 0).cos().sum()
        return [result.detach().float(), sums.detach().float(), *torch.autograd.grad(total, tensors)]

    for seed in range(2):
        tensors = inputs(seed=seed)
        found = both(compiled, tensors)
        expected = both(lambda *t: written_out(*t, MASKS["all"] if mask == "nothing" else MASKS[mask]), tensors)
        if mask == "nothing":
            assert not found[0].any()
            assert (found[1] == -math.inf).all()
            assert not any(each.any() for each in found[2:])
        elif mask == "blind rows":  # whose sums have gradients that are no numbers, written out
            check(found[:2], expected[:2])
            assert all(each.isfinite().all() for each in found[2:])
        else:
            check(found, expected)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_gradients_of_some(wanted):
    blocks = blocks_of(MASKS["window"])
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))

    def some(function, tensors):
        tensors = [tensor.clone().requires_grad_(place in wanted) for place, tensor in enumerate(tensors)]
        return torch.autograd.grad(function(*tensors).sin().sum(), [tensors[place] for place in wanted])

    for seed in range(2):
        tensors = inputs(seed=seed)
        check(some(compiled, tensors), some(lambda *t: written_out(*t, MASKS["window"])[0], tensors))


# --- masks that change ---


def listed(seen):
    """The lists of a mask of blocks, [rows, columns]."""
    return seen.sum(-1)[None, None].int(), seen.int().argsort(dim=-1, descending=True, stable=True)[None, None].int()


def changing(mask):
    """A mask whose lists and function read tensors that are written anew."""
    number = LENGTH // BLOCK
    near = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    counts, indices = torch.zeros(1, 1, number, dtype=torch.int), torch.zeros(1, 1, number, number, dtype=torch.int)
    blocks = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=BLOCK, mask_mod=lambda b, h, i, j: near[i, j])

    def write(seen):
        near.copy_(seen)
        some = seen.view(number, BLOCK, number, BLOCK).any(3).any(1)
        for place, tensor in zip((counts, indices), listed(some), strict=True):
            place.copy_(tensor)

    write(mask)
    return blocks, write


def random_mask(seed):
    generator = torch.Generator().manual_seed(seed)
    number = LENGTH // BLOCK
    some = torch.rand(number, number, generator=generator) < torch.rand(number, 1, generator=generator)
    return some.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1) & (
        torch.rand(LENGTH, LENGTH, generator=generator) < 0.8
    )


@pytest.mark.parametrize("how", ["compile", "aot_function", "capture"])
def test_one_recording_for_masks_that_change(how):
    blocks, write = changing(random_mask(0))

    def attention(q, k, v):
        return flex_attention(q, k, v, block_mask=blocks)

    compiled = saker.capture(attention, *inputs()) if how == "capture" else getattr(saker, how)(attention)
    graphs = None
    for seed in range(6):
        seen = random_mask(seed)
        write(seen)
        tensors = inputs(seed=seed)
        expected = outcome(lambda *t, seen=seen: written_out(*t, lambda b, h, i, j: seen[i, j]), tensors)
        if how == "capture":
            check([compiled(*tensors)], expected[:1])
        else:
            check(outcome(compiled, tensors), expected)
        graphs = saker.stats()["graphs"] if seed == 1 else graphs
    assert graphs is None or saker.stats()["graphs"] == graphs


def test_masks_that_are_arguments():
    @saker.compile
    def attention(q, k, v, blocks):
        return flex_attention(q, k, v, block_mask=blocks)

    for mask in ("causal", "window", "blind rows", "causal"):
        blocks = blocks_of(MASKS[mask])
        tensors = inputs()
        check(
            outcome(lambda *t, blocks=blocks: attention(*t, blocks), tensors),
            outcome(lambda *t, mask=mask: written_out(*t, MASKS[mask]), tensors),
        )


# --- what is skipped ---


def test_blocks_that_are_left_out_are_not_read():
    """Whatever their keys and values are, and what scores there would be."""
    hidden = slice(4 * BLOCK, 6 * BLOCK)
    blocks = blocks_of(lambda b, h, i, j: (j < 4 * BLOCK) | (j >= 6 * BLOCK) | (i < 0))
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))
    for seed in range(2):
        tensors = inputs(seed=seed)
        expected = outcome(compiled, tensors)
        for number in (math.nan, math.inf):
            for tensor in tensors[1:]:
                tensor[:, :, hidden] = number
            found = outcome(compiled, tensors)
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
            assert not any(each[:, :, hidden].any() for each in found[2:])


def products(function):
    """How many multiplications products of matrices take."""
    with torch.profiler.profile(record_shapes=True) as profile:
        function()
    shapes = [event.input_shapes for event in profile.events() if event.name == "aten::bmm"]
    return sum(math.prod(left) * right[-1] for left, right, *_ in shapes)


@pytest.mark.parametrize("grad", [False, True])
def test_work_grows_with_the_blocks_that_are_seen(grad):
    blocks, write = changing(random_mask(0))
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))
    tensors = [tensor.requires_grad_(grad) for tensor in inputs()]
    number = LENGTH // BLOCK

    def call():
        result = compiled(*tensors)
        if grad:
            torch.autograd.grad(result.sum(), tensors)

    counted = []
    for count in (0, 1, 2, 4, number):
        seen = torch.arange(LENGTH)[None].expand(LENGTH, -1) < count * BLOCK
        write(seen)
        call()
        counted.append(products(call))
    one = counted[1]
    assert one > 0
    assert counted == [0, one, 2 * one, 4 * one, number * one]


def test_nodes_and_what_is_left_as_it_was():
    tensors = inputs()
    blocks = blocks_of(MASKS["window"])
    scans, branches = nodes_of(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks), *tensors)
    assert scans == 1
    assert branches == len(_flex_blocks._widths(LENGTH // BLOCK)) - 1
    assert nodes_of(flex_attention, *tensors) == (0, 0)
    one = blocks_of(MASKS["causal"], size=LENGTH)
    assert nodes_of(lambda q, k, v: flex_attention(q, k, v, block_mask=one), *tensors) == (0, 0)


def test_widths():
    for blocks in range(2, 300):
        widths = _flex_blocks._widths(blocks)
        assert widths[0] == 0
        assert widths[-1] == blocks
        assert all(left < right <= max(left + 1, left * 2) for left, right in itertools.pairwise(widths))


# --- what is around ---


def test_layout_and_dtype():
    blocks = blocks_of(MASKS["window"])
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))
    q, k, v = (tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in inputs())
    expected = written_out(q, k, v, MASKS["window"])[0]
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.05), (torch.float64, 1e-10)):
        for _ in range(2):
            found = compiled(q.to(dtype), k.to(dtype), v.to(dtype))
            assert found.dtype is dtype
            assert found.stride() == q.stride()
            torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_gradients_of_gradients():
    blocks = blocks_of(MASKS["window"], 48)
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))

    def twice(function, tensors):
        tensors = [tensor.clone().requires_grad_() for tensor in tensors]
        first = torch.autograd.grad(function(*tensors).sin().sum(), tensors, create_graph=True)
        return torch.autograd.grad(sum(each.cos().sum() for each in first), tensors)

    for seed in range(2):
        tensors = inputs(48, seed=seed)
        expected = twice(lambda *t: written_out(*t, MASKS["window"])[0], tensors)
        torch.testing.assert_close(twice(compiled, tensors), expected, rtol=1e-4, atol=1e-4)


def test_vmap_around():
    blocks = blocks_of(MASKS["window"], 48)

    @saker.compile
    def attention(q, k, v):
        return torch.vmap(lambda *t: flex_attention(*t, block_mask=blocks))(q, k, v)

    for seed in range(2):
        several = [torch.stack(pair) for pair in zip(inputs(48, seed=seed), inputs(48, seed=seed + 9), strict=True)]
        expected = torch.stack([written_out(*(t[n] for t in several), MASKS["window"])[0] for n in range(2)])
        check(attention(*several), expected.float())


def test_numbers_that_change():
    blocks = blocks_of(MASKS["window"])

    @saker.compile
    def attention(q, k, v, number):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * number + (i - j) / 9, block_mask=blocks)

    for number in (0.5, 2.0, 0.75, 0.5):
        tensors = inputs()
        expected = outcome(
            lambda *t, n=number: written_out(*t, MASKS["window"], lambda s, b, h, i, j: s * n + (i - j) / 9), tensors
        )
        check(outcome(lambda *t, n=number: attention(*t, n), tensors), expected)


def test_values_of_another_width():
    blocks = blocks_of(MASKS["blind rows"])
    compiled = saker.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))
    for seed in range(2):
        q, k, v = inputs(seed=seed)
        tensors = [q, k, torch.cat([v, v.sin(), v.cos()], -1)]
        check(outcome(compiled, tensors), outcome(lambda *t: written_out(*t, MASKS["blind rows"]), tensors))


def test_nothing_is_wrong_under_autocast():
    blocks = blocks_of(MASKS["window"])

    @saker.compile
    def attention(q, k, v):
        with torch.autocast("cpu", torch.bfloat16):
            return flex_attention(q, k, v, block_mask=blocks)

    for seed in range(2):
        tensors = inputs(seed=seed)
        found, expected = attention(*tensors), written_out(*tensors, MASKS["window"])[0]
        assert found.dtype is torch.bfloat16
        torch.testing.assert_close(found.double(), expected, rtol=0.05, atol=0.05)


def test_deferred():
    blocks = blocks_of(MASKS["window"])
    for seed in range(2):
        tensors = inputs(seed=seed)
        with saker.deferred():
            found = flex_attention(*tensors, block_mask=blocks)
        check(found, written_out(*tensors, MASKS["window"])[0].float())
