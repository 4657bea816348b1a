"""What Saker can show today: a graph as text, checked, transformed and printed; and what operators would return."""

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


def main() -> None:
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
    print(f"{len(saker.ops.operators())} operators in the table")


if __name__ == "__main__":
    main()
