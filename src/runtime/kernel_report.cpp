#include "runtime/kernel_report.h"

#include <chrono>

#include "codegen/compile.h"
#include "ir/clone.h"
#include "kernel/kernel.h"
#include "lower/fuse.h"
#include "lower/lower.h"
#include "ops/group.h"
#include "ops/operator.h"
#include "passes/pass.h"
#include "passes/stages.h"
#include "runtime/compile_queue.h"
#include "runtime/prepared.h"
#include "symbolic/context.h"

namespace saker::runtime {

namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::optional<int64_t> numberOf(const sym::Int& value, const sym::Assignment& examples) {
  if (value.isConst()) return value.constant();
  return sym::evaluateInt(value.node(), examples);
}

void noteOutside(const ir::Region& region, std::vector<std::string>& out) {
  for (const ir::Node* node = region.first(); node && !node->isReturn(); node = node->next()) {
    if (ops::isGroup(*node)) continue;
    out.push_back(node->op()->qualified);
    for (const ir::Region* body : node->regions()) noteOutside(*body, out);
  }
}

GroupReport reportGroup(const lower::FusedGroup& group, const lower::Lowered& lowered,
                        const sym::Assignment& examples) {
  GroupReport made;
  made.ended = group.ended;
  for (const ir::Node* node = group.node->regions()[0]->first(); !node->isReturn(); node = node->next()) {
    made.operators.push_back(node->op()->qualified);
  }
  for (const lower::Launch& launch : lowered.launches) {
    KernelReport& kernel = made.kernels.emplace_back();
    kernel.text = kernel::print(launch.kernel);
    kernel.bytesRead = numberOf(launch.bytesRead, examples);
    kernel.bytesWritten = numberOf(launch.bytesWritten, examples);
  }
  return made;
}

void compileAll(const std::vector<lower::Lowered>& all, FusionReport& report) {
  std::vector<const kernel::Kernel*> kernels;
  for (const lower::Lowered& lowered : all) {
    for (const lower::Launch& launch : lowered.launches) kernels.push_back(&launch.kernel);
  }
  if (kernels.empty()) return;
  Clock::time_point start = Clock::now();
  codegen::Result made = compileNow(kernels);
  report.compileMilliseconds = millisecondsSince(start);
  report.reason = made.error;
  size_t next = 0;
  for (GroupReport& group : report.groups) {
    for (KernelReport& kernel : group.kernels) {
      if (!made.ok()) return;
      kernel.milliseconds = made.kernels[next].milliseconds;
      kernel.codeBytes = made.kernels[next++].bytes;
    }
  }
}

}  // namespace

FusionReport reportKernels(const ir::Graph& graph, bool simplified, bool compiles, NativeCode native) {
  FusionReport report;
  bool functional = isFunctional(graph);
  if (!graph.top()->terminator() || !(functional || mayFuse(graph))) {
    noteOutside(*graph.top(), report.outside);
    report.reason =
        "the graph changes layouts of tensors, or more than values may be seen of an operator: its operators are "
        "called";
    return report;
  }
  std::unique_ptr<ir::Graph> copy = ir::clone(graph);
  if (functional && !simplified) {
    passes::RunResult ran = passes::run(*copy, passes::kSimplify, {});
    if (ran.error) {
      report.reason = *ran.error;
      return report;
    }
  }
  Clock::time_point start = Clock::now();
  lower::FuseOptions options;
  options.toTheBit = keepsAllBits(native);
  lower::Fusion fusion = lower::fuse(*copy, options);
  report.fuseMilliseconds = millisecondsSince(start);
  report.refused = std::move(fusion.refused);
  noteOutside(*copy->top(), report.outside);
  sym::Assignment examples = sym::exampleAssignment(copy->context().symbols());
  start = Clock::now();
  std::vector<lower::Lowered> all;
  for (const lower::FusedGroup& group : fusion.groups) all.push_back(lower::lower(*group.node));
  report.lowerMilliseconds = millisecondsSince(start);
  for (size_t i = 0; i < all.size(); ++i) report.groups.push_back(reportGroup(fusion.groups[i], all[i], examples));
  if (compiles) compileAll(all, report);
  return report;
}

}  // namespace saker::runtime
