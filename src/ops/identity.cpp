#include "ops/identity.h"

#include <cmath>
#include <string_view>
#include <unordered_map>

#include "ops/operator.h"

namespace saker::ops {
namespace {

bool isNumber(const ir::Arg& arg, int64_t number) {
  if (arg.kind() == ir::Arg::Kind::Int) return arg.toInt() == number;
  return arg.kind() == ir::Arg::Kind::Float && arg.toFloat() == static_cast<double>(number) &&
         !std::signbit(arg.toFloat());
}

bool isDiscrete(const ir::Node& node) {
  char category = ir::category(node.result()->tensor()->dtype);
  return category == 'b' || category == 'i';
}

bool always(const ir::Node&) { return true; }
bool toTheOne(const ir::Node& node) { return isNumber(node.arg(1), 1); }
// Of complex numbers the parts are multiplied by zero too, and infinities become NaN.
bool timesOne(const ir::Node& node) { return toTheOne(node) && !ir::isComplex(node.result()->tensor()->dtype); }
// x - 0 is x for every float; x + 0 is not: -0 + 0 is 0. Nor is x - 0 * -1, or x - 0 * inf.
bool minusZero(const ir::Node& node) {
  bool once = node.args().size() < 3 || node.arg(2).isNone() || isNumber(node.arg(2), 1);
  return isNumber(node.arg(1), 0) && once;
}
bool plusZero(const ir::Node& node) { return isDiscrete(node) && isNumber(node.arg(1), 0); }

using Rule = bool (*)(const ir::Node& node);

const std::unordered_map<const ir::OpDef*, Rule>& rules() {
  static const std::unordered_map<const ir::OpDef*, Rule> table = [] {
    std::unordered_map<const ir::OpDef*, Rule> made;
    for (auto [name, rule] : std::initializer_list<std::pair<std::string_view, Rule>>{
             {"aten::clone", always},
             {"aten::_to_copy", always},
             {"aten::lift_fresh_copy", always},
             {"aten::mul.Tensor", timesOne},
             {"aten::mul.Scalar", timesOne},
             {"aten::div.Tensor", timesOne},
             {"aten::div.Scalar", timesOne},
             {"aten::pow.Tensor_Scalar", toTheOne},
             {"aten::sub.Tensor", minusZero},
             {"aten::sub.Scalar", minusZero},
             {"aten::add.Tensor", plusZero},
             {"aten::add.Scalar", plusZero},
         }) {
      if (const Operator* op = find(name)) made.emplace(op, rule);
    }
    return made;
  }();
  return table;
}

}  // namespace

std::optional<size_t> identityArgument(const ir::Node& node) {
  auto rule = rules().find(node.op());
  if (rule == rules().end() || node.args().empty() || !node.arg(0).isValue()) return std::nullopt;
  const ir::TensorType* from = node.arg(0).toValue()->tensor();
  const ir::TensorType* to = node.result()->tensor();
  // Types are interned. The offset is part of them: views tell their place from the start of their memory.
  if (!from || from != to || from->flags.conj || from->flags.neg || !rule->second(node)) return std::nullopt;
  return 0;
}

}  // namespace saker::ops
