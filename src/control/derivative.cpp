#include "control/derivative.h"

#include <ATen/ops/add.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "aten/trace_key.h"
#include "control/interpret.h"
#include "control/loop_as_scans.h"
#include "control/sketch.h"
#include "ir/clone.h"
#include "passes/bodies.h"

namespace saker::control {

namespace {

using Kind = ClosedBodies::Kind;
using Tensors = std::vector<at::Tensor>;

const ir::TensorType* returnedType(const ir::Graph& body, size_t i) {
  return body.top()->terminator()->arg(i).toValue()->tensor();
}

bool isDifferentiable(const ir::TensorType* type) { return ir::isFloat(type->dtype) || ir::isComplex(type->dtype); }

Leniently leniently = nullptr;
thread_local bool deriving = false;  // bodies are differentiated with autograd on, although nobody may do so again

// Gradients of `inputs`, zero where nothing leads to them: these stay marked in `absent`.
Tensors gradientsOf(Sketch& sketch, const Tensors& results, const Tensors& tangents, const Tensors& inputs,
                    std::vector<bool>& absent) {
  torch::autograd::edge_list roots, wanted;
  torch::autograd::variable_list given;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!tangents[i].defined() || !results[i].requires_grad()) continue;
    roots.push_back(torch::autograd::impl::gradient_edge(results[i]));
    given.push_back(tangents[i]);
  }
  for (const at::Tensor& input : inputs) wanted.push_back(torch::autograd::impl::gradient_edge(input));
  torch::autograd::variable_list found(inputs.size());
  if (!roots.empty() && !wanted.empty()) {
    // With autograd on, so that what it calls is differentiated when the derivative is.
    auto execute = [&] {
      auto restore = c10::make_scope_exit([before = std::exchange(deriving, true)] { deriving = before; });
      found = torch::autograd::Engine::get_default_engine().execute(roots, given, /*keep_graph=*/true,
                                                                    /*create_graph=*/true,
                                                                    /*accumulate_grad=*/false, wanted);
    };
    bool again = false;
    try {
      execute();
    } catch (const std::exception&) {
      if (!leniently) throw;
      again = true;
    }
    if (again) {  // nobody reads what was recorded so far
      sketch.trace().forgetRefusal();
      leniently(execute);
    }
  }
  absent.resize(found.size(), true);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined()) absent[i] = false;
    if (!found[i].defined()) found[i] = at::zeros_like(inputs[i]);
  }
  return found;
}

// Runs a body on stand-ins, so that autograd follows.
Tensors resultsOf(const ir::Graph& body, Sketch& sketch, const ClosedBodies& bodies, const Tensors& given) {
  c10::AutoGradMode on(true);
  Tensors results;
  for (c10::IValue& value : interpret(body, {bodies.objects(), sketch.trace()}, given)) {
    results.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
  }
  return results;
}

std::vector<int64_t> keyOf(int64_t what, const std::vector<bool>& given, const std::vector<bool>& wanted) {
  std::vector<int64_t> key{what};
  key.insert(key.end(), given.begin(), given.end());
  key.push_back(2);
  key.insert(key.end(), wanted.begin(), wanted.end());
  return key;
}

enum Derived : int64_t { kSaved, kGradients };

Tensors rowMajor(Tensors tensors) {
  for (at::Tensor& tensor : tensors) tensor = tensor.contiguous();
  return tensors;
}

at::Tensor zerosLike(const at::Tensor& tensor) { return at::zeros_like(tensor, {}, c10::MemoryFormat::Contiguous); }

Tensors defined(const Tensors& tensors) {
  Tensors out;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(out),
               [](const at::Tensor& t) { return t.defined(); });
  return out;
}

std::vector<bool> areDefined(const Tensors& tensors) {
  std::vector<bool> out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.defined());
  return out;
}

// Made once; none where bodies cannot be differentiated on stand-ins, because the derivative of one asks for data.
Bodies derivedOrNone(const ClosedBodies& bodies, const std::vector<bool>& given, const std::vector<bool>& wanted,
                     const std::function<Bodies()>& derive) {
  return bodies.derived(keyOf(kGradients, given, wanted), [&]() -> Bodies {
    c10::AutoGradMode on(true);  // they may be differentiated later, although this backward is not
    try {
      return derive();
    } catch (const std::exception&) {
      return {};
    }
  });
}

Bodies gradientBodies(Kind kind, std::vector<std::unique_ptr<ir::Graph>> graphs, std::vector<c10::IValue> objects,
                      ClosedBodies::Shape shape, std::vector<bool> absent, std::vector<bool> leads = {}) {
  auto made = c10::make_intrusive<ClosedBodies>(kind, std::move(graphs), std::move(objects), shape);
  made->setAbsent(std::move(absent), std::move(leads));
  return made;
}

// --- branches: (condition, given..., tangents...) -> the gradients of what is given ---

Bodies deriveIf(const ClosedBodies& bodies, const std::vector<bool>& given, const std::vector<bool>& wanted) {
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  std::vector<c10::IValue> objects;
  std::vector<bool> absent;
  for (const std::unique_ptr<ir::Graph>& body : bodies.graphs()) {
    Sketch sketch(bodies.context(), objects);
    Tensors parameters, inputs, tangents(given.size());
    for (const ir::Value* parameter : body->top()->parameters()) {
      bool asked = wanted[parameters.size() + 1];
      parameters.push_back(sketch.add(parameter->tensor(), asked));
      if (asked) inputs.push_back(parameters.back());
    }
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i]) tangents[i] = sketch.addRowMajor(returnedType(bodies.main(), i));
    }
    Tensors results = resultsOf(*body, sketch, bodies, parameters);
    graphs.push_back(sketch.finish(gradientsOf(sketch, results, tangents, inputs, absent), objects));
  }
  return gradientBodies(Kind::If, std::move(graphs), std::move(objects), {}, std::move(absent));
}

std::optional<Tensors> gradientsOfIf(const Bodies& bodies, const Tensors& operands, const Tensors& tangents,
                                     const std::vector<bool>& wanted) {
  std::vector<bool> given = areDefined(tangents);
  Bodies derived = derivedOrNone(*bodies, given, wanted, [&] { return deriveIf(*bodies, given, wanted); });
  if (!derived) return std::nullopt;
  Tensors all = operands;
  for (at::Tensor& tangent : rowMajor(defined(tangents))) all.push_back(std::move(tangent));
  Tensors found = tracing::callBodies(all, derived), out(operands.size());
  size_t next = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!wanted[i]) continue;
    if (!derived->absent()[next]) out[i] = found[next];
    ++next;
  }
  return out;
}

// --- loops: gradients of what was carried flow from step to step, and with them sums of those of what is closed over.

struct LoopParts {
  std::vector<size_t> carried;  // that have gradients, some of which may be other than zero
  std::vector<size_t> closed;   // operands whose gradients are sums over all steps
  std::vector<size_t> sliced;   // operands whose gradients are rows
  std::vector<size_t> rows;     // results that are given tangents
};

// Which carried values may lead to a result that is given a tangent, at once or through later steps?
std::vector<bool> mayLead(const ClosedBodies& bodies, const std::vector<bool>& given) {
  const ir::Region& body = *bodies.main().top();
  std::vector<bool> leads(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(bodies.carried()));
  std::vector<bool> needed(bodies.main().valueLimit());
  for (size_t i = bodies.carried(); i < given.size(); ++i) {
    if (given[i]) needed[body.terminator()->arg(i).toValue()->id()] = true;
  }
  passes::markCarried(body, leads, needed);
  return leads;
}

// Which of them do? Autograd is asked: zeros that flow into one that does not would meet infinities.
std::vector<bool> leadsToTangents(const ClosedBodies& bodies, const std::vector<bool>& given) {
  const ir::Graph& body = bodies.main();
  std::vector<bool> may = mayLead(bodies, given);
  std::vector<bool> leads(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(bodies.carried()));
  for (bool changed = may != leads; changed;) {
    changed = false;
    Sketch sketch(bodies.context(), {});
    Tensors parameters, inputs, tangents(given.size());
    std::vector<size_t> asked;
    for (const ir::Value* parameter : body.top()->parameters()) {
      size_t i = parameters.size();
      bool asks = i < leads.size() && may[i] && !leads[i] && isDifferentiable(parameter->tensor());
      parameters.push_back(sketch.add(parameter->tensor(), asks));
      if (asks) inputs.push_back(parameters.back());
      if (asks) asked.push_back(i);
    }
    if (inputs.empty()) break;
    for (size_t i = 0; i < given.size(); ++i) {
      if (i < leads.size() ? leads[i] : given[i]) tangents[i] = sketch.addRowMajor(returnedType(body, i));
    }
    std::vector<bool> absent;
    gradientsOf(sketch, resultsOf(body, sketch, bodies, parameters), tangents, inputs, absent);
    for (size_t k = 0; k < asked.size(); ++k) {
      if (!absent[k]) leads[asked[k]] = changed = true;
    }
  }
  return leads;
}

LoopParts partsOf(const ClosedBodies& bodies, const std::vector<bool>& leads, const std::vector<bool>& given,
                  const std::vector<bool>& wanted) {
  LoopParts parts;
  size_t carried = bodies.carried(), sliced = bodies.sliced();
  for (size_t i = 0; i < carried; ++i) {
    if (leads[i] && isDifferentiable(returnedType(bodies.main(), i))) parts.carried.push_back(i);
  }
  for (size_t i = carried; i < wanted.size(); ++i) {
    if (wanted[i]) (i < carried + sliced ? parts.sliced : parts.closed).push_back(i);
  }
  for (size_t i = carried; i < given.size(); ++i) {
    if (given[i]) parts.rows.push_back(i);
  }
  return parts;
}

// What flows back into the last step.
Tensors flowingOf(const LoopParts& parts, const Tensors& operands, const Tensors& tangents) {
  Tensors flowing;
  for (size_t i : parts.carried) {
    flowing.push_back(tangents[i].defined() ? tangents[i].contiguous() : zerosLike(operands[i]));
  }
  for (size_t i : parts.closed) flowing.push_back(zerosLike(operands[i]));
  return flowing;
}

// What came back out of the first step, and rows, by operand; nothing for those that nobody wants or nothing leads to.
Tensors byOperand(const LoopParts& parts, const Tensors& found, const std::vector<bool>& wanted,
                  const std::vector<bool>& absent) {
  Tensors out(wanted.size());
  size_t next = 0;
  for (const std::vector<size_t>* each : {&parts.carried, &parts.closed, &parts.sliced}) {
    for (size_t i : *each) {
      if (wanted[i] && !absent[next]) out[i] = found[next];
      ++next;
    }
  }
  return out;
}

// One step back: (tangents of what is carried, sums, what was carried, slices, tangents of rows, what is closed over)
// -> (gradients of what was carried, sums, gradients of slices).
std::unique_ptr<ir::Graph> stepBack(const ClosedBodies& bodies, const LoopParts& parts, const std::vector<bool>& wanted,
                                    std::vector<c10::IValue>& objects, std::vector<bool>& absent) {
  const ir::Graph& body = bodies.main();
  std::span<ir::Value* const> parameters = body.top()->parameters();
  size_t carried = bodies.carried(), sliced = bodies.sliced();
  Sketch sketch(bodies.context(), objects);
  Tensors tangents(body.top()->terminator()->args().size()), sums, given(parameters.size());
  for (size_t i : parts.carried) tangents[i] = sketch.addRowMajor(returnedType(body, i));
  for (size_t i : parts.closed) sums.push_back(sketch.addRowMajor(parameters[i]->tensor()));
  for (size_t i = 0; i < carried + sliced; ++i) {
    bool follows = i < carried ? isDifferentiable(parameters[i]->tensor()) : wanted[i];
    given[i] = sketch.add(parameters[i]->tensor(), follows);
  }
  for (size_t i : parts.rows) tangents[i] = sketch.addRowMajor(returnedType(body, i));
  for (size_t i = carried + sliced; i < parameters.size(); ++i)
    given[i] = sketch.add(parameters[i]->tensor(), wanted[i]);
  Tensors results = resultsOf(body, sketch, bodies, given), inputs;
  for (const std::vector<size_t>* each : {&parts.carried, &parts.closed, &parts.sliced}) {
    for (size_t i : *each) inputs.push_back(given[i]);
  }
  Tensors found = gradientsOf(sketch, results, tangents, inputs, absent);
  // What was carried is passed on by a loop of no steps.
  std::fill_n(absent.begin(), parts.carried.size(), false);
  for (size_t i = 0; i < parts.closed.size(); ++i) {
    at::Tensor& gradient = found[parts.carried.size() + i];
    gradient = at::add(sums[i], gradient);
  }
  return sketch.finish(std::move(found), objects);
}

// --- scans: a scan the other way round, which carries the gradients of what was carried, and sums of those of what is
// closed over. It takes slices of what was carried before each step, of xs, and of the tangents of rows. ---

Bodies deriveScan(const ClosedBodies& bodies, const std::vector<bool>& given, const std::vector<bool>& wanted) {
  std::vector<bool> leads = leadsToTangents(bodies, given);
  LoopParts parts = partsOf(bodies, leads, given, wanted);
  std::vector<c10::IValue> objects;
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  std::vector<bool> absent;
  graphs.push_back(stepBack(bodies, parts, wanted, objects, absent));
  ClosedBodies::Shape shape;
  shape.carried = parts.carried.size() + parts.closed.size();
  shape.sliced = bodies.carried() + bodies.sliced() + parts.rows.size();
  shape.reverse = !bodies.shape().reverse;
  return gradientBodies(Kind::Scan, std::move(graphs), std::move(objects), shape, std::move(absent), std::move(leads));
}

// `saved` is what was carried before each step.
std::optional<Tensors> gradientsOfScan(const Bodies& bodies, const Tensors& operands, const Tensors& saved,
                                       const Tensors& tangents, const std::vector<bool>& wanted) {
  std::vector<bool> given = areDefined(tangents);
  Bodies derived = derivedOrNone(*bodies, given, wanted, [&] { return deriveScan(*bodies, given, wanted); });
  if (!derived) return std::nullopt;
  LoopParts parts = partsOf(*bodies, derived->leads(), given, wanted);
  size_t carried = bodies->carried(), sliced = bodies->sliced();
  Tensors all = flowingOf(parts, operands, tangents);
  all.insert(all.end(), saved.begin(), saved.end());
  for (size_t i = 0; i < sliced; ++i) all.push_back(operands[carried + i]);
  for (size_t i : parts.rows) all.push_back(tangents[i].contiguous());
  for (size_t i = carried + sliced; i < operands.size(); ++i) all.push_back(operands[i]);
  return byOperand(parts, tracing::callBodies(all, derived), wanted, derived->absent());
}

// --- while loops: an operator of its own goes back through the steps ---

Bodies deriveWhile(const ClosedBodies& bodies, const std::vector<bool>& given, const std::vector<bool>& wanted) {
  std::vector<bool> leads = leadsToTangents(bodies, given);
  LoopParts parts = partsOf(bodies, leads, given, wanted);
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  for (const std::unique_ptr<ir::Graph>& graph : bodies.graphs()) graphs.push_back(ir::clone(*graph));
  std::vector<c10::IValue> objects = bodies.objects();
  std::vector<bool> absent;
  graphs.push_back(stepBack(bodies, parts, wanted, objects, absent));
  ClosedBodies::Shape shape;
  shape.carried = bodies.carried();
  shape.flowing = parts.carried.size() + parts.closed.size();
  shape.history = true;
  return gradientBodies(Kind::WhileBackward, std::move(graphs), std::move(objects), shape, std::move(absent),
                        std::move(leads));
}

// `history`: what the loop carried.
std::optional<Tensors> gradientsOfWhile(const Bodies& bodies, const Tensors& operands, const at::Tensor& history,
                                        const Tensors& tangents, const std::vector<bool>& wanted) {
  std::vector<bool> given = areDefined(tangents);
  given.resize(bodies->carried());
  Bodies derived = derivedOrNone(*bodies, given, wanted, [&] { return deriveWhile(*bodies, given, wanted); });
  if (!derived) return std::nullopt;
  LoopParts parts = partsOf(*bodies, derived->leads(), given, wanted);
  Tensors all = operands;
  for (at::Tensor& tensor : flowingOf(parts, operands, tangents)) all.push_back(std::move(tensor));
  all.push_back(history);
  return byOperand(parts, tracing::callBodies(all, derived), wanted, derived->absent());
}

// Operators called one by one, so that autograd follows each.
class Following final : public runtime::Conduct {
 public:
  void call(const runtime::Instruction& at, torch::jit::Stack& stack) override {
    callAsRecorded(*at.node, *at.handle, stack);
  }
};

// Bodies that are run ask tensors for their data: what is deferred runs before, and nothing is recorded meanwhile.
class RanForData {
 public:
  RanForData() {
    tracing::Trace* trace = tracing::current();
    if (!trace || trace->mode() != tracing::Mode::Deferred) return;
    trace->flush();
    unrecorded_.emplace(aten::kRecordingKeys);
  }

 private:
  std::optional<c10::impl::ExcludeDispatchKeyGuard> unrecorded_;
};

using Run = std::function<Tensors(const ClosedBodies& bodies, const Tensors& operands)>;

Tensors oneByOne(const ClosedBodies& bodies, const Tensors& operands) {
  Following following;
  return bodies.run(operands, &following);
}

// Where no operator is the derivative: the bodies are run again, and autograd follows what `run` calls.
Tensors gradientsByRunning(const ClosedBodies& bodies, const Tensors& operands, const Tensors& tangents,
                           const std::vector<bool>& wanted, const Run& run) {
  bool again = c10::GradMode::is_enabled();  // are gradients to be differentiated?
  c10::AutoGradMode on(true);
  Tensors given = operands;
  torch::autograd::edge_list roots, inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!wanted[i]) continue;
    given[i] = again ? at::alias(operands[i]) : operands[i].detach().set_requires_grad(true);
    inputs.push_back(torch::autograd::impl::gradient_edge(given[i]));
  }
  Tensors results = run(bodies, given), out(operands.size());
  torch::autograd::variable_list flowing;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= tangents.size() || !tangents[i].defined() || !results[i].requires_grad()) continue;
    roots.push_back(torch::autograd::impl::gradient_edge(results[i]));
    flowing.push_back(tangents[i]);
  }
  if (roots.empty()) return out;
  Tensors found = torch::autograd::Engine::get_default_engine().execute(
      roots, flowing, /*keep_graph=*/again, /*create_graph=*/again, /*accumulate_grad=*/false, inputs);
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (wanted[i]) out[i] = found[next++];
  }
  return out;
}

// Operator by operator.
Tensors gradientsOfEach(const ClosedBodies& bodies, const Tensors& operands, const Tensors& tangents,
                        const std::vector<bool>& wanted) {
  RanForData ran;
  return gradientsByRunning(bodies, operands, tangents, wanted, &oneByOne);
}

}  // namespace

void setLeniently(Leniently how) { leniently = how; }

bool isDifferentiable(const at::Tensor& tensor) {
  return c10::isFloatingType(tensor.scalar_type()) || c10::isComplexType(tensor.scalar_type());
}

bool savesItself(const ClosedBodies& bodies) {
  if (bodies.kind() == Kind::If || bodies.kind() == Kind::Call) return true;
  if (bodies.kind() == Kind::While) return bodies.shape().history;
  if (bodies.kind() == Kind::WhileBackward) return true;
  const ir::Node& end = *bodies.main().top()->terminator();
  size_t carried = bodies.carried();
  if (end.args().size() < 2 * carried) return false;
  for (size_t i = 0; i < carried; ++i) {
    if (end.arg(end.args().size() - carried + i).toValue() != bodies.main().top()->parameters()[i]) return false;
  }
  return true;
}

Bodies withSaved(const Bodies& bodies) {
  if (savesItself(*bodies)) return bodies;
  return bodies->derived({kSaved}, [&] {
    if (bodies->kind() == Kind::While) {
      ClosedBodies::Shape shape = bodies->shape();
      shape.history = true;
      return bodies->reshaped(shape);
    }
    std::vector<std::unique_ptr<ir::Graph>> graphs;
    graphs.push_back(ir::clone(bodies->main()));
    ir::Graph& body = *graphs[0];
    ir::Node* end = body.top()->terminator();
    std::vector<ir::Arg> returned(end->args().begin(), end->args().end());
    for (size_t i = 0; i < bodies->carried(); ++i) returned.push_back(ir::Arg::value(body.top()->parameters()[i]));
    body.setArgs(end, returned);
    return c10::make_intrusive<ClosedBodies>(Kind::Scan, std::move(graphs), bodies->objects(), bodies->shape());
  });
}

size_t savedResults(const ClosedBodies& bodies) {
  if (bodies.kind() == Kind::While) return 1;
  return bodies.kind() == Kind::Scan ? bodies.carried() : 0;
}

std::vector<at::Tensor> gradients(const Bodies& bodies, const std::vector<at::Tensor>& operands,
                                  const std::vector<at::Tensor>& saved, const std::vector<at::Tensor>& tangents,
                                  const std::vector<bool>& wanted, bool byRunning) {
  if (byRunning) return gradientsOfEach(*bodies, operands, tangents, wanted);
  std::optional<Tensors> found;
  if (bodies->kind() == Kind::If) found = gradientsOfIf(bodies, operands, tangents, wanted);
  if (bodies->kind() == Kind::While) {
    // A gradient that is to be differentiated is made of operators that have derivatives at once.
    bool again = c10::GradMode::is_enabled() && !deriving;
    auto scan = [&](const ClosedBodies& loop, const Tensors& given) { return loopAsScan(loop, given, saved[0]); };
    found = again ? gradientsByRunning(*bodies, operands, tangents, wanted, scan)
                  : gradientsOfWhile(bodies, operands, saved[0], tangents, wanted);
  }
  if (bodies->kind() == Kind::WhileBackward) {
    found = gradientsByRunning(*bodies, operands, tangents, wanted, &wayBackAsScans);
  }
  if (bodies->kind() == Kind::Scan) found = gradientsOfScan(bodies, operands, saved, tangents, wanted);
  return found ? std::move(*found) : gradientsOfEach(*bodies, operands, tangents, wanted);
}

}  // namespace saker::control
