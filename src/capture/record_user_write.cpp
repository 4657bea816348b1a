// A call of an operator of the user's that writes: recorded as one on copies, which are then copied to where they come
// from.
#include <algorithm>

#include "aten/on_copies.h"
#include "capture/record_call.h"
#include "capture/undo.h"
#include "ops/operator.h"

namespace saker::tracing {

void CallRecorder::recordUserWrite() {
  UserWrite write = userWrite(call_);
  if (std::optional<std::string> why = whyNotOnCopies(trace_, call_, write)) {
    if (!trace_.mayBeEager()) throw ops::RefusalException{{ops::Reason::Unsupported, *why}};
    trace_.noteOnlyEager(nameOf(call_.op) + ": " + *why);
  }
  noteReads();
  std::vector<const ir::Type*> types = freshResults();
  size_t fresh = types.size();
  for (const at::Tensor& target : write.targets) {
    ir::TensorSpec copy(*trace_.valueOf(target)->tensor());
    copy.offset = 0;
    types.push_back(trace_.context()->types().tensor(copy));
  }
  const ir::OpDef* def = trace_.context()->op(aten::onCopies(call_.op).operator_name().name);
  ir::Node* node = insert(def, trace_.convert(call_, nullptr).args, types);
  for (size_t i = 0; i < write.targets.size(); ++i) copyBack(write, i, node->result(fresh + i));
  pushBesideTargets(*node, fresh);
  // A body writes to tensors of its own only (control/sketch.h), whose versions nobody sees.
  if (!trace_.outer()) trace_.noteUserWrite(std::move(write));
}

// Of results that are none of what is written.
std::vector<const ir::Type*> CallRecorder::freshResults() {
  const std::vector<c10::Argument>& returns = call_.op.schema().returns();
  auto isFresh = [](const c10::Argument& result) { return !result.alias_info(); };
  if (std::none_of(returns.begin(), returns.end(), isFresh)) return {};
  ops::Inferred inferred = inferByKernel();
  std::span<const ir::Type* const> all = inferred.results;
  std::vector<const ir::Type*> types;
  size_t next = 0;
  for (size_t i = 0; i < returns.size(); ++i) {
    bool list = returns[i].type()->kind() == c10::TypeKind::ListType;
    size_t count = list ? all.size() - (returns.size() - 1) : 1;
    for (size_t k = 0; k < count; ++k, ++next) {
      if (isFresh(returns[i])) types.push_back(all[next]);
    }
  }
  return types;
}

// Autograd sees no such write in eager mode either.
void CallRecorder::copyBack(const UserWrite& write, size_t target, ir::Value* contents) {
  static const ops::Operator* copy = ops::find("aten::copy_");
  const at::Tensor& tensor = write.targets[target];
  ir::Value* into = trace_.valueOf(tensor);
  const ir::Arg args[] = {ir::Arg::value(into), ir::Arg::value(contents), ir::Arg::boolean(false)};
  const ir::Type* types[] = {into->type()};
  ir::Node* node = insert(copy, args, types);
  ir::Attributes modes = node->attributes();
  modes.noGrad = true;
  trace_.graph().setAttributes(node, modes);
  trace_.noteWrite(tensor, {write.counted, 0});
}

void CallRecorder::pushBesideTargets(const ir::Node& node, size_t fresh) {
  const c10::FunctionSchema& schema = call_.op.schema();
  torch::jit::Stack results;
  size_t next = 0;
  for (const c10::Argument& returned : schema.returns()) {
    if (returned.alias_info()) {
      results.emplace_back(writtenAs(*returned.alias_info()));
    } else if (returned.type()->kind() == c10::TypeKind::ListType) {
      size_t others = static_cast<size_t>(std::count_if(schema.returns().begin(), schema.returns().end(),
                                                        [](const c10::Argument& r) { return !r.alias_info(); }));
      c10::List<at::Tensor> list;
      for (size_t count = fresh - (others - 1); count > 0; --count) list.push_back(result(node, next++, -1, false));
      results.emplace_back(std::move(list));
    } else {
      results.emplace_back(result(node, next++, -1, false));
    }
  }
  call_.replaceWith(std::move(results));
}

// The argument that a result is.
at::Tensor CallRecorder::writtenAs(const c10::AliasInfo& alias) const {
  const std::vector<c10::Argument>& formals = call_.op.schema().arguments();
  for (size_t i = 0; i < formals.size(); ++i) {
    bool same = formals[i].alias_info() && formals[i].alias_info()->beforeSets() == alias.beforeSets();
    if (same && call_.values[i].isTensor()) return call_.values[i].toTensor();
  }
  throw ops::RefusalException{{ops::Reason::Unsupported, "its result is an argument, which its schema does not name"}};
}

}  // namespace saker::tracing
