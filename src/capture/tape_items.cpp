// Numbers that are read out of tensors of no dimensions: where they come from, so that guards can compute them before a
// replay, and those that PyTorch itself reads where a program gives a tensor for a number (`alpha=rate`).
#include <algorithm>
#include <cmath>

#include "capture/plain.h"
#include "capture/tape.h"
#include "ops/operator.h"

namespace saker::tracing {

namespace {

bool isScalarOnCpu(const at::Tensor& tensor) {
  bool real = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
  return real && tensor.device().is_cpu() && tensor.dim() == 0 && !tensor.is_neg() &&
         isPlain(tensor, c10::DispatchKey::ZeroTensor);
}

double held(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  return tensor.scalar_type() == at::kFloat ? *static_cast<const float*>(data) : *static_cast<const double*>(data);
}

std::optional<double> constant(const ir::Arg& arg) {
  if (arg.kind() == ir::Arg::Kind::Float) return arg.toFloat();
  if (arg.kind() == ir::Arg::Kind::Int) return static_cast<double>(arg.toInt());
  return std::nullopt;
}

// Adds one number to each of the tensors that it is given first.
struct Addition {
  const ir::Arg& to;
  const ir::Arg& what;
};

std::optional<Addition> additionOf(const ir::Node* node) {
  const ops::Operator* op = ops::of(node);
  if (!op || node->args().size() < 2) return std::nullopt;
  std::string_view name = op->qualified;
  if (name != "aten::add_.Tensor" && name != "aten::add_.Scalar" && name != "aten::_foreach_add_.Scalar" &&
      name != "aten::_foreach_add_.Tensor") {
    return std::nullopt;
  }
  if (node->args().size() > 2 && constant(node->args()[2]) != 1.0) return std::nullopt;
  return Addition{node->args()[0], node->args()[1]};
}

bool isRead(const ir::Use& use, const ir::Node* node) {
  std::optional<Addition> addition = additionOf(node);
  return addition && use.slot == &addition->what;
}

}  // namespace

void Tape::noteEntered(const at::Tensor& tensor, const ir::Value* value) {
  if (isScalarOnCpu(tensor)) entered_.emplace(value, held(tensor));
}

// The number in a tensor that the program has written (`torch.tensor(1.0)`) and given to nothing but additions.
std::optional<double> Tape::writtenNumber(const ir::Value* value) const {
  auto onlyAdded = [](const ir::Value* each, const ir::Node* maker) {
    for (const ir::Use* use = each->firstUse(); use; use = use->next) {
      if (use->user != maker && !isRead(*use, use->user)) return false;
    }
    return true;
  };
  const ir::Node* copy = value->def();
  if (copy) {
    const ops::Operator* op = ops::of(copy);
    if (!op || op->qualified != "aten::clone" || !copy->args()[0].isValue() || !onlyAdded(value, nullptr)) return {};
    value = copy->args()[0].toValue();
  }
  at::Tensor data = literalData(value);
  if (!data.defined() || !isScalarOnCpu(data) || !onlyAdded(value, copy)) return std::nullopt;
  return held(data);
}

std::optional<Tape::ItemSource> Tape::sourceOfItem(const sym::Node* item) const {
  auto found = itemOf_.find(item);
  if (found == itemOf_.end()) return std::nullopt;
  const Item& read = found->second;
  const ir::Value* value = read.node->args()[0].toValue();
  auto entered = entered_.find(value);
  if (entered == entered_.end()) return std::nullopt;
  std::vector<std::pair<uint32_t, double>> added;  // by node
  for (const ir::Use* use = value->firstUse(); use; use = use->next) {
    std::optional<Addition> addition = additionOf(use->user);
    if (!addition || use->user->id() > read.node->id()) continue;
    bool isTo = use->slot == &addition->to;
    if (addition->to.isList()) {
      std::span<const ir::Arg> list = addition->to.toList();
      isTo = use->slot >= list.data() && use->slot < list.data() + list.size();
    }
    std::optional<double> number =
        addition->what.isValue() ? writtenNumber(addition->what.toValue()) : constant(addition->what);
    if (isTo && !number) return std::nullopt;
    if (isTo) added.emplace_back(use->user->id(), *number);
  }
  std::sort(added.begin(), added.end());
  // Whatever else writes there, by another name too, has been counted.
  if (added.size() != read.writes) return std::nullopt;
  ItemSource source{read.tensor, {}};
  for (const auto& [node, number] : added) source.added.push_back(number);
  double now = ItemSource::compute(entered->second, source.added, read.tensor.scalar_type() == at::kFloat);
  bool same = now == read.value || (std::isnan(now) && std::isnan(read.value));
  return same ? std::optional(source) : std::nullopt;
}

double Tape::ItemSource::compute(double number, std::span<const double> added, bool single) {
  for (double each : added) {
    number = single ? static_cast<float>(number) + static_cast<float>(each) : number + each;
  }
  return number;
}

void Tape::expectReads(std::string function, std::span<const at::Tensor> maybe) {
  if (!expectedNumbers_) expectedNumbers_.emplace(ExpectedNumbers{std::move(function), {}});
  expectedNumbers_->maybe.assign(maybe.begin(), maybe.end());
}

void Tape::begins(const c10::OperatorHandle& op) {
  if (!expectedNumbers_ || expectedNumbers_->maybe.empty()) return;
  const std::string& name = op.operator_name().name;
  if (name != "aten::item" && name != "aten::_local_scalar_dense") expectedNumbers_->maybe.clear();
}

bool Tape::readsForOperator(const Call& call) {
  if (!expectedNumbers_ || expectedNumbers_->maybe.empty() || spoiled_) return false;
  if (call.op.operator_name().name != "aten::_local_scalar_dense") return false;
  const at::Tensor asked = call.values[0].toTensor();
  std::vector<at::Tensor>& maybe = expectedNumbers_->maybe;
  auto given = std::find_if(maybe.begin(), maybe.end(), [&](const at::Tensor& each) { return each.is_same(asked); });
  if (given == maybe.end() || !isReadableNumber(asked) || readsLiteral(call)) return false;
  maybe.erase(given);
  auto memory = storages_.find(asked.storage().unsafeGetStorageImpl());
  if (memory != storages_.end() && !memory->second.filled) spoil(Why::MemoryUnwritten);
  ir::Value* value = valueOf(asked);
  runBelow(call);
  double number = call.stack->back().toDouble();
  if (!spoiled_) expectedNumbers_->given.push_back({{number}, {appendItem(asked, value, number)}, {}});
  return true;
}

}  // namespace saker::tracing
