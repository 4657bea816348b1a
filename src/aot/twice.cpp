#include "aot/twice.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/alias.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/interpreter.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using torch::autograd::variable_list;

// Stands where the recording's backward begins.
struct ForwardIsDone {};

class ForwardRun final : public runtime::Interpreter {
 public:
  ForwardRun(const Plan& plan, sym::Assignment symbols)
      : Interpreter(*plan.joint.recording->graph, std::move(symbols)), plan_(plan) {}
  c10::IValue opaque(const ir::OpaqueRef& reference) override {
    return plan_.joint.recording->objects.at(reference.number);
  }

 protected:
  void call(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack) override {
    if (node.id() >= plan_.joint.forwardNodes) throw ForwardIsDone{};
    const std::vector<bool>& modes = plan_.joint.recording->gradModes;
    c10::AutoGradMode mode(node.id() >= modes.size() || modes[node.id()]);
    handle.callBoxed(&stack);
  }

 private:
  const Plan& plan_;
};

// The random stream as it was at the call, and as it is afterwards.
class Rewound {
 public:
  explicit Rewound(const at::Tensor& state) {
    if (!state.defined()) return;
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
    std::lock_guard held(generator.mutex());
    kept_ = generator.get_state();
    generator.set_state(state);
  }
  ~Rewound() {
    if (!kept_.defined()) return;
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
    std::lock_guard held(generator.mutex());
    generator.set_state(kept_);
  }
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;

 private:
  at::Tensor kept_;
};

// What a tensor subclass was asked was recorded below autograd, which cannot follow it any more.
[[noreturn]] void refuse(bool createGraph) {
  throw std::runtime_error(
      createGraph
          ? "the backward of a function that was compiled on the tensors inside of subclasses cannot be "
            "differentiated (create_graph=True)"
          : "a result that is a plain tensor is given a gradient that is none, and the function was compiled on the "
            "tensors inside of subclasses");
}

}  // namespace

variable_list gradientsByAutograd(const Plan& plan, const std::vector<at::Tensor>& primals,
                                  const variable_list& tangents, const at::Tensor& generator) {
  const Joint& joint = plan.joint;
  const ir::Graph& graph = *joint.recording->graph;
  bool createGraph = c10::GradMode::is_enabled();
  std::vector<bool> written(joint.callers());
  for (const Write& write : joint.writes) written[write.caller] = true;
  for (size_t i = 0; i < written.size(); ++i) written[i] = written[i] || joint.versions[i] != 0;
  std::vector<Edge> roots, wanted;
  variable_list given;
  {
    c10::AutoGradMode on(true);
    c10::impl::ExcludeDispatchKeyGuard withoutAutocast(c10::autocast_dispatch_keyset);  // casts are in the recording
    Rewound rewound(generator);
    // Behind a node of its own each: a primal may be computed from another one.
    std::vector<at::Tensor> inputs;
    std::vector<Edge> edges(joint.callers());
    for (size_t i = 0; i < primals.size(); ++i) {
      const at::Tensor& primal = primals[i];
      bool copied = written[joint.sources[i].caller];
      inputs.push_back(copied ? primal.clone() : primal.requires_grad() ? at::alias(primal) : primal);
      if (inputs.back().requires_grad()) {
        edges[joint.sources[i].caller] = torch::autograd::impl::gradient_edge(inputs.back());
      }
    }
    std::vector<at::Tensor> placed(graph.top()->parameters().size());
    for (size_t i = 0; i < inputs.size(); ++i) placed[joint.recordedPlace[i]] = inputs[i];
    sym::Assignment symbols = runtime::bindSymbols(*joint.program->graph, inputs);
    ForwardRun run(plan, std::move(symbols));
    for (size_t i = 0; i < placed.size(); ++i) {
      if (placed[i].defined()) run.set(graph.top()->parameters()[i], placed[i]);
    }
    try {
      run.run();
    } catch (const ForwardIsDone&) {
    }
    size_t tangent = 0;
    for (size_t i = 0; i < joint.results.size(); ++i) {
      if (!joint.results[i].differentiable) continue;
      const std::vector<bool>& reaches = joint.reaches[tangent];
      const at::Tensor& direction = tangents[tangent++];
      if (!direction.defined()) continue;
      at::Tensor result = run.returned(graph.top()->terminator()->arg(i)).toTensor();
      if (!result.requires_grad()) {
        if (std::find(reaches.begin(), reaches.end(), true) != reaches.end()) refuse(createGraph);
        continue;
      }
      roots.push_back(torch::autograd::impl::gradient_edge(result));
      given.push_back(direction);
    }
    for (size_t caller : joint.gradientOf) wanted.push_back(edges[caller]);
  }
  variable_list gradients(wanted.size());
  std::vector<Edge> asked;
  std::vector<size_t> places;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i].function) continue;
    asked.push_back(wanted[i]);
    places.push_back(i);
  }
  if (roots.empty() || asked.empty()) return gradients;
  variable_list found = torch::autograd::Engine::get_default_engine().execute(
      roots, given, /*keep_graph=*/createGraph, createGraph, /*accumulate_grad=*/false, asked);
  for (size_t i = 0; i < found.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

}  // namespace saker::aot
