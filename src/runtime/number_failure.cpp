#include "runtime/number_failure.h"

#include <atomic>
#include <vector>

#include "aten/call_node.h"
#include "symbolic/words.h"

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
    case FloatOp::Exp:
    case FloatOp::Log:
    case FloatOp::Log2:
    case FloatOp::Sin:
    case FloatOp::Cos:
    case FloatOp::Tan:
    case FloatOp::Asin:
    case FloatOp::Acos:
    case FloatOp::Sinh:
    case FloatOp::Cosh:
      return sym::floatFunctionName(op).data();  // a literal
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
