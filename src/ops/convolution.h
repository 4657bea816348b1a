// What a convolution and its backward have in common: the arguments, their checks, and which kernels ATen chooses.
#pragma once

#include "ops/shape.h"

namespace saker::ops {

// The arguments of a convolution, lists brought to one value per spatial dimension.
struct Convolution {
  const TensorType* input;
  const TensorType* weight;
  Dims stride, padding, dilation, outputPadding;
  bool transposed = false;
  Int groups = 1;
  bool byLibrary = false;                // oneDNN was asked for by name
  bool withoutCudnn = false;             // cuDNN was ruled out
  const TensorType* gradient = nullptr;  // of the output, in a backward

  size_t spatial() const { return input->rank - 2; }
  Int outputChannels() const { return transposed ? weight->size(1) * groups : weight->size(0); }
};

// Refuses what eager refuses, except for what depends on a bias.
void checkConvolution(Infer& in, const Convolution& conv);
Dims outputSizes(const Convolution& conv);

// The memory formats of the tensors that the chosen kernels make. Convolutions of one spatial dimension run as ones of
// two; the formats are those of the four-dimensional tensors then.
struct ConvolutionFormats {
  bool library = false;  // oneDNN or cuDNN, as opposed to ATen's own loops
  MemoryFormat output = MemoryFormat::Contiguous;
  MemoryFormat gradInput = MemoryFormat::Contiguous;
  MemoryFormat gradWeight = MemoryFormat::Contiguous;
};
ConvolutionFormats chooseFormats(Infer& in, const Convolution& conv, IntSpan outputSizes);
// Does oneDNN (on CPU) or cuDNN (on CUDA) compute this one?
bool usesLibrary(const Infer& in, const Convolution& conv);

// A fresh tensor of a convolution: `format` counts for the four-dimensional form where there is one spatial dimension.
void convolutionResult(Infer& in, IntSpan sizes, MemoryFormat format, const TensorType& like);

}  // namespace saker::ops
