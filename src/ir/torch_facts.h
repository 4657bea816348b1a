// What PyTorch does in some of its versions and not in others, where rules of operators depend on it. Contexts point to
// the facts of the torch that is there (src/aten/torch_version); without one, to the newest one's, the defaults here.
#pragma once

namespace saker::ir {

struct TorchFacts {
  bool complexOfBFloat16 = true;    // 2.14: bf16 with a complex number is bc32, before c64
  bool groupNormMakesDense = true;  // 2.14: group norm on the CPU takes any strides, but no channels without elements
  bool polarTakesHalf = true;       // 2.14: polar makes c32 of f16
  bool softShrinkRounds = true;     // 2.14: the bound of softshrink is rounded to the dtype of the tensor
  bool clampTakesIntegers = true;   // 2.15: clamp and its like take u16, u32, u64, and bounds that do not fit into them
  bool cubicGridsInSpace = true;    // 2.15: grid_sampler interpolates bicubically in three dimensions
};

extern const TorchFacts kNewestTorch;

}  // namespace saker::ir
