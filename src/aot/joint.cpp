#include "aot/joint.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/clone.h"
#include "ops/operator.h"
#include "ops/view_inverse.h"
#include "passes/pass.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using tracing::Trace;

bool sameStorage(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

Edge edgeOf(const at::Tensor& tensor) {
  return tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : Edge();
}

// Running user's code ahead of time would run it once too often: hooks, and Functions written in Python.
bool runsUserCode(torch::autograd::Node& node) {
  if (std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos) return true;
  return !node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.post_hooks().empty();
}

bool reachesUserCode(const std::vector<Edge>& roots) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> work;
  auto visit = [&](const Edge& edge) {
    if (edge.function && seen.insert(edge.function.get()).second) work.push_back(edge.function.get());
  };
  for (const Edge& root : roots) visit(root);
  while (!work.empty()) {
    torch::autograd::Node* node = work.back();
    work.pop_back();
    if (runsUserCode(*node)) return true;
    for (const Edge& next : node->next_edges()) visit(next);
  }
  return false;
}

class JointCapture {
 public:
  JointCapture(const tracing::Host& host, std::span<const at::Tensor> arguments,
               std::span<const tracing::DynamicSize> dynamic)
      : host_(host), given_(arguments.begin(), arguments.end()), capture_(host, arguments, dynamic) {
    standIns_ = capture_.arguments();
    for (const at::Tensor& standIn : standIns_) {
      edges_.push_back(standIn.defined() ? edgeOf(standIn) : Edge());
      values_.push_back(standIn.defined() ? trace().valueOf(standIn) : nullptr);
    }
  }

  Joint run(const Callee& callee) {
    std::vector<at::Tensor> outputs = callee(standIns_);
    for (const at::Tensor& output : outputs) noteFresh(output);
    for (const at::Tensor& output : outputs) joint_.outputs.push_back(classify(output));
    noteChanges();
    joint_.results = results_.size();
    differentiate();
    std::vector<c10::IValue> returned(results_.begin(), results_.end());
    for (const at::Tensor& gradient : gradients_) returned.emplace_back(gradient);
    std::vector<ir::Value*> tangents = tangents_;
    std::shared_ptr<runtime::Program> recording = capture_.finish(returned);
    finish(std::move(recording), tangents);
    return std::move(joint_);
  }

 private:
  Trace& trace() { return capture_.trace(); }

  [[noreturn]] void refuse(const std::string& why) { trace().raise({ops::Reason::Unsupported, why}); }

  // --- what outputs are ---

  const ir::Value* rootOf(const at::Tensor& tensor) {
    tracing::TraceStorage* storage = tracing::pendingStorage(*tensor.unsafeGetTensorImpl());
    return storage ? storage->root() : nullptr;
  }

  bool isArgumentMemory(const at::Tensor& tensor) {
    return std::any_of(standIns_.begin(), standIns_.end(),
                       [&](const at::Tensor& s) { return s.defined() && sameStorage(s, tensor); });
  }

  void noteFresh(const at::Tensor& output) {
    if (!output.defined() || isArgumentMemory(output)) return;
    const ir::Value* root = rootOf(output);
    if (root && trace().valueOf(output) == root) addResult(root, output);
  }

  size_t addResult(const ir::Value* root, const at::Tensor& tensor) {
    auto [known, isNew] = resultOf_.emplace(root, results_.size());
    if (isNew) results_.push_back(tensor);
    return known->second;
  }

  // The tensor that an output is a view of, where that is no output itself.
  at::Tensor baseOf(const at::Tensor& view, ir::Value* root) {
    if (view.is_view()) {
      at::Tensor base(view._base());
      if (sameStorage(base, view) && trace().valueOf(base) == root) return base;
    }
    const c10::Storage storage = view.storage();
    return trace().makeTensor(root, &storage);
  }

  Output classify(const at::Tensor& output) {
    Output found;
    if (!output.defined()) return found;
    ir::Value* value = trace().valueOf(output);
    for (size_t i = 0; i < standIns_.size(); ++i) {
      if (!standIns_[i].defined() || !sameStorage(output, standIns_[i])) continue;
      found.kind = Output::Kind::Argument;
      found.index = i;
      if (!output.is_same(standIns_[i])) findSteps(found, value, values_[i]);
      // Of arguments that share memory, the one that the chain of views leads to.
      if (found.strided == nullptr) return found;
    }
    if (found.kind == Output::Kind::Argument) return found;
    if (ir::Value* root = const_cast<ir::Value*>(rootOf(output))) {
      found.kind = Output::Kind::Result;
      auto known = resultOf_.find(root);
      found.index = known != resultOf_.end() ? known->second : addResult(root, baseOf(output, root));
      if (!results_[found.index].is_same(output)) findSteps(found, value, root);
      return found;
    }
    found.kind = Output::Kind::Closed;
    const ir::Value* base = value;
    while (base->def()) base = base->def()->operand(0);
    found.index = base->index();
    if (base != value) findSteps(found, value, base);
    return found;
  }

  void findSteps(Output& output, const ir::Value* from, const ir::Value* to) {
    output.steps.clear();
    output.strided = nullptr;
    for (const ir::Value* at = from; at != to; at = at->def()->operand(0)) {
      const ir::Node* node = at->def();
      const ops::Operator* op = node ? ops::of(node) : nullptr;
      if (!op || op->writes || ops::sharing(*node, at->index()) == ops::Sharing::None) {
        output.steps.clear();
        output.strided = from->tensor();
        return;
      }
      output.steps.push_back({node, at->index(), trace().gradModes()[node->id()]});
    }
    std::reverse(output.steps.begin(), output.steps.end());
  }

  // --- what happens to arguments ---

  void noteChanges() {
    for (size_t i = 0; i < standIns_.size(); ++i) {
      const at::Tensor& standIn = standIns_[i];
      if (!standIn.defined() || firstOf(i) != i || standIn._version() == 0) continue;
      if (trace().valueOf(standIn) != values_[i]) refuse("an argument is given other sizes or strides");
      bool visible = standIn.requires_grad() && edgeOf(standIn) != edges_[i];
      joint_.changes.push_back({i, static_cast<uint32_t>(standIn._version()), results_.size(), visible});
      if (!visible) hidden_.insert(results_.size());
      results_.push_back(standIn);
    }
  }

  size_t firstOf(size_t argument) const {
    for (size_t i = 0; i < argument; ++i) {
      if (standIns_[i].defined() && standIns_[i].is_same(standIns_[argument])) return i;
    }
    return argument;
  }

  // --- the backward ---

  void differentiate() {
    std::vector<Edge> roots, wanted;
    torch::autograd::variable_list tangents;
    std::vector<const ir::TensorType*> types;
    for (size_t i = 0; i < results_.size(); ++i) {
      const at::Tensor& result = results_[i];
      joint_.differentiable.push_back(result.requires_grad() && !hidden_.contains(i));
      if (!joint_.differentiable.back()) continue;
      roots.push_back(edgeOf(result));
      types.push_back(trace().valueOf(result)->tensor());
    }
    std::vector<at::Tensor> sources;
    for (size_t i = 0; i < standIns_.size(); ++i) {
      if (!edges_[i].function || firstOf(i) != i) continue;
      wanted.push_back(edges_[i]);
      sources.push_back(standIns_[i]);
    }
    std::vector<const ir::Value*> parameters;
    for (const at::Tensor& source : sources) parameters.push_back(values_[indexOf(source)]);
    for (const tracing::Input& input : trace().inputs()) {
      if (!input.tensor.requires_grad()) continue;
      wanted.push_back(edgeOf(input.tensor));
      parameters.push_back(input.value);
    }
    joint_.training = !roots.empty() && !wanted.empty();
    if (!joint_.training) {
      joint_.differentiable.assign(results_.size(), false);
      return;
    }
    if (reachesUserCode(roots)) refuse("the backward runs code of the user (hooks, or a Function written in Python)");
    for (const ir::TensorType* type : types) {
      tangents.push_back(capture_.addArgument(type));
      tangents_.push_back(trace().valueOf(tangents.back()));
    }
    runBackward(roots, tangents, wanted);
    for (const ir::Value* parameter : parameters) joint_.gradientOf.push_back(parameter->index());
  }

  size_t indexOf(const at::Tensor& standIn) const {
    for (size_t i = 0; i < standIns_.size(); ++i) {
      if (standIns_[i].is_same(standIn)) return i;
    }
    return 0;
  }

  void runBackward(const std::vector<Edge>& roots, const torch::autograd::variable_list& tangents,
                   const std::vector<Edge>& wanted) {
    auto execute = [&] {
      gradients_ = torch::autograd::Engine::get_default_engine().execute(roots, tangents, /*keep_graph=*/false,
                                                                         /*create_graph=*/false,
                                                                         /*accumulate_grad=*/false, wanted);
    };
    if (!host_.wait) return execute();
    host_.wait([](void* call) { (*static_cast<decltype(execute)*>(call))(); }, &execute);
  }

  // --- the functional graph, tangents last ---

  void finish(std::shared_ptr<runtime::Program> recording, const std::vector<ir::Value*>& tangents) {
    joint_.recording = recording;
    size_t count = recording->graph->top()->parameters().size();
    std::vector<bool> isTangent(count);
    for (const ir::Value* tangent : tangents) isTangent[tangent->index()] = true;
    std::vector<size_t> order, newPlace(count);
    for (bool last : {false, true}) {
      for (size_t i = 0; i < count; ++i) {
        if (isTangent[i] != last) continue;
        newPlace[i] = order.size();
        order.push_back(i);
      }
    }
    joint_.primals = count - tangents.size();
    auto program = std::make_shared<runtime::Program>();
    program->context = recording->context;
    program->graph = ir::clone(*recording->graph, order);
    for (size_t place : order) program->sources.push_back(recording->sources[place]);
    program->objects = recording->objects;
    program->arguments = recording->arguments;
    program->results = recording->results;
    for (size_t& parameter : joint_.gradientOf) parameter = newPlace[parameter];
    for (Output& output : joint_.outputs) {
      if (output.kind == Output::Kind::Closed) output.index = newPlace[output.index];
    }
    passes::RunOptions options;
    options.verify = false;
    passes::RunResult ran = passes::run(*program->graph, "functionalize", options);
    if (ran.error) throw std::runtime_error(*ran.error);
    returnNewContents(*program->graph);
    passes::run(*program->graph, "cse,dce", options);
    joint_.program = std::move(program);
  }

  // Writes to arguments are not done by the graph: new contents are returned.
  void returnNewContents(ir::Graph& graph) {
    static const ops::Operator* copy = ops::find("aten::copy_");
    ir::Node* end = graph.top()->terminator();
    for (const Change& change : joint_.changes) {
      const ir::Value* target = end->arg(change.result).toValue();
      for (ir::Node* node = end->prev(); node; node = node->prev()) {
        if (node->op() != copy || node->operand(0) != target) continue;
        graph.setArg(end, change.result, node->arg(1));
        if (!node->hasUsedResults()) graph.erase(node);
        break;
      }
    }
  }

  const tracing::Host& host_;
  std::vector<at::Tensor> given_;
  tracing::Capture capture_;
  std::vector<at::Tensor> standIns_;
  std::vector<Edge> edges_;  // of the stand-ins before the call
  std::vector<ir::Value*> values_;
  std::vector<at::Tensor> results_;
  std::unordered_map<const ir::Value*, size_t> resultOf_;
  std::unordered_set<size_t> hidden_;  // results that are writes which autograd does not see
  std::vector<ir::Value*> tangents_;
  torch::autograd::variable_list gradients_;
  Joint joint_;
};

}  // namespace

Joint captureJoint(const tracing::Host& host, std::span<const at::Tensor> arguments,
                   std::span<const tracing::DynamicSize> dynamic, const Callee& callee) {
  return JointCapture(host, arguments, dynamic).run(callee);
}

}  // namespace saker::aot
