"""What Saker can show today: a graph as text, checked, transformed and printed; what operators would return; and a
12-layer GPT-2 that is captured, forward and backward, and run."""

import contextlib
import statistics
import time
import warnings

import torch

import saker

PROGRAM = """
symbol s0 in [2, inf]
symbol s1 in [2, 4096]
graph @attention_scores(%q: f32[s0, 8, s1, 64], %k: f32[s0, 8, s1, 64]) {
  %kt: f32[s0, 8, 64, s1]{strides: [512*s1, 64*s1, 1, 64]} = aten::transpose.int(%k, -2, -1)
  %kt2: f32[s0, 8, 64, s1]{strides: [512*s1, 64*s1, 1, 64]} = aten::transpose.int(%k, -2, -1)
  %a: f32[s0, 8, s1, 64] = aten::mul.Scalar(%q, 0.125)
  %b: f32[s0, 8, s1, 64] = aten::mul.Scalar(%q, 0.125)
  %unused: f32[s0, 8, s1, 64] = aten::sin(%b)
  %c: f32[s0, 8, s1, 64] = aten::add.Tensor(%a, %b)
  return %c, %kt2
}
"""


def captured_gpt2() -> None:
    """Needs transformers for the model; its weights are random."""
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=1000, n_positions=64, n_embd=192, n_layer=12, n_head=6, bos_token_id=0, eos_token_id=1
    )
    model = GPT2LMHeadModel(config).eval()
    parameters = list(model.parameters())
    ids = torch.randint(0, 1000, (4, 64))

    def loss_and_gradients(ids: torch.Tensor) -> list[torch.Tensor]:
        loss = model(input_ids=ids, labels=ids).loss
        return [loss, *torch.autograd.grad(loss, parameters)]

    times = []
    for _ in range(5):
        start = time.perf_counter()
        graph = saker.capture(loss_and_gradients, ids)
        functional = graph.functional()
        times.append(time.perf_counter() - start)
    first, median = times[0] * 1e3, statistics.median(times) * 1e3
    print(f"captured and made functional in {median:.0f} ms ({first:.0f} ms the first time)")
    print(f"{len(graph)} operators as recorded, {len(functional)} functional; nothing has run so far")
    lines = functional.text.splitlines()
    body = next(i for i, line in enumerate(lines) if line.endswith("{"))
    for line in lines[body + 1 : body + 7]:
        print("   ", line if len(line) <= 116 else line[:113] + "...")
    print(f"    ... {len(lines) - body - 7} more lines")

    expected = loss_and_gradients(ids)
    for name, made in (("recorded", graph), ("functional", functional)):
        results = made(ids)
        torch.testing.assert_close(results, expected)
        print(f"{name} graph run: loss {results[0]:.4f}, it and {len(results) - 1} gradients equal eager mode's")

    dynamic = saker.capture(loss_and_gradients, ids, dynamic={0: {0: "batch", 1: "length"}})
    other = torch.randint(0, 1000, (2, 17))
    torch.testing.assert_close(dynamic(other), loss_and_gradients(other))
    guards = ", ".join(dynamic.guards) or "no guards"
    print(f"captured with dynamic sizes ({guards}), run at batch 2, length 17: equal again")


def deferred_training() -> None:
    def train(block) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        x, y = torch.randn(64, 8), torch.randn(64, 1)
        for _ in range(5):
            with block():
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    same = torch.equal(train(saker.deferred), train(contextlib.nullcontext))
    print("five training steps, each recorded and run at its end: parameters are eager mode's, bit by bit:", same)


def main() -> None:
    warnings.simplefilter("ignore")
    print("--- a graph, parsed and verified, as written")
    graph = saker.parse(PROGRAM)
    graph.verify()
    print(graph.text)

    print("--- after common-subexpression and dead-code elimination")
    before = len(graph)
    graph.run_passes("cse,dce")
    print(graph.text)
    print(f"{before} nodes became {len(graph)}\n")

    print("--- a graph that is wrong is refused, with line and column")
    try:
        saker.parse(PROGRAM.replace("%unused: f32[s0", "%unused: f32[s7"))
    except saker.ParseError as error:
        print(error, "\n")

    print("--- what an operator would return, without running it")
    x = torch.empty(8, 3, 32, 32).to(memory_format=torch.channels_last)
    w = torch.empty(16, 3, 3, 3)
    inferred = saker.ops.infer(torch.ops.aten.convolution.default, x, w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)
    real = torch.nn.functional.conv2d(x, w, stride=2, padding=1)
    result = inferred.results[0]
    print("inferred:", result.dtype, result.sizes, result.strides)
    print("eager:   ", real.dtype, tuple(real.shape), real.stride())
    print(f"{len(saker.ops.operators())} operators in the table\n")

    print("--- GPT-2 with 12 layers, batch 4 x 64: the loss and the gradients of all parameters, captured in one call")
    captured_gpt2()

    print("\n--- training under saker.deferred()")
    deferred_training()


if __name__ == "__main__":
    main()
