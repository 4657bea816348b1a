#include "aot/twice.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/SequenceNumber.h>
#include <ATen/ops/alias.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "aot/sharing.h"
#include "aten/torch_version/autograd_node.h"
#include "control/interpret.h"
#include "runtime/geometry.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using torch::autograd::variable_list;

// Hands its gradient on.
struct Passing final : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
};

// The tensor with the history it has now, whatever is written to it later.
at::Tensor withHistory(const at::Tensor& tensor) {
  if (!tensor.requires_grad()) return tensor;
  at::Tensor kept = tensor.detach();
  torch::autograd::impl::set_gradient_edge(kept, torch::autograd::impl::gradient_edge(tensor));
  return kept;
}

// Results at which a stage ends, by their values in the recording: others are computed from the caller's tensor.
class Grafts {
 public:
  Grafts(const Joint& joint, const Joint::Stage& stage, const torch::autograd::edge_list& edges) {
    for (size_t i = 0; i < stage.gradients.size(); ++i) {
      if (!joint.isCut(stage.gradients[i]) || !edges[i].function) continue;
      const ir::Value* value = valueOf(joint, joint.gradientOf[stage.gradients[i]]);
      grafts_.try_emplace(value, Graft{{}, edges[i], {}}).first->second.gradients.push_back(i);
    }
  }

  void apply(const ir::Node& node, torch::jit::Stack& stack) {
    if (grafts_.empty()) return;
    for (size_t i = 0; i < node.resultCount(); ++i) {
      auto graft = grafts_.find(node.result(i));
      if (graft == grafts_.end()) continue;
      if (stack[0].isTensorList()) {
        c10::List<at::Tensor> list = stack[0].toTensorList();
        list.set(i, join(list.get(i), graft->second));
      } else {
        stack[i] = join(stack[i].toTensor(), graft->second);
      }
    }
  }

  // By gradient of the stage: where it arrives. Of one tensor there may be several summands.
  template <typename Visit>
  void each(const Visit& visit) const {
    for (const auto& [value, graft] : grafts_) {
      for (size_t gradient : graft.gradients) {
        if (graft.here.function) visit(gradient, graft.here);
      }
    }
  }

 private:
  struct Graft {
    std::vector<size_t> gradients;
    Edge edge;
    Edge here;  // of the tensor in this run, before anything writes to it
  };

  static const ir::Value* valueOf(const Joint& joint, size_t number) {
    if (Joint::isInner(number)) return joint.inner[number - Joint::kInner].value;
    size_t results = joint.callers() + joint.results.size();
    if (number < results) {
      return joint.recording->graph->top()->terminator()->arg(number - joint.callers()).toValue();
    }
    auto step = std::find_if(joint.late.begin(), joint.late.end(), [&](const Step& each) {
      return each.kind == Step::Kind::View && each.target <= number && number < each.target + each.node->resultCount();
    });
    return step->node->result(number - step->target);
  }

  // The same data with the history of the caller's tensor, behind a node of its own. It is no view, so that what writes
  // to it later comes behind that node too.
  static at::Tensor join(const at::Tensor& tensor, Graft& graft) {
    c10::AutoGradMode on(true);
    at::Tensor data = tensor.detach();
    auto node = aten::makeNode<Passing>();
    node->add_next_edge(graft.edge);
    graft.here = Edge(node, node->add_input_metadata(data));
    torch::autograd::impl::set_gradient_edge(data, graft.here);
    return data;
  }

  std::unordered_map<const ir::Value*, Graft> grafts_;
};

class Grafting final : public runtime::Conduct {
 public:
  explicit Grafting(Grafts& grafts) : grafts_(grafts) {}

  void call(const runtime::Instruction& at, torch::jit::Stack& stack) override {
    c10::AutoGradMode mode(!at.node->attributes().noGrad);
    if (at.node->op()->qualified == "aten::copy") {  // of a body: what a write became
      control::callAsRecorded(*at.node, *at.handle, stack);
    } else {
      at.handle->callBoxed(&stack);
    }
    grafts_.apply(*at.node, stack);
    keepInner(*at.node, stack);
  }

  // Inner values that the stage is given gradients of are differentiated.
  void keep(const ir::Value* value) { inner_.try_emplace(value); }
  const at::Tensor& kept(const ir::Value* value) const { return inner_.at(value); }

 private:
  void keepInner(const ir::Node& node, const torch::jit::Stack& stack) {
    for (size_t i = 0; !inner_.empty() && i < node.resultCount(); ++i) {
      auto known = inner_.find(node.result(i));
      if (known == inner_.end()) continue;
      known->second = withHistory(stack[0].isTensorList() ? stack[0].toTensorList().get(i) : stack[i].toTensor());
    }
  }

  Grafts& grafts_;
  std::unordered_map<const ir::Value*, at::Tensor> inner_;
};

// Gradients that are given summand by summand, so that the caller's engine adds them up in eager mode's order: while
// one lives, each edge that leads to such a tensor ends at a node of its own.
class Summands {
 public:
  // `wanted`: by gradient; those of one tensor have the same edge, and then one each. Where gradients are
  // differentiated again, the sum is a part of the program: the first one is that, if all are `asked` and none comes
  // from `elsewhere`.
  Summands(const std::vector<Edge>& roots, std::vector<Edge>& wanted, const std::vector<bool>& asked,
           const std::vector<bool>& elsewhere) {
    std::unordered_map<Edge, std::vector<size_t>> places;
    std::unordered_set<const torch::autograd::Node*> ends;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i].function) continue;
      places[wanted[i]].push_back(i);
      ends.insert(wanted[i].function.get());
    }
    std::erase_if(places, [](const auto& each) { return each.second.size() < 2; });
    std::unordered_map<Edge, std::vector<Step>> found;
    if (!places.empty()) found = stepsTo(roots, places, ends);
    for (auto& [edge, own] : places) {
      std::vector<Step>& steps = found[edge];
      // As the engine runs: what was made last comes first.
      std::stable_sort(steps.begin(), steps.end(),
                       [](const Step& a, const Step& b) { return a.from->sequence_nr() > b.from->sequence_nr(); });
      bool whole = c10::GradMode::is_enabled() &&
                   std::all_of(own.begin(), own.end(), [&](size_t i) { return asked[i] && !elsewhere[i]; });
      bool divided =
          !whole && steps.size() == own.size() && std::none_of(steps.begin(), steps.end(), [](const Step& step) {
            return dynamic_cast<torch::autograd::CopySlices*>(step.from);
          });
      for (size_t i = 0; i < own.size(); ++i) wanted[own[i]] = divided ? endAt(steps[i], edge) : Edge();
      if (divided) continue;
      // All of it is the first one.
      auto first = std::find_if(own.begin(), own.end(), [&](size_t gradient) { return asked[gradient]; });
      if (first != own.end()) wanted[*first] = edge;
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!asked[i]) wanted[i] = Edge();
    }
  }
  ~Summands() {
    for (auto& [step, edge] : led_) step.from->next_edges()[step.place] = edge;
  }
  Summands(const Summands&) = delete;
  Summands& operator=(const Summands&) = delete;

 private:
  struct Step {
    torch::autograd::Node* from;
    size_t place;
  };

  static std::unordered_map<Edge, std::vector<Step>> stepsTo(
      const std::vector<Edge>& roots, const std::unordered_map<Edge, std::vector<size_t>>& places,
      const std::unordered_set<const torch::autograd::Node*>& ends) {
    std::unordered_map<Edge, std::vector<Step>> found;
    std::vector<torch::autograd::Node*> work;
    std::unordered_set<const torch::autograd::Node*> seen;
    auto enter = [&](torch::autograd::Node* node) {
      if (node && !ends.contains(node) && seen.insert(node).second) work.push_back(node);
    };
    for (const Edge& root : roots) enter(root.function.get());
    while (!work.empty()) {
      torch::autograd::Node* node = work.back();
      work.pop_back();
      for (size_t i = 0; i < node->num_outputs(); ++i) {
        const Edge& edge = node->next_edge(i);
        if (places.contains(edge)) found[edge].push_back({node, i});
        enter(edge.function.get());
      }
    }
    return found;
  }

  Edge endAt(const Step& step, const Edge& edge) {
    auto end = aten::makeNode<Passing>();
    aten::addInputLike(*end, edge.function->input_metadata(edge.input_nr));
    led_.emplace_back(step, edge);
    step.from->next_edges()[step.place] = Edge(end, 0);
    return Edge(std::move(end), 0);
  }

  std::vector<std::pair<Step, Edge>> led_;
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

// By gradient of the stage: does another stage give what is for the same tensor?
std::vector<bool> givenElsewhere(const Joint& joint, const Joint::Stage& stage) {
  std::unordered_map<size_t, size_t> all, here;
  for (size_t of : joint.gradientOf) ++all[of];
  for (size_t gradient : stage.gradients) ++here[joint.gradientOf[gradient]];
  std::vector<bool> found;
  for (size_t gradient : stage.gradients) {
    size_t of = joint.gradientOf[gradient];
    found.push_back(all[of] != here[of]);
  }
  return found;
}

bool isClosed(const Joint& joint, size_t caller) { return caller >= joint.arguments + joint.bases.size(); }

// What is differentiated, by tangent: by running the recorded forward on such primals.
std::vector<at::Tensor> runRecording(const Plan& plan, const Joint::Stage& stage,
                                     const std::vector<at::Tensor>& primals, Grafts& grafts) {
  c10::impl::ExcludeDispatchKeyGuard withoutAutocast(c10::autocast_dispatch_keyset);  // casts are in the recording
  const Joint& joint = plan.joint;
  Grafting grafting(grafts);
  auto innerValue = [&](size_t tangent) -> const ir::Value* {
    size_t of = joint.tangentOf[tangent];
    return Joint::isInner(of) ? joint.inner[of - Joint::kInner].value : nullptr;
  };
  for (size_t tangent : stage.tangents) {
    if (const ir::Value* value = innerValue(tangent)) grafting.keep(value);
  }
  runtime::Run run(joint.recording->prepared().get(runtime::Executable::Views::Called), &grafting);
  run.sizes().assume(runtime::bindSymbols(*joint.program->graph, primals));
  for (size_t i = 0; i < primals.size(); ++i) run.set(joint.recordedPlace[i], primals[i]);
  run.run(/*before=*/joint.forwardNodes);
  std::vector<at::Tensor> results;
  for (size_t tangent : stage.tangents) {
    const ir::Value* value = innerValue(tangent);
    results.push_back(value ? grafting.kept(value) : run.returned(joint.tangentOf[tangent]).toTensor());
  }
  return results;
}

// The same, by calling the function.
std::vector<at::Tensor> callFunction(const Plan& plan, const std::vector<at::Tensor>& primals) {
  const Joint& joint = plan.joint;
  std::vector<at::Tensor> arguments(joint.arguments);
  for (size_t i = 0; i < primals.size(); ++i) {
    if (joint.sources[i].caller < joint.arguments) arguments[joint.sources[i].caller] = primals[i];
  }
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i] = arguments[joint.recording->sameAs[i]];
  std::vector<at::Tensor> outputs = plan.function(arguments).tensors;
  std::vector<at::Tensor> results;
  for (const Joint::Root& root : joint.roots) {
    if (root.kind == Joint::Root::Kind::Argument) {
      results.push_back(arguments[root.number]);
      continue;
    }
    const at::Tensor& output = outputs.at(root.number);
    results.push_back(root.kind == Joint::Root::Kind::Output ? output : autogradBase(output));
  }
  return results;
}

// A gradient may depend on a primal, or on a result (that of exp is a factor of it): on those that the caller has.
// Nodes that were made since are looked at.
void lead(const variable_list& gradients, const std::unordered_map<Edge, Edge>& same, uint64_t start) {
  std::vector<torch::autograd::Node*> work;
  std::unordered_set<const torch::autograd::Node*> seen;
  auto enter = [&](torch::autograd::Node* node) {
    bool isNew = node && node->sequence_nr() >= start && node->sequence_nr() != UINT64_MAX;
    if (isNew && seen.insert(node).second) work.push_back(node);
  };
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) enter(gradient.grad_fn().get());
  }
  while (!work.empty()) {
    torch::autograd::Node* node = work.back();
    work.pop_back();
    for (Edge& edge : node->next_edges()) {
      if (auto result = same.find(edge); result != same.end()) {
        edge = result->second;
      } else {
        enter(edge.function.get());
      }
    }
  }
}

}  // namespace

variable_list gradientsByAutograd(const Plan& plan, size_t number, const std::vector<at::Tensor>& primals,
                                  const variable_list& tangents, const std::vector<bool>& wantedOf,
                                  const std::vector<Edge>& gradientEdges, const std::vector<Edge>& called,
                                  const at::Tensor& generator, std::vector<Edge>* ran) {
  if (ran) ran->assign(tangents.size(), Edge());
  const Joint& joint = plan.joint;
  const Joint::Stage& stage = plan.stages[number];
  Grafts grafts(joint, stage, gradientEdges);
  uint64_t start = at::sequence_number::peek();
  std::unordered_map<Edge, Edge> same;  // primals and results of the run, and of the call
  bool callsFunction = !joint.roots.empty() && plan.function;
  bool createGraph = c10::GradMode::is_enabled();
  std::vector<bool> written(joint.callers());
  for (const Write& write : joint.writes) written[write.caller] = true;
  for (size_t i = 0; i < written.size(); ++i) written[i] = written[i] || joint.versions[i] != 0;
  std::vector<Edge> roots, wanted;
  variable_list given;
  {
    c10::AutoGradMode on(true);
    Rewound rewound(generator);
    // Behind a node of its own each: a primal may be computed from another one.
    std::vector<at::Tensor> inputs;
    std::vector<Edge> edges(joint.callers());
    for (size_t i = 0; i < primals.size(); ++i) {
      const at::Tensor& primal = primals[i];
      bool copied = written[joint.sources[i].caller];
      inputs.push_back(copied ? primal.clone() : primal.requires_grad() ? at::alias(primal) : primal);
      // What depends on the gradients adds to the gradient of the primal as eager mode does: summand by summand.
      if (!copied && primal.requires_grad()) {
        same.emplace(torch::autograd::impl::gradient_edge(inputs.back()), torch::autograd::impl::gradient_edge(primal));
      }
      // The function finds for itself what it closes over.
      const at::Tensor& met = callsFunction && isClosed(joint, joint.sources[i].caller) ? primal : inputs.back();
      if (met.requires_grad()) edges[joint.sources[i].caller] = torch::autograd::impl::gradient_edge(met);
    }
    // Tangents may belong to vmap; the forward is computed as it was, before it.
    c10::impl::ExcludeDispatchKeyGuard withoutTransforms(
        c10::DispatchKeySet({c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                             c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::VmapMode}));
    std::vector<at::Tensor> results =
        callsFunction ? callFunction(plan, inputs) : runRecording(plan, stage, inputs, grafts);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::vector<bool>& reaches = joint.reaches[stage.tangents[i]];
      if (!tangents[i].defined()) continue;
      if (!results[i].requires_grad()) {
        if (std::find(reaches.begin(), reaches.end(), true) != reaches.end()) refuse(createGraph);
        continue;
      }
      roots.push_back(torch::autograd::impl::gradient_edge(results[i]));
      if (ran) (*ran)[i] = roots.back();
      // Results that are one node here may depend on each other there.
      if (!ran || tangents.size() == 1) same.insert_or_assign(roots.back(), called[i]);
      given.push_back(tangents[i]);
    }
    for (size_t gradient : stage.gradients) {
      bool none = joint.isIndices(gradient) || joint.isCut(gradient);
      wanted.push_back(none ? Edge() : edges[joint.gradientOf[gradient]]);
    }
    grafts.each([&](size_t gradient, const Edge& edge) { wanted[gradient] = edge; });
    for (size_t i = 0; i < wanted.size(); ++i) {
      bool reached = false;
      for (size_t k = 0; k < tangents.size(); ++k) {
        reached |= tangents[k].defined() && joint.reaches[stage.tangents[k]][stage.gradients[i]];
      }
      if (!reached) wanted[i] = Edge();
    }
  }
  variable_list gradients(wanted.size());
  Summands summands(roots, wanted, wantedOf, givenElsewhere(joint, stage));
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
  if (createGraph) lead(found, same, start);
  for (size_t i = 0; i < found.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

}  // namespace saker::aot
