// From the body of a fused group to kernels: what to launch, in order, and which memory each launch gets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kernel/kernel.h"
#include "lower/expressions.h"
#include "symbolic/int.h"

namespace saker::lower {

// What a buffer of a kernel is. Pointers are to the first element: strides are in the kernel.
struct Operand {
  // A flag is a bool that is false before, and that the kernel sets where eager mode would raise: what it computes
  // counts for nothing then, and the operators are to be called.
  enum class Kind : uint8_t { Parameter, Result, Temporary, Flag } kind;
  uint32_t number;  // among the operands of the node, its results, or the temporaries of the group; of flags 0
  bool operator==(const Operand&) const = default;
};

struct Launch {
  kernel::Kernel kernel;
  std::vector<Operand> buffers;
  std::vector<sym::Int> arguments;  // integers that the kernel is given
  std::vector<Number> numbers;      // and those of them that are the bits of floats
  sym::Int steps = 1;               // of axis 0
  sym::Int work = 0;                // hundredths of a nanosecond, about, of one thread with wide vectors
  sym::Int bytesRead = 0;           // of tensors, each counted once and whole
  sym::Int bytesWritten = 0;
};

struct Temporary {
  ir::DType dtype;
  sym::Int elements;
};

struct Lowered {
  std::vector<Launch> launches;
  std::vector<Temporary> temporaries;
  std::string reason;  // why there are no kernels; empty: there are
  bool ok() const { return reason.empty(); }
};

// `group` is a saker::fused. Leaves no guards.
Lowered lower(const ir::Node& group);
// Kernels as text, with what their buffers are.
std::string describe(const Lowered& lowered);

}  // namespace saker::lower
