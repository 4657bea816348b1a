#include "aot/pipeline.h"

#include <algorithm>

#include "aot/retrace.h"
#include "autograd/checkpoint.h"
#include "ir/clone.h"
#include "passes/regions.h"
#include "runtime/argument_names.h"
#include "runtime/shown.h"
#include "symbolic/context.h"

namespace saker::aot {

namespace {

using passes::Stage;
using passes::Stages;

void refuse(const std::string& why) {
  if (!why.empty()) throw NotAheadOfTime(Why::StageFailed, why);
}

// Sizes of arguments that are symbols.
std::vector<tracing::DynamicSize> changingSizes(const runtime::Program& program) {
  std::vector<tracing::DynamicSize> out;
  std::span<ir::Value* const> parameters = program.graph->top()->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ir::TensorType* type = parameters[i]->tensor();
    if (program.sources[i].kind != runtime::Source::Kind::Argument || !type || !type->symbolic) continue;
    for (size_t d = 0; d < type->rank; ++d) {
      const sym::Node* size = type->size(d).node();
      if (!size || !size->isSymbol()) continue;
      out.push_back({program.sources[i].argument, d, program.context->symbols().symbolOf(size).name});
    }
  }
  return out;
}

// What was asked of sizes for a backward that cannot be captured is forgotten.
class AskedOfSizes {
 public:
  explicit AskedOfSizes(ir::Context& context) : symbols_(context.symbols()), before_(symbols_.checkpoint()) {}
  ~AskedOfSizes() {
    if (before_) symbols_.rollback(*before_);
  }
  AskedOfSizes(const AskedOfSizes&) = delete;
  AskedOfSizes& operator=(const AskedOfSizes&) = delete;
  void keep() { before_.reset(); }

 private:
  sym::Context& symbols_;
  std::optional<sym::Context::Checkpoint> before_;
};

bool hasBodies(const ir::Graph& graph) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->regions().empty()) return true;
  }
  return false;
}

std::vector<at::Tensor> run(const runtime::Program& recording, const std::vector<at::Tensor>& standIns) {
  std::vector<at::Tensor> out;
  for (c10::IValue& value : runtime::run(recording, standIns, /*guarded=*/true)) {
    out.push_back(std::move(value).toTensor());
  }
  return out;
}

void differentiate(Differentiation& joint, const Callee& function, Stages& stages) {
  if (passes::isOff(Stage::Differentiate)) {
    throw NotAheadOfTime(Why::SwitchedOff, std::string(nameOf(Stage::Differentiate)));
  }
  stages.run(Stage::Differentiate, "joint", [&] { return &joint.run(function); });
}

}  // namespace

void differentiate(const tracing::Host& host, std::span<const at::Tensor> arguments, const Callee& function,
                   const JointOptions& options, Stages& stages) {
  Differentiation joint(host, arguments, options);
  differentiate(joint, function, stages);
}

std::shared_ptr<CompiledFunction> compile(const tracing::Host& host, std::span<const at::Tensor> arguments,
                                          const Callee& function, const JointOptions& options,
                                          const autograd::PartitionOptions& partition, Stages& stages) {
  std::shared_ptr<Plan> plan;
  {
    Differentiation joint(host, arguments, options);
    differentiate(joint, function, stages);
    stages.run(Stage::Functional, "joint", [&] { return &joint.makeFunctional(); });
    plan = std::make_shared<Plan>(joint.take());
    plan->native = options.native;
  }
  bool training = plan->joint.training;
  bool mayDropCopies = !training || partition.strategy == autograd::Strategy::MinCut;
  refuse(stages.run(Stage::Simplify, "joint", *plan->joint.program->graph,
                    mayDropCopies ? passes::kSimplify : passes::kSimplifyKeepingCopies));
  if (training) {
    stages.run(Stage::Cut, "backward", [&] { return plan->cutInTwo(partition), plan->cut.backward.get(); });
    refuse(stages.run(Stage::Simplify, "forward", *plan->cut.forward, passes::kSimplify));
    refuse(stages.run(Stage::Simplify, "backward", *plan->cut.backward, passes::kSimplify));
  }
  stages.run(Stage::Prepare, "forward", [&] { return plan->prepare(), &plan->forwardGraph(); });
  return std::make_shared<CompiledFunction>(std::move(plan));
}

namespace {

// `graph` is that of the recording, or one that does the same.
std::shared_ptr<CompiledFunction> compileAs(const tracing::Host& host, const runtime::Program& recording,
                                            const ir::Graph& graph, std::span<const at::Tensor> inputs,
                                            Stages& stages) {
  JointOptions options;
  options.dynamic = changingSizes(recording);
  options.names = runtime::argumentNames(recording);
  options.native = recording.native;
  bool symbolic = !options.dynamic.empty();
  // Nodes with bodies are called as one operator each, and what is in a checkpoint stays so, which the executable does
  // not do.
  bool interpreted = symbolic || hasBodies(graph) || autograd::hasCheckpoints(graph);
  if (interpreted) options.context = recording.context;
  std::vector<bool> written = runtime::writtenParameters(*recording.graph);
  options.writesNone = std::find(written.begin(), written.end(), true) == written.end();
  auto function = [&](const std::vector<at::Tensor>& standIns) {
    return Returned{interpreted ? retrace(recording, graph, *tracing::current(), standIns) : run(recording, standIns)};
  };
  AskedOfSizes asked(*recording.context);
  auto compiled = compile(host, inputs, function, options, {}, stages);
  asked.keep();
  return compiled;
}

// What is smaller is differentiated in less time than it takes to look for what is repeated.
constexpr size_t kLeastNodes = 24;

// Equal regions as calls, which are differentiated once; nullptr: there are none.
std::unique_ptr<ir::Graph> withSharedRegions(const ir::Graph& graph) {
  if (graph.liveNodes() < kLeastNodes && !passes::hasRegions(graph)) return nullptr;
  std::unique_ptr<ir::Graph> made = ir::clone(graph);
  return passes::outlineShared(*made) ? std::move(made) : nullptr;
}

}  // namespace

std::shared_ptr<CompiledFunction> compile(const tracing::Host& host, const runtime::Program& recording,
                                          std::span<const at::Tensor> inputs, Stages& stages) {
  if (std::unique_ptr<ir::Graph> shared = withSharedRegions(*recording.graph)) {
    Stages own;
    try {
      auto compiled = compileAs(host, recording, *shared, inputs, own);
      stages.add(own);
      return compiled;
    } catch (const std::exception&) {  // if there is a reason, it is told below, of the recording as it is
    }
  }
  return compileAs(host, recording, *recording.graph, inputs, stages);
}

}  // namespace saker::aot
