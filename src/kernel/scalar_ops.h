// What each operation of a kernel gives for single numbers: the meaning that generated code is compared with.
#pragma once

#include <cstdint>

#include "kernel/kernel.h"

namespace saker::kernel {

// A number of any type as its type lays it in memory, zero-extended.
using Bits = uint64_t;

// `operands` have the type `from`; of select, the second and the third have the type of the node.
Bits compute(const Node& node, DType from, const Bits* operands);
Bits convertBits(DType from, DType to, Bits bits);

// Reductions of floats are taken with more digits than their type has, and rounded once.
struct Accumulator {
  long double number;
  Bits bits;
};
Accumulator identity(Reduction reduction, DType dtype);
void accumulate(Accumulator& into, Reduction reduction, DType dtype, Bits value);
Bits result(const Accumulator& accumulator, Reduction reduction, DType dtype);

}  // namespace saker::kernel
