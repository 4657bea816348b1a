"""Functions that move more than they compute, on tensors of 1 to 64 MB: replays against eager mode, with page faults.

Values inside of a replay lie in memory that is kept from call to call; eager mode gives it back to the system and takes
it again, as the allocator decides.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

import saker


def rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    def turned(x: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return torch.cat((-right, left), -1)

    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(mask, float("-inf")) * 0.125, -1)


def norm_swiglu(x: Tensor, weight: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
    return torch.nn.functional.silu(h * gate) * (h * up)


def problems(megabytes: int) -> dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]]:
    numbers = megabytes * 2**20 // 4
    length, side = numbers // (8 * 64), int((numbers / 4) ** 0.5)
    heads = [torch.randn(1, 8, length, 64) for _ in range(2)]
    angles = [torch.randn(1, 1, length, 64) for _ in range(2)]
    rows = [torch.randn(512) for _ in range(3)]
    return {
        "rotary embedding": (rotary, (*heads, *angles)),
        "masked softmax": (masked_softmax, (torch.randn(1, 4, side, side), torch.rand(1, 1, side, side) > 0.5)),
        "RMSNorm, SwiGLU": (norm_swiglu, (torch.randn(numbers // 512, 512), *rows)),
    }


def measure(fn: Callable[..., object], args: tuple[Tensor, ...], calls: int) -> tuple[float, float]:
    """Seconds and page faults of a call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        fn(*args)
        times.append(time.perf_counter() - start)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return statistics.median(times), faults / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[1, 6, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'':26}{'eager':>12}{'faults':>10}{'replay':>12}{'faults':>10}{'replay/eager':>14}")
    with torch.no_grad():
        for megabytes in options.megabytes:
            for name, (fn, args) in problems(megabytes).items():
                compiled = saker.compile(fn)
                compiled(*args)
                torch.testing.assert_close(compiled(*args), fn(*args), rtol=0, atol=0)
                # Turn by turn: both see the same noise.
                rounds = [(measure(fn, args, 9), measure(compiled, args, 9)) for _ in range(options.rounds)]
                eager, replay = (statistics.median(each[i][0] for each in rounds) for i in range(2))
                faults = [statistics.median(each[i][1] for each in rounds) for i in range(2)]
                print(
                    f"{megabytes:3} MB {name:19}{eager * 1e3:9.2f} ms{faults[0]:10.0f}{replay * 1e3:9.2f} ms"
                    f"{faults[1]:10.0f}{replay / eager:14.2f}"
                )


if __name__ == "__main__":
    main()
