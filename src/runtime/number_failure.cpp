#include "runtime/number_failure.h"

#include <atomic>
#include <vector>

#include "aten/call_node.h"

namespace saker::runtime {

namespace {

std::atomic<NumberFailure> raisePython = nullptr;

// nullptr: Python's function never raises, or is none of these.
const char* nameOf(sym::FloatOp op) {
  using sym::FloatOp;
  switch (op) {
    case FloatOp::Div:
      return "truediv";
    case FloatOp::Pow:
      return "pow";
    case FloatOp::Sqrt:
      return "sqrt";
    case FloatOp::Exp:
      return "exp";
    case FloatOp::Log:
      return "log";
    case FloatOp::Log2:
      return "log2";
    case FloatOp::Sin:
      return "sin";
    case FloatOp::Cos:
      return "cos";
    case FloatOp::Tan:
      return "tan";
    case FloatOp::Asin:
      return "asin";
    case FloatOp::Acos:
      return "acos";
    case FloatOp::Sinh:
      return "sinh";
    case FloatOp::Cosh:
      return "cosh";
    default:
      return nullptr;
  }
}

}  // namespace

void setNumberFailure(NumberFailure raise) { raisePython.store(raise, std::memory_order_release); }

void failWithoutNumber(const sym::Node* node, const sym::Flat& flat, Sizes& sizes) {
  std::vector<double> operands;
  for (const sym::Node* operand : node->args()) {
    std::optional<uint32_t> cell = flat.find(operand);
    if (!cell) aten::failWithoutValue(node);
    const sym::Cell& value = sizes.value(*cell);
    if (!value.known) failWithoutNumber(operand, flat, sizes);
    operands.push_back(value.number);
  }
  NumberFailure raise = raisePython.load(std::memory_order_acquire);
  const char* name = node->kind == sym::Kind::Float ? nameOf(static_cast<sym::FloatOp>(node->value)) : nullptr;
  if (raise && name) raise(name, operands);
  aten::failWithoutValue(node);
}

}  // namespace saker::runtime
