#include "ops/functional_form.h"

#include <unordered_map>

namespace saker::ops {

namespace {

// Where the name does not follow from the other's.
const std::unordered_map<std::string_view, std::string_view>& irregular() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional"},
      {"aten::bernoulli_.float", "aten::bernoulli.p"},
      {"aten::floor_divide_.Tensor", "aten::floor_divide"},
      {"aten::native_batch_norm", "aten::_native_batch_norm_legit_functional"},
      {"aten::normal_", "aten::normal_functional"},
      {"aten::pow_.Tensor", "aten::pow.Tensor_Tensor"},
  };
  return table;
}

bool hasAllArguments(const Operator& functional, const Operator& op, std::vector<int>& places) {
  places.clear();
  size_t used = 0;
  for (const ir::SchemaArgument& argument : functional.parsed.arguments) {
    std::optional<size_t> place = op.parsed.indexOf(argument.name);
    if (!place && !argument.hasDefault) return false;
    places.push_back(place ? static_cast<int>(*place) : -1);
    used += place.has_value();
  }
  // Everything but out= arguments must be taken along.
  size_t taken = 0;
  for (const ir::SchemaArgument& argument : op.parsed.arguments) taken += !(argument.writes && argument.keywordOnly);
  return used == taken;
}

}  // namespace

FunctionalForm functionalForm(const Operator& op) {
  FunctionalForm form;
  std::string_view name = op.qualified;
  if (auto found = irregular().find(name); found != irregular().end()) {
    const Operator* other = find(found->second);
    if (other && hasAllArguments(*other, op, form.arguments)) form.op = other;
    return form;
  }
  if (op.variant == Variant::Inplace) {
    std::string functional = op.parsed.name.substr(0, op.parsed.name.size() - 1);
    if (!op.parsed.overload.empty()) functional += "." + op.parsed.overload;
    const Operator* other = find(functional);
    if (other && other->writes == 0 && hasAllArguments(*other, op, form.arguments)) form.op = other;
    return form;
  }
  if (op.variant == Variant::Out) {
    for (const Operator* other : all()) {
      if (other->parsed.name != op.parsed.name || other->variant != Variant::Functional) continue;
      if (hasAllArguments(*other, op, form.arguments)) {
        form.op = other;
        return form;
      }
    }
  }
  return form;
}

}  // namespace saker::ops
