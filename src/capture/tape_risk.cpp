// Which operators of a tape may end a replay in the middle, and what has been done by then that cannot be taken back.
#include "capture/tape.h"
#include "ops/functional_form.h"
#include "ops/operator.h"

namespace saker::tracing {

namespace {

bool isOf(const Call& call, std::string_view space) { return call.op.operator_name().name.starts_with(space); }

bool isUsers(const Call& call, const Entry* entry) { return !entry && !isOf(call, "aten::") && !isOf(call, "saker::"); }

// Indexing gives a size that depends on data where an index is a mask.
bool hasMask(const Call& call) {
  auto isMask = [](const c10::IValue& value) {
    if (!value.isTensor() || !value.toTensor().defined()) return false;
    at::ScalarType type = value.toTensor().scalar_type();
    return type == at::kBool || type == at::kByte;
  };
  for (const c10::IValue& value : call.values) {
    if (!value.isList()) continue;
    for (const c10::IValue& each : value.toListRef()) {
      if (isMask(each)) return true;
    }
  }
  return false;
}

bool drawsFromDefault(const Call& call) {
  bool own = true;
  for (const c10::IValue& value : call.values) own &= !value.isGenerator() || !value.toGenerator().defined();
  eachTensor(call.values, [&](const at::Tensor& tensor) { own &= tensor.is_cpu(); });
  return own;
}

// Batch normalization that only reads its running statistics.
bool isEvaluation(const ops::Operator& op, const Call& call) {
  std::optional<size_t> training = ops::trainingArgument(op);
  return training && call.values[*training].isBool() && !call.values[*training].toBool();
}

}  // namespace

// What the program has done before it, where it may end a replay.
std::optional<Tape::Around> Tape::noteRisk(const Call& call, const Entry* entry) {
  // Operators of the user's that give data-dependent sizes say so by a tag, and are not recorded.
  bool sizes = entry ? entry->op->has(ops::kDynamicShape) : isOf(call, "aten::");
  if (sizes && isOf(call, "aten::index")) sizes = hasMask(call);
  if (isOf(call, "saker::hook")) return std::nullopt;
  risk_.drew |= entry ? entry->op->isRandom() : !isOf(call, "saker::host") && !isOf(call, "saker::wrap");
  if (entry && !sizes && !entry->op->has(ops::kFailsOnData)) return std::nullopt;
  Around around = around_ ? around_(/*any=*/!entry) : Around{true, 0};
  risk_.any = true;
  risk_.sizes |= sizes;
  risk_.goesOnAnywhere |= around.handled;
  // What an operator of the user's has done before it fails is not known.
  risk_.goesOn |= around.handled && (risk_.firstDone || isUsers(call, entry));
  bool expects = entry && isOf(call, "saker::expect");
  risk_.expects |= expects;
  risk_.sizesGoOn |= (sizes || expects) && risk_.firstDone;
  risk_.op = expects ? "a check of data" : toString(call.op.operator_name());
  return around;
}

// A replay calls a kernel of the user's again, which does its effects again: recorded, they would be done twice; not
// recorded, what the program reads afterwards would not be known.
void Tape::refuseEffects(const Call& call, const std::optional<Around>& before) {
  if (!around_ || !before || isOf(call, "aten::") || isOf(call, "saker::")) return;
  Around after = around_(/*any=*/true);
  if (after.effects != before->effects) {
    spoil(Why::KernelChangesObjects, call.op.schema().name());
  } else if (after.frames != before->frames && before->outside > 0) {
    spoil(Why::KernelAfterEffects, call.op.schema().name());
  }
}

c10::SmallVector<Tape::Memory*, 2> Tape::memoriesWritten(const Call& call, const Entry* entry) {
  c10::SmallVector<Memory*, 2> written;
  if (entry && isEvaluation(*entry->op, call)) return written;
  const std::vector<c10::Argument>& arguments = call.op.schema().arguments();
  for (size_t i = 0; i < call.values.size(); ++i) {
    const c10::AliasInfo* alias = i < arguments.size() ? arguments[i].alias_info() : nullptr;
    if (!(entry && entry->op->writesArgument(i)) && !(alias && alias->isWrite())) continue;
    eachTensor(call.values.subspan(i, 1), [&](const at::Tensor& tensor) {
      auto found = tensor.has_storage() ? storages_.find(tensor.storage().unsafeGetStorageImpl()) : storages_.end();
      if (found != storages_.end()) written.push_back(&found->second);
    });
  }
  return written;
}

bool Tape::changesOutside(const Call& call, const Entry* entry, std::span<Memory* const> written) {
  bool users = isUsers(call, entry);
  bool stranger = entry && entry->op->isRandom() && !drawsFromDefault(call);
  bool outside = users || stranger;
  risk_.unknown |= outside;
  for (const Memory* memory : written) outside |= !memory->made;
  return outside;
}

}  // namespace saker::tracing
