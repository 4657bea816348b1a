"""What the watched loop costs: small pure Python programs, plain against watched by an observer that only counts.

    PYTHONPATH=python python bench/watch_loop.py [--gpt2]

The ratios are of minima over interleaved rounds. --gpt2 measures a forward of a small GPT-2 with 12 layers."""

import argparse
import gc
import importlib
import math
import os
import time

loop = importlib.import_module(os.environ.get("SAKER_WATCH_MODULE", "saker._C"))


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def calls():
    return fibonacci(16)


def integers():
    total = 0
    for i in range(20000):
        total += i * 5 % 11
    return total


def floats():
    x = 0.3
    for _ in range(15000):
        x = 3.7 * x * (1.0 - x)
    return x


class Item:
    def __init__(self, weight, after):
        self.weight = weight
        self.after = after

    def heavy(self):
        return self.weight > 100


def objects():
    last = None
    for i in range(1500):
        last = Item(i, last)
    count = 0
    while last is not None:
        if last.heavy():
            count += last.weight
        last = last.after
    return count


def attributes():
    item = Item(1, 2)
    for i in range(10000):
        x = item.weight
        item.after = i
    return x


def containers():
    squares = [i * i for i in range(3000)]
    places = {}
    for i, square in enumerate(squares):
        places[square] = i
        squares[i] = places[square] + 1
    return sorted(squares, key=lambda x: -x)[0]


def count_to(n):
    i = 0
    while i < n:
        yield i
        i += 1


def generators():
    return sum(x for x in count_to(5000))


def strings():
    return "".join(f"{i}:{i * 2}".upper().replace("1", "x") for i in range(3000))


def exceptions():
    caught = 0
    for i in range(2000):
        try:
            if i % 2:
                raise ValueError(i)
        except ValueError:
            caught += 1
    return caught


def builtins():
    total = 0
    numbers = [1, 2, 3]
    for i in range(6000):
        total += len(numbers) + isinstance(i, int) + max(i, 2)
    return total


PROGRAMS = [calls, integers, floats, objects, attributes, containers, generators, strings, exceptions, builtins]


def best(functions, rounds):
    """The least time of each, in interleaved rounds."""
    times = [math.inf] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            gc.disable()
            start = time.thread_time()
            function()
            times[i] = min(times[i], time.thread_time() - start)
            gc.enable()
    return times


def measure(name, function, rounds):
    plain, watched = best([function, lambda: loop.watch_run(function)], rounds)
    events = sum(loop.watch_run(function)[1].values())
    times = f"plain {plain * 1e3:8.3f} ms  watched {watched * 1e3:8.3f} ms  x{watched / plain:.2f}"
    print(f"{name:12s} {times}  {events} events")
    return watched / plain


def gpt2():
    import torch
    import transformers

    torch.set_num_threads(1)
    config = transformers.GPT2Config(n_layer=12, n_embd=32, n_head=4, vocab_size=128, n_positions=64)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(0, 128, (2, 16))

    def forward():
        with torch.no_grad():
            return model(ids).logits

    assert torch.equal(forward(), loop.watch_run(forward)[0])
    return forward


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpt2", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    if options.gpt2:
        measure("gpt2", gpt2(), 3 * options.rounds)
        return
    ratios = [measure(program.__name__, program, options.rounds) for program in PROGRAMS]
    print(f"geometric mean x{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
