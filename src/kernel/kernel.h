// A kernel: one loop nest over buffers, in which elements are loaded, computed, reduced and stored. It is what a group
// of fused operators becomes, and what code is generated from; it knows neither PyTorch nor a machine.
//
//   kernel(b0: f32, b1: out f32, s0: size) {
//     parallel i0 < s0
//     reduced i1 < 1024
//     vector i1
//     loop {
//       %0: f32 = load b0[1024*i0 + i1]
//       %1: f32 = reduce.max %0
//     }
//     loop {
//       %2: f32 = load b0[1024*i0 + i1]
//       %3: f32 = sub %2, %1
//       %4: f32 = exp %3
//       %5: f32 = reduce.sum %4
//     }
//     loop {
//       %6: f32 = load b0[1024*i0 + i1]
//       %7: f32 = sub %6, %1
//       %8: f32 = exp %7
//       %9: f32 = div %8, %5
//       store b1[1024*i0 + i1], %9
//     }
//   }
//
// This is a softmax over rows of 1024. README.md has the rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace saker::kernel {

using ir::DType;

inline constexpr uint32_t kNone = UINT32_MAX;

// An integer that is known when the kernel is compiled, or one of its arguments: sizes and strides that change.
struct Extent {
  int64_t number = 0;
  uint32_t argument = kNone;

  bool isNumber() const { return argument == kNone; }
  bool is(int64_t value) const { return isNumber() && number == value; }
  bool operator==(const Extent&) const = default;
};

// Indices run from 0 to `extent` (exclusive). Parallel axes come first, outermost first; then reduced ones.
struct Axis {
  Extent extent;
  bool reduced = false;
  // A parallel axis whose steps are done one after the other: what one writes, a later one may read or write again.
  bool ordered = false;
  // If set, this axis is a chunk of something longer: it ends where i[chunkOf] * extent + i reaches `total`.
  uint32_t chunkOf = kNone;
  Extent total;
};

struct Buffer {
  DType dtype = DType::Float32;
  bool written = false;
};

// Where an element lies in a buffer, counted in elements: offset + sum of stride * i[axis] + sum of stride * value.
struct Index {
  struct AxisTerm {
    uint32_t axis;
    Extent stride;
    bool operator==(const AxisTerm&) const = default;
  };
  struct ValueTerm {
    uint32_t value;  // of type i64, computed before in the same place
    Extent stride;
    bool operator==(const ValueTerm&) const = default;
  };
  Extent offset;
  std::vector<AxisTerm> axes;
  std::vector<ValueTerm> values;
  bool operator==(const Index&) const = default;
};

// enumerator, name in text, number of operands
// Operands and result have one type, unless said otherwise. Half precision is a type of loads, stores and conversions
// only: lowering converts to f32 before it computes, and back where eager mode rounds.
#define SAKER_KERNEL_OPS(X)                                                                             \
  X(Constant, "const", 0)                                                                               \
  X(AxisIndex, "index", 0)   /* i64: the index of an axis */                                            \
  X(Argument, "argument", 0) /* i64: an argument */                                                     \
  X(Load, "load", 0)         /* optional operand: a bool, where false gives zero and nothing is read */ \
  X(Store, "store", 1)       /* optional second operand: a bool, where false nothing is written */      \
  X(Reduce, "reduce", 1)                                                                                \
  X(Scan, "scan", 1)       /* a reduction of the steps of the loop up to this one */                    \
  X(Convert, "convert", 1) /* as C++ and PyTorch do: toward zero, round to even, x != 0 to bool */      \
  X(Bitcast, "bitcast", 1)                                                                              \
  X(Select, "select", 3) /* a bool and two values */                                                    \
  X(Add, "add", 2)                                                                                      \
  X(Sub, "sub", 2)                                                                                      \
  X(Mul, "mul", 2)                                                                                      \
  X(Fma, "fma", 3) /* one rounding */                                                                   \
  X(Div, "div", 2) /* floats; integers toward zero */                                                   \
  X(Rem, "rem", 2) /* as C's % and fmod */                                                              \
  X(Neg, "neg", 1)                                                                                      \
  X(Abs, "abs", 1)                                                                                      \
  X(Min, "min", 2) /* nan if one is nan */                                                              \
  X(Max, "max", 2)                                                                                      \
  X(Sqrt, "sqrt", 1)                                                                                    \
  X(Floor, "floor", 1)                                                                                  \
  X(Ceil, "ceil", 1)                                                                                    \
  X(Trunc, "trunc", 1)                                                                                  \
  X(Round, "round", 1) /* halves to even */                                                             \
  X(CopySign, "copysign", 2)                                                                            \
  X(And, "and", 2) /* bools and integers */                                                             \
  X(Or, "or", 2)                                                                                        \
  X(Xor, "xor", 2)                                                                                      \
  X(Not, "not", 1)                                                                                      \
  X(Shl, "shl", 2)                                                                                      \
  X(Shr, "shr", 2) /* arithmetic for signed types */                                                    \
  X(Eq, "eq", 2)   /* comparisons give bools; of nan all are false but ne */                            \
  X(Ne, "ne", 2)                                                                                        \
  X(Lt, "lt", 2)                                                                                        \
  X(Le, "le", 2)                                                                                        \
  X(Gt, "gt", 2)                                                                                        \
  X(Ge, "ge", 2)                                                                                        \
  X(Exp, "exp", 1) /* from here on: f32 and f64 */                                                      \
  X(Exp2, "exp2", 1)                                                                                    \
  X(Expm1, "expm1", 1)                                                                                  \
  X(Log, "log", 1)                                                                                      \
  X(Log2, "log2", 1)                                                                                    \
  X(Log10, "log10", 1)                                                                                  \
  X(Log1p, "log1p", 1)                                                                                  \
  X(Sin, "sin", 1)                                                                                      \
  X(Cos, "cos", 1)                                                                                      \
  X(Tan, "tan", 1)                                                                                      \
  X(Asin, "asin", 1)                                                                                    \
  X(Acos, "acos", 1)                                                                                    \
  X(Atan, "atan", 1)                                                                                    \
  X(Atan2, "atan2", 2)                                                                                  \
  X(Sinh, "sinh", 1)                                                                                    \
  X(Cosh, "cosh", 1)                                                                                    \
  X(Tanh, "tanh", 1)                                                                                    \
  X(Asinh, "asinh", 1)                                                                                  \
  X(Acosh, "acosh", 1)                                                                                  \
  X(Atanh, "atanh", 1)                                                                                  \
  X(Erf, "erf", 1)                                                                                      \
  X(Erfc, "erfc", 1)                                                                                    \
  X(Pow, "pow", 2)

enum class Op : uint8_t {
#define X(enumerator, name, operands) enumerator,
  SAKER_KERNEL_OPS(X)
#undef X
};
std::string_view name(Op op);
int operandCount(Op op);

// How a reduction combines values. Sums of f32 are taken in several parts, in an order that does not depend on the
// number of threads. Of no values: 0, 1, the smallest, the largest, false, true.
#define SAKER_KERNEL_REDUCTIONS(X)  \
  X(Sum, "sum")                     \
  X(Prod, "prod")                   \
  X(Max, "max") /* nan if one is */ \
  X(Min, "min")                     \
  X(Any, "any")                     \
  X(All, "all")

enum class Reduction : uint8_t {
#define X(enumerator, name) enumerator,
  SAKER_KERNEL_REDUCTIONS(X)
#undef X
};
std::string_view name(Reduction reduction);

// One line of a phase. Its number in Kernel::nodes is the value that it gives.
struct Node {
  Op op = Op::Constant;
  DType dtype = DType::Float32;                  // of the result; of a store: of what is stored
  uint32_t operands[3] = {kNone, kNone, kNone};  // values; a load's mask is the first, a store's the second
  uint64_t bits = 0;    // of a constant: the number as its type lays it in memory, zero-extended
  uint32_t at = kNone;  // axis, argument or buffer
  Index index;          // of loads and stores
  Reduction reduction = Reduction::Sum;
};

// Lines that are done for each step of the parallel axes: in a loop over all reduced axes, or once.
struct Phase {
  bool loop = false;
  uint32_t begin = 0, end = 0;  // of Kernel::nodes
};

struct Kernel {
  std::vector<Buffer> buffers;
  uint32_t arguments = 0;  // how many integers it is given
  std::vector<Axis> axes;
  uint32_t vector =
      kNone;  // the axis whose steps are done several at a time: the last parallel or the last reduced one
  std::vector<Node> nodes;
  std::vector<Phase> phases;
};

// The machine code of a kernel. Does steps [begin, end) of axis 0, and all steps of the other axes; several calls, with
// ranges that do not overlap, may run at the same time.
using Function = void (*)(void* const* buffers, const int64_t* arguments, int64_t begin, int64_t end);

// As in the example above; parse(print(kernel)) is the kernel. A kernel's text is its identity: equal texts, equal
// code.
std::string print(const Kernel& kernel);

}  // namespace saker::kernel
