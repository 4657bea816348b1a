#include "ops/uniform.h"

#include <string_view>
#include <unordered_map>

#include "ops/operator.h"
#include "ops/view_inverse.h"

namespace saker::ops {
namespace {

using ir::Arg;
using ir::DType;

constexpr int64_t kExactInDouble = int64_t{1} << 53;

// The number as an element of this type holds it. Other types than these are left alone.
std::optional<Arg> fit(const Arg& number, DType dtype) {
  bool isInt = number.kind() == Arg::Kind::Int;
  if (!isInt && number.kind() != Arg::Kind::Float) return std::nullopt;
  if (dtype == DType::Int64) return isInt ? std::optional(number) : std::nullopt;
  if (isInt && (number.toInt() <= -kExactInDouble || number.toInt() >= kExactInDouble)) return std::nullopt;
  double exact = isInt ? static_cast<double>(number.toInt()) : number.toFloat();
  if (dtype == DType::Float64) return Arg::number(exact);
  if (dtype == DType::Float32) return Arg::number(static_cast<double>(static_cast<float>(exact)));
  return std::nullopt;
}

enum class Does : uint8_t { Fill, Copy, Negate, Add, Subtract, Multiply };
struct Rule {
  Does what;
  size_t argument = 0;                 // of a fill: where the number stands
  std::optional<int64_t> number = {};  // of a fill: or which it is
};

const Rule* ruleOf(const ir::Node& node) {
  static const std::unordered_map<const ir::OpDef*, Rule> table = [] {
    std::unordered_map<const ir::OpDef*, Rule> made;
    for (const auto& [name, rule] : std::initializer_list<std::pair<std::string_view, Rule>>{
             {"aten::full", {Does::Fill, 1}},
             {"aten::full_like", {Does::Fill, 1}},
             {"aten::new_full", {Does::Fill, 2}},
             {"aten::scalar_tensor", {Does::Fill, 0}},
             {"aten::zeros", {Does::Fill, 0, 0}},
             {"aten::zeros_like", {Does::Fill, 0, 0}},
             {"aten::new_zeros", {Does::Fill, 0, 0}},
             {"aten::ones", {Does::Fill, 0, 1}},
             {"aten::ones_like", {Does::Fill, 0, 1}},
             {"aten::new_ones", {Does::Fill, 0, 1}},
             {"aten::clone", {Does::Copy}},
             {"aten::_to_copy", {Does::Copy}},
             {"aten::neg", {Does::Negate}},
             {"aten::add.Tensor", {Does::Add}},
             {"aten::sub.Tensor", {Does::Subtract}},
             {"aten::mul.Tensor", {Does::Multiply}},
         }) {
      if (const Operator* op = find(name)) made.emplace(op, rule);
    }
    return made;
  }();
  auto found = table.find(node.op());
  return found == table.end() ? nullptr : &found->second;
}

template <typename T>
T computed(Does what, T a, T b) {
  return what == Does::Add ? a + b : what == Does::Subtract ? a - b : a * b;
}

// add and sub scale their second operand.
bool isScaled(const ir::Node& node) {
  return node.args().size() > 2 && !(node.arg(2).kind() == Arg::Kind::Int && node.arg(2).toInt() == 1);
}

std::optional<Arg> compute(Does what, const Arg& a, const Arg& b, DType dtype) {
  if (dtype == DType::Float32) {
    return Arg::number(computed(what, static_cast<float>(a.toFloat()), static_cast<float>(b.toFloat())));
  }
  if (dtype == DType::Float64) return Arg::number(computed(what, a.toFloat(), b.toFloat()));
  // Wraps around, as in the kernel.
  auto wrapped = [](const Arg& arg) { return static_cast<uint64_t>(arg.toInt()); };
  return Arg::integer(static_cast<int64_t>(computed(what, wrapped(a), wrapped(b))));
}

}  // namespace

std::optional<Arg> uniformResult(const ir::Node& node, const KnownNumber& known) {
  if (node.resultCount() != 1 || !node.result()->tensor() || node.args().empty()) return std::nullopt;
  const ir::TensorType& type = *node.result()->tensor();
  auto operand = [&](size_t i) -> std::optional<Arg> {
    const Arg& arg = node.arg(i);
    if (!arg.isValue()) return fit(arg, type.dtype);
    if (!arg.toValue()->tensor() || arg.toValue()->tensor()->dtype != type.dtype) return std::nullopt;
    return known(arg.toValue());
  };
  const Rule* rule = ruleOf(node);
  if (!rule) {
    bool view = of(&node) && of(&node)->writes == 0 && sharing(node, 0) != Sharing::None && node.arg(0).isValue();
    return view && !type.flags.neg ? operand(0) : std::nullopt;
  }
  switch (rule->what) {
    case Does::Fill:
      return fit(rule->number ? Arg::integer(*rule->number) : node.arg(rule->argument), type.dtype);
    case Does::Copy: {
      std::optional<Arg> from = node.arg(0).isValue() ? known(node.arg(0).toValue()) : std::nullopt;
      return from ? fit(*from, type.dtype) : std::nullopt;
    }
    case Does::Negate: {
      std::optional<Arg> from = operand(0);
      if (!from || from->kind() == Arg::Kind::Int) return std::nullopt;
      return Arg::number(-from->toFloat());
    }
    default: {
      std::optional<Arg> a = operand(0), b = operand(1);
      return a && b && !isScaled(node) ? compute(rule->what, *a, *b, type.dtype) : std::nullopt;
    }
  }
}

bool isFill(const ir::Node& node) {
  const Rule* rule = ruleOf(node);
  return rule && rule->what == Does::Fill;
}

bool mayBeNumber(const ir::Node& node, size_t argument) {
  const Rule* rule = ruleOf(node);
  bool binary = rule && (rule->what == Does::Add || rule->what == Does::Subtract || rule->what == Does::Multiply);
  if (!binary || argument != 1 || isScaled(node) || !node.arg(0).isValue() || !node.arg(1).isValue()) return false;
  const ir::TensorType *a = node.arg(0).toValue()->tensor(), *b = node.arg(1).toValue()->tensor();
  return a && b && a->dtype == b->dtype;
}

}  // namespace saker::ops
