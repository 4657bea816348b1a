#include "ops/functional_form.h"

#include <string>
#include <unordered_map>

namespace saker::ops {

namespace {

// Where the name does not follow from the other's.
const std::unordered_map<std::string_view, std::string_view>& irregular() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"aten::__ilshift__.Scalar", "aten::__lshift__.Scalar"},
      {"aten::__ilshift__.Tensor", "aten::__lshift__.Tensor"},
      {"aten::__irshift__.Scalar", "aten::__rshift__.Scalar"},
      {"aten::__irshift__.Tensor", "aten::__rshift__.Tensor"},
      {"aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional"},
      {"aten::_fused_moving_avg_obs_fq_helper", "aten::_fused_moving_avg_obs_fq_helper_functional"},
      {"aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional"},
      {"aten::bernoulli_.float", "aten::bernoulli.p"},
      {"aten::conj_physical.out", "aten::_conj_physical"},
      {"aten::conj_physical_", "aten::_conj_physical"},
      {"aten::floor_divide_.Tensor", "aten::floor_divide"},
      {"aten::ldexp_", "aten::ldexp.Tensor"},
      {"aten::native_batch_norm", "aten::_native_batch_norm_legit_functional"},
      {"aten::normal_", "aten::normal_functional"},
      {"aten::pow_.Scalar", "aten::pow.Tensor_Scalar"},
      {"aten::pow_.Tensor", "aten::pow.Tensor_Tensor"},
      {"aten::rrelu_with_noise", "aten::rrelu_with_noise_functional"},
  };
  return table;
}

bool isOut(const ir::SchemaArgument& argument) { return argument.writes && argument.keywordOnly; }

// Tensor and Tensor? are of a kind: what is given decides.
bool sameKind(const ir::SchemaType& a, const ir::SchemaType& b) { return a.base == b.base && a.list == b.list; }

bool takesAllArguments(const Operator& functional, const Operator& op, std::vector<int>& places) {
  places.clear();
  size_t used = 0;
  for (const ir::SchemaArgument& argument : functional.parsed.arguments) {
    std::optional<size_t> place = op.parsed.indexOf(argument.name);
    if (!place && !argument.hasDefault) return false;
    if (place && !sameKind(argument.type, op.parsed.arguments[*place].type)) return false;
    places.push_back(place ? static_cast<int>(*place) : -1);
    used += place.has_value();
  }
  // Everything but out= arguments must be taken along.
  size_t taken = 0;
  for (const ir::SchemaArgument& argument : op.parsed.arguments) taken += !isOut(argument);
  return used == taken;
}

// Nothing of what it returns is memory of its arguments.
bool returnsFresh(const Operator& op) {
  if (op.writes || op.has(kMayAlias)) return false;
  for (int8_t alias : op.resultAlias) {
    if (alias >= 0) return false;
  }
  return true;
}

// The name of the operator without the underscore at its end.
std::string withoutUnderscore(const Operator& op) {
  std::string name = op.parsed.name.substr(0, op.parsed.name.size() - 1);
  return op.parsed.overload.empty() ? name : name + "." + op.parsed.overload;
}

using ByName = std::unordered_map<std::string_view, std::vector<const Operator*>>;

FunctionalForm find(const Operator& op, const ByName& functional) {
  FunctionalForm form;
  auto accept = [&](const Operator* other) {
    if (!other || !returnsFresh(*other) || !takesAllArguments(*other, op, form.arguments)) return false;
    form.op = other;
    return true;
  };
  if (auto found = irregular().find(op.qualified); found != irregular().end()) {
    accept(ops::find(found->second));
  } else if (op.variant == Variant::Inplace) {
    accept(ops::find(withoutUnderscore(op)));
  } else if (op.variant == Variant::Out) {
    if (auto found = functional.find(op.parsed.name); found != functional.end()) {
      for (const Operator* other : found->second) {
        if (accept(other)) break;
      }
    }
  }
  return form;
}

using Forms = std::unordered_map<const Operator*, FunctionalForm>;

const Forms& forms() {
  static const Forms table = [] {
    ByName functional;
    for (const Operator* op : all()) {
      if (returnsFresh(*op)) functional[op->parsed.name].push_back(op);
    }
    Forms found;
    for (const Operator* op : all()) {
      if (op->writes) found.emplace(op, find(*op, functional));
    }
    return found;
  }();
  return table;
}

}  // namespace

const FunctionalForm& functionalForm(const Operator& op) {
  static const FunctionalForm none;
  auto found = forms().find(&op);
  return found == forms().end() ? none : found->second;
}

const Operator* viewForm(const Operator& op) {
  if (op.variant != Variant::Inplace || op.cost != Cost::View) return nullptr;
  const Operator* view = ops::find(withoutUnderscore(op));
  if (!view) view = ops::find(withoutUnderscore(op) + ".int");  // transpose_ and transpose.int
  return view && view->variant == Variant::View && !view->has(kMayAlias) ? view : nullptr;
}

std::optional<size_t> trainingArgument(const Operator& op) {
  if (op.variant != Variant::Functional || op.cost != Cost::Normalization) return std::nullopt;
  return op.parsed.indexOf("training");
}

bool writesNothing(const ir::Node& node) {
  const Operator* op = of(&node);
  bool none = true;
  for (size_t i = 0; i < node.args().size(); ++i) {
    if (op->writesArgument(i)) none &= node.arg(i).isNone();
  }
  if (none) return true;
  // Batch normalization in evaluation.
  std::optional<size_t> training = trainingArgument(*op);
  return training && node.arg(*training).kind() == ir::Arg::Kind::Bool && !node.arg(*training).toBool();
}

}  // namespace saker::ops
