// The numbers of a kernel before they are put in order: a graph without doubles, in which each number knows whether it
// differs between the steps of the loop over what is reduced, and how many loops must have run before it is there.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "kernel/kernel.h"
#include "symbolic/int.h"

namespace saker::lower {

// A float that is given to a kernel.
struct Number {
  uint32_t argument;
  sym::Float value;
  bool single;  // as f32
};

// Sizes and strides that change are arguments of the kernel, in the order in which they were met.
class Arguments {
 public:
  kernel::Extent extent(sym::Int value);
  sym::Int value(const kernel::Extent& extent) const {
    return extent.isNumber() ? sym::Int(extent.number) : values_[extent.argument];
  }
  const std::vector<sym::Int>& values() const { return values_; }

  // A float is an argument too: its bits, as f64 or f32. Among the values a number stands for it.
  uint32_t number(sym::Float value, bool single);
  const std::vector<Number>& numbers() const { return numbers_; }

 private:
  std::vector<sym::Int> values_;
  std::vector<Number> numbers_;
};

inline kernel::Node line(kernel::Op op, ir::DType dtype) {
  kernel::Node node;
  node.op = op;
  node.dtype = dtype;
  return node;
}

struct Expression {
  kernel::Node node;    // operands are numbers of expressions
  bool inLoop = false;  // differs between the steps of the loop
  uint32_t level = 0;   // loops that must have run before
};

class Expressions {
 public:
  // The number of the expression; of an equal one that is there already.
  uint32_t add(const kernel::Node& node, const std::vector<bool>& reducedAxes);
  const Expression& operator[](uint32_t id) const { return all_[id]; }
  Expression& operator[](uint32_t id) { return all_[id]; }
  size_t size() const { return all_.size(); }
  // The number that a constant is, if it is one.
  bool isConstant(uint32_t id) const { return all_[id].node.op == kernel::Op::Constant; }

 private:
  std::vector<Expression> all_;
  std::unordered_multimap<uint64_t, uint32_t> byHash_;
};

}  // namespace saker::lower
