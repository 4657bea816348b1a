#include "aot/plain_call.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "aot/check.h"
#include "aten/trace_key.h"

namespace saker::aot {

namespace {

bool doesMore(const Joint& joint) {
  auto isSet = [](auto each) { return each != 0; };
  auto isSpecial = [](const Result& result) { return result.isInput || result.versions != 0; };
  return joint.training || !joint.bases.empty() || !joint.members.empty() || !joint.userWrites.empty() ||
         !joint.writes.empty() || !joint.early.empty() || !joint.late.empty() || !joint.resizes.empty() ||
         std::any_of(joint.versions.begin(), joint.versions.end(), isSet) ||
         std::any_of(joint.historyOf.begin(), joint.historyOf.end(), isSet) ||
         std::any_of(joint.results.begin(), joint.results.end(), isSpecial);
}

// The tensors of the graph, in its order; most often these are the arguments.
std::vector<at::Tensor> primalsOf(const Joint& joint, std::vector<at::Tensor> arguments) {
  bool same = joint.sources.size() == arguments.size();
  for (size_t i = 0; same && i < arguments.size(); ++i) same = joint.sources[i].caller == i;
  if (same) return arguments;
  std::vector<at::Tensor> primals;
  primals.reserve(joint.primals);
  for (const Joint::Primal& source : joint.sources) {
    bool given = source.caller < joint.arguments;
    primals.push_back(given ? arguments[source.caller] : joint.closed[source.caller - joint.arguments]);
  }
  return primals;
}

}  // namespace

bool isPlain(const Plan& plan) {
  const Joint& joint = plan.joint;
  if (plan.symbolic || plan.detaches || doesMore(joint) || joint.outputs.size() != joint.results.size()) return false;
  for (size_t i = 0; i < joint.outputs.size(); ++i) {
    if (joint.outputs[i] != joint.callers() + i) return false;
  }
  return std::none_of(joint.sources.begin(), joint.sources.end(), [](const Joint::Primal& each) { return each.flat; });
}

std::vector<at::Tensor> callPlainly(const Plan& plan, std::vector<at::Tensor> arguments) {
  std::vector<at::Tensor> primals = primalsOf(plan.joint, std::move(arguments));
  checkPrimals(plan, primals);
  c10::AutoGradMode mode(false);  // kernels ask whether there will be a backward
  aten::BelowAutograd below;
  std::vector<at::Tensor> results = plan.forward(std::move(primals), {});
  results.resize(plan.joint.results.size());
  return results;
}

}  // namespace saker::aot
