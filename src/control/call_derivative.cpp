#include "control/call_derivative.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "control/interpret.h"
#include "control/saved_sizes.h"
#include "control/sketch.h"

namespace saker::control {

namespace {

using Tensors = std::vector<at::Tensor>;
using torch::autograd::Edge;

std::atomic<size_t> derivatives = 0;

// What is known of a derivative beside its body.
struct Notes {
  // Each gradient is none, an operand of the derivative itself, or one of its results.
  struct Gradient {
    enum class Kind : uint8_t { None, Operand, Result } kind = Kind::None;
    size_t number = 0;
  };
  std::vector<Gradient> gradients;  // by operand that is wanted
  // What eager mode's backward reads of operands, in order: the operand itself, or a view of it.
  struct Read {
    size_t operand;
    std::optional<tracing::ReadAs> as;
  };
  std::vector<Read> reads;
  bool saves = false;                   // it reads something of the forward
  std::vector<BodyNodes::Given> given;  // by operand
};

const c10::StorageImpl* storageOf(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// Sees what the backward of a body reads.
class BodyReads {
 public:
  BodyReads(tracing::Trace& trace, const Tensors& parameters, Notes& notes)
      : trace_(trace), parameters_(parameters), notes_(notes), forward_(trace.graph().nodeLimit()) {}

  void note(const at::Tensor& read) {
    auto reader = torch::autograd::get_current_node();
    if (reader && std::exchange(reader_, reader.get()) != reader.get()) {
      if (at::Tensor saved = savedForSizes(*reader); saved.defined()) add(saved);
    }
    add(read);
  }
  // The first node that reads something.
  const torch::autograd::Node* first() const { return first_; }

 private:
  void add(const at::Tensor& read) {
    const ir::Value* value = trace_.valueOf(read);
    bool before = value->isParameter() ? value->index() < parameters_.size() : value->def()->id() < forward_;
    if (!before) return;
    notes_.saves = true;
    if (!first_) first_ = reader_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (storageOf(parameters_[i]) != storageOf(read)) continue;
      if (value->isParameter()) {
        notes_.reads.push_back({i, std::nullopt});
      } else {
        const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(read);
        bool made = meta && meta->grad_fn_;
        notes_.reads.push_back(
            {i, tracing::ReadAs{value->tensor(), made ? meta->grad_fn_->name() : "", made ? meta->output_nr_ : 0}});
      }
      return;
    }
  }

  tracing::Trace& trace_;
  const Tensors& parameters_;
  Notes& notes_;
  uint32_t forward_;
  const torch::autograd::Node* reader_ = nullptr;
  const torch::autograd::Node* first_ = nullptr;
};

// Eager mode frees what nodes have saved one by one. One node for all of them is the same if whoever asks for any of
// the gradients passes one of them: the first that reads something.
bool leadsToAll(const torch::autograd::Node* from, const std::vector<Edge>& wanted) {
  std::unordered_set<const torch::autograd::Node*> seen{from};
  std::vector<const torch::autograd::Node*> work{from};
  while (!work.empty()) {
    const torch::autograd::Node* node = work.back();
    work.pop_back();
    for (const Edge& edge : node->next_edges()) {
      if (edge.function && seen.insert(edge.function.get()).second) work.push_back(edge.function.get());
    }
  }
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const Edge& edge) { return seen.contains(edge.function.get()); });
}

// Which node of the body gives each operand's gradient last: autograd takes the one that was made last first.
std::vector<BodyNodes::Given> lastToGive(const std::vector<Edge>& roots, const std::vector<Edge>& inputs,
                                         const std::vector<bool>& wanted) {
  std::unordered_map<const torch::autograd::Node*, size_t> operandOf;
  std::vector<BodyNodes::Given> given(wanted.size(), {UINT64_MAX, 0});
  for (size_t i = 0, next = 0; i < wanted.size(); ++i) {
    if (wanted[i]) operandOf.emplace(inputs[next++].function.get(), i);
  }
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> work;
  for (const Edge& root : roots) work.push_back(root.function.get());
  while (!work.empty()) {
    const torch::autograd::Node* node = work.back();
    work.pop_back();
    if (operandOf.contains(node) || !seen.insert(node).second) continue;
    for (size_t place = 0; place < node->num_outputs(); ++place) {
      const torch::autograd::Node* to = node->next_edge(place).function.get();
      if (!to) continue;
      work.push_back(to);
      auto operand = operandOf.find(to);
      if (operand == operandOf.end()) continue;
      BodyNodes::Given& last = given[operand->second];
      if (node->sequence_nr() <= last.node) last = {node->sequence_nr(), place};
    }
  }
  return given;
}

// Where each gradient comes from; `results` gets those that the body is to give. False: two of them, or one and an
// operand, lie in one memory.
bool placeGradients(tracing::Trace& trace, const Tensors& found, const Tensors& given, Notes& notes, Tensors& results) {
  using Kind = Notes::Gradient::Kind;
  std::vector<const ir::Value*> values;
  for (const at::Tensor& gradient : found) {
    if (!gradient.defined()) {
      notes.gradients.push_back({});
      continue;
    }
    const ir::Value* value = trace.valueOf(gradient);
    if (value->isParameter()) {
      notes.gradients.push_back({Kind::Operand, value->index()});
      continue;
    }
    auto known = std::find(values.begin(), values.end(), value);
    if (known == values.end()) {
      auto onSame = [&](const at::Tensor& other) { return storageOf(other) == storageOf(gradient); };
      if (std::any_of(given.begin(), given.end(), onSame) || std::any_of(results.begin(), results.end(), onSame)) {
        return false;
      }
      known = values.insert(values.end(), value);
      results.push_back(gradient);
    }
    notes.gradients.push_back({Kind::Result, static_cast<size_t>(known - values.begin())});
  }
  return true;
}

// None: autograd has to follow the operators themselves.
Bodies derive(const ClosedBodies& bodies, const std::vector<const ir::TensorType*>& tangentTypes,
              const std::vector<bool>& wanted) {
  auto notes = std::make_shared<Notes>();
  Sketch sketch(bodies.context(), bodies.objects());
  Tensors given, tangents;
  std::vector<Edge> inputs, roots;
  for (const ir::Value* parameter : bodies.main().top()->parameters()) {
    given.push_back(sketch.add(parameter->tensor(), wanted[given.size()]));
    if (wanted[given.size() - 1]) inputs.push_back(torch::autograd::impl::gradient_edge(given.back()));
  }
  Tensors parameters = given;
  for (const ir::TensorType* type : tangentTypes) {
    tangents.push_back(type ? sketch.add(type) : at::Tensor());
    if (type) given.push_back(tangents.back());
  }
  Tensors results, found, made;
  {
    c10::AutoGradMode on(true);
    for (c10::IValue& value : interpret(bodies.main(), {bodies.objects(), sketch.trace()}, parameters)) {
      results.push_back(std::move(value).toTensor());
    }
  }
  torch::autograd::variable_list flowing;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!tangents[i].defined() || !results[i].requires_grad()) continue;
    roots.push_back(torch::autograd::impl::gradient_edge(results[i]));
    flowing.push_back(tangents[i]);
  }
  if (roots.empty() || inputs.empty()) return {};
  BodyReads reads(sketch.trace(), parameters, *notes);
  sketch.trace().observeReads([&](const at::Tensor& read, const tracing::ReadAs*) { reads.note(read); });
  found =
      torch::autograd::Engine::get_default_engine().execute(roots, flowing, /*keep_graph=*/true,
                                                            /*create_graph=*/false, /*accumulate_grad=*/false, inputs);
  sketch.trace().observeReads(nullptr);
  notes->given = lastToGive(roots, inputs, wanted);
  if (reads.first() && !leadsToAll(reads.first(), inputs)) return {};
  if (!placeGradients(sketch.trace(), found, given, *notes, made)) return {};
  std::vector<c10::IValue> objects;
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  graphs.push_back(sketch.finish(std::move(made), objects, /*own=*/false));
  auto derived = c10::make_intrusive<ClosedBodies>(ClosedBodies::Kind::Call, std::move(graphs), std::move(objects));
  derived->setNotes(std::move(notes));
  return derived;
}

// Operators called one by one, on stand-ins, and what autograd does to them.
Tensors byOperators(const ClosedBodies& bodies, const Tensors& operands, const Tensors& tangents,
                    const std::vector<bool>& wanted, BodyNodes& nodes) {
  Tensors given = operands, results, out(operands.size());
  std::vector<Edge> roots, inputs;
  {
    c10::AutoGradMode on(true);
    for (size_t i = 0; i < given.size(); ++i) {
      if (!wanted[i]) continue;
      given[i] = operands[i].detach().set_requires_grad(true);
      inputs.push_back(torch::autograd::impl::gradient_edge(given[i]));
    }
    for (c10::IValue& value : interpret(bodies.main(), {bodies.objects(), *tracing::current()}, given)) {
      results.push_back(std::move(value).toTensor());
    }
  }
  torch::autograd::variable_list flowing;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!tangents[i].defined() || !results[i].requires_grad()) continue;
    roots.push_back(torch::autograd::impl::gradient_edge(results[i]));
    flowing.push_back(tangents[i]);
  }
  if (roots.empty() || inputs.empty()) return out;
  nodes.given = lastToGive(roots, inputs, wanted);
  Tensors found = torch::autograd::Engine::get_default_engine().execute(
      roots, flowing, /*keep_graph=*/true, /*create_graph=*/false, /*accumulate_grad=*/false, inputs);
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (wanted[i]) out[i] = found[next++];
  }
  return out;
}

}  // namespace

std::vector<at::Tensor> gradientsOfCall(const Bodies& bodies, const std::vector<at::Tensor>& operands,
                                        const std::vector<at::Tensor>& tangents, const std::vector<bool>& wanted,
                                        BodyNodes& nodes) {
  tracing::Trace* trace = tracing::current();
  TORCH_CHECK(trace, "calls of regions are differentiated in a trace");
  std::vector<const ir::TensorType*> types;
  std::vector<int64_t> key(wanted.begin(), wanted.end());
  Tensors all = operands;
  for (const at::Tensor& tangent : tangents) {
    types.push_back(tangent.defined() ? trace->typeOf(tangent) : nullptr);
    key.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(types.back())));
    if (tangent.defined()) all.push_back(tangent);
  }
  Bodies derived = bodies->derived(key, [&]() -> Bodies {
    countDerivative();
    try {
      return derive(*bodies, types, wanted);
    } catch (const std::exception&) {
      return {};
    }
  });
  if (!derived) return byOperators(*bodies, operands, tangents, wanted, nodes);
  const Notes& notes = *static_cast<const Notes*>(derived->notes().get());
  nodes = {notes.saves, notes.given};
  tracing::ReadObserver observer = trace->readObserver();
  for (const Notes::Read& read : notes.reads) {
    if (observer) observer(operands[read.operand], read.as ? &*read.as : nullptr);
  }
  trace->observeReads(nullptr);
  Tensors found = tracing::callBodies(all, derived), out(operands.size());
  trace->observeReads(std::move(observer));
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!wanted[i]) continue;
    const Notes::Gradient& gradient = notes.gradients[next++];
    if (gradient.kind == Notes::Gradient::Kind::Operand) out[i] = all[gradient.number];
    if (gradient.kind == Notes::Gradient::Kind::Result) out[i] = found[gradient.number];
  }
  return out;
}

size_t derivativesMade() { return derivatives; }
void countDerivative() { ++derivatives; }

}  // namespace saker::control
