#include "frontend/computation.h"

#include <algorithm>
#include <utility>

#include "capture/tape.h"
#include "frontend/aside.h"
#include "frontend/compiled.h"
#include "frontend/host_call.h"
#include "frontend/kinds.h"
#include "frontend/risk.h"
#include "frontend/subjects/subjects.h"
#include "frontend/wrapped.h"
#include "host/errors.h"
#include "host/objects.h"
#include "watch/loop.h"
#include "watch/traced.h"

namespace saker::frontend {

namespace {

bool canBeWatched(const Ambient& now) {
  return watch::supported() && !watch::traced() && !watch::watching() && !tracing::currentTape() &&
         !tracing::current() && !now.seesOperators();
}

// Objects that are made again in the same way in each call.
bool isPlain(const Recipe& recipe) {
  using Kind = Recipe::Kind;
  bool known = recipe.kind == Kind::Constant || recipe.kind == Kind::Place || recipe.kind == Kind::Output ||
               recipe.kind == Kind::List || recipe.kind == Kind::Tuple || recipe.kind == Kind::Dict;
  return known && recipe.attributes.empty();
}

// An operator of the user's, or one with bodies.
bool isForeign(const ir::Node& node) { return !node.isReturn() && !node.op()->qualified.starts_with("aten::"); }

thread_local bool isRecording = false;

// A question to the interpreter, whose answer no mode of PyTorch's changes: inspect.signature asks how deep calls go.
bool isOfInterpreter(const Asked& asked) {
  return PyCFunction_Check(asked.function.get()) && moduleOf(asked.function.get()) == "sys";
}

}  // namespace

bool Computation::recording() { return isRecording; }

Computation::Recorded Computation::record(PyObject* function, PyObject* arguments) {
  Ambient before = Ambient::now();
  if (!canBeWatched(before)) {
    return {Ref::steal(PyObject_Call(function, arguments, nullptr)), nullptr, "operators are looked at"};
  }
  Inside inside;
  auto made = std::make_unique<Computation>();
  made->segment_.ambient = before;
  CallArguments call{PySequence_Fast_ITEMS(arguments), static_cast<size_t>(PyTuple_GET_SIZE(arguments)), nullptr};
  WrappersScope wrappers;
  tracing::Tape tape(watchedHost());
  Recorder recorder(tape, function, call);
  tape.setAround([&](bool any) {
    return tracing::Tape::Around{noticesErrors(any), recorder.effects().size(),
                                 recorder.subjects().random.draws().size(), recorder.effectsOutside(),
                                 recorder.frames()};
  });
  Aside aside;
  Recorded out;
  {
    tracing::TapeScope scope(&tape);
    bool before = std::exchange(isRecording, true);
    out.result = Ref::steal(watch::run(recorder, function, call.values, call.positional, nullptr));
    isRecording = before;
  }
  wrappers.leave();
  if (!out.result) return out;
  if (!recorder.stopped() && tape.spoiled()) recorder.stop(*tape.spoiled(), /*quiet=*/true);
  if (recorder.stopped()) {
    out.why = recorder.stopped()->text();
  } else if (!(Ambient::now() == before) || recorder.subjects().world.holdsLocks() || !recorder.balanced()) {
    out.why = "it leaves something else around the call";
  } else if (std::optional<Stop> why = recorder.seal()) {
    out.why = why->text();
  } else {
    try {
      out.why = made->finish(recorder, tape, out.result.get());
    } catch (const std::exception& error) {
      out.why = error.what();
      clearPythonError();
    }
    PyErr_Clear();
  }
  if (out.why.empty()) out.computation = std::move(made);
  return out;
}

// Gives why it is no computation, or nothing.
std::string Computation::finish(Recorder& recorder, tracing::Tape& tape, PyObject* result) {
  Cookbook book(recorder, [&](const at::Tensor& tensor) { return tape.made(tensor); });
  std::optional<uint32_t> returned = book.write(result);
  if (!returned) return book.refusal()->text();
  segment_.exit.result = *returned;
  if (!segment_.addEffects(recorder, book)) return book.refusal()->text();
  bool effects = !recorder.effects().empty() || !segment_.effects.empty() || segment_.modes ||
                 !recorder.subjects().random.draws().empty() || recorder.subjects().hooks.handleCount() != 0 ||
                 !segment_.histories.empty() || !segment_.locks.empty();
  for (const Asked& each : segment_.asked) effects |= each.users;
  if (effects) return "it does more than to compute";
  const tracing::Tape::Risk& risk = tape.risk();
  if (risk.sizes || risk.expects || risk.chooses || risk.goesOnAnywhere) return "data decide what it does";
  if (tape.usesNumbers() || !tape.unseenWrites().empty()) return "it reads numbers, or writes through .data";
  std::unique_ptr<runtime::Program> program = tape.finish(book.outputs);
  if (tape.spoiled()) return tape.spoiled()->text();
  for (const tracing::Tape::Input& input : tape.inputs()) {
    if (input.literal) continue;
    uint32_t place = recorder.placeOfTensor(input.tensor);
    if (place == kInside) return "it uses a tensor from an unknown place";
    segment_.inputs.push_back(place);
  }
  segment_.recipes = std::move(book.recipes);
  if (!std::all_of(segment_.recipes.begin(), segment_.recipes.end(), isPlain)) return "it makes objects";
  HostCalls hosts = hostCallsOf(program->objects);
  if (hosts.any || hosts.wraps || hosts.sets || !hosts.repeatable) return "it calls other code of the user's";
  for (const ir::Node* node = program->graph->top()->first(); node; node = node->next()) {
    if (isForeign(*node)) return "it calls " + std::string(node->op()->qualified);
  }
  segment_.program = std::move(program);
  segment_.guards = recorder.takeGuards();
  return {};
}

CallArguments Computation::call() const {
  PyObject* tuple = arguments_[0].get();
  return {PySequence_Fast_ITEMS(tuple), static_cast<size_t>(PyTuple_GET_SIZE(tuple)), nullptr};
}

// Of tensors their shapes are remembered; guards are for the rest.
bool Computation::dropTensors() {
  Guards& guards = segment_.guards;
  for (const GuardInstruction& at : guards.instructions) {
    if (at.op == GuardOp::Array) return false;
    if (at.op == GuardOp::Tensor) shapes_.emplace_back(at.place, guards.tensors[static_cast<size_t>(at.number)]);
  }
  auto ofTensor = [&](const GuardInstruction& at) {
    bool drops = at.op == GuardOp::Tensor || at.op == GuardOp::IsType || at.op == GuardOp::NoAttribute;
    return drops &&
           std::any_of(shapes_.begin(), shapes_.end(), [&](const auto& each) { return each.first == at.place; });
  };
  std::erase_if(guards.instructions, ofTensor);
  return true;
}

bool Computation::bind(PyObject* arguments, const std::vector<PyObject*>& placeholders) {
  arguments_.clear();
  places_.clear();
  numbers_.clear();
  arguments_.push_back(Ref::borrow(arguments));
  if (!dropTensors() || !segment_.guards.check(call(), found_)) return false;
  numbers_.resize(segment_.guards.places);
  for (uint32_t place = 0; place < segment_.guards.places; ++place) {
    PyObject* object = found_[place];
    auto known = std::find(placeholders.begin(), placeholders.end(), object);
    if (known != placeholders.end()) numbers_[place] = static_cast<uint32_t>(known - placeholders.begin()) + 1;
    places_.push_back(Ref::borrow(object));
  }
  auto isGiven = [&](const auto& each) { return numbers_[each.first] != 0; };
  if (!std::all_of(shapes_.begin(), shapes_.end(), isGiven)) return false;
  return std::all_of(segment_.inputs.begin(), segment_.inputs.end(), [&](uint32_t at) { return numbers_[at] != 0; });
}

bool Computation::holds(bool around) const {
  if (around) {
    Ambient now = Ambient::now();
    now.handling = segment_.ambient.handling;
    if (!(now == segment_.ambient)) return false;
  }
  Found found = std::exchange(found_, {});
  bool held = segment_.guards.check(call(), found);
  for (size_t i = 0; held && i < segment_.asked.size(); ++i) {
    if (!around && !isOfInterpreter(segment_.asked[i])) continue;
    Ref answer = askAgain(segment_.asked[i], found.places);
    held = answer && sameAnswer(answer.get(), segment_.asked[i].answer.get());
  }
  found_ = std::move(found);
  return held;
}

bool Computation::asksFlags() const {
  return !std::all_of(segment_.asked.begin(), segment_.asked.end(), isOfInterpreter);
}

bool Computation::fits(const std::vector<at::Tensor>& tensors, bool exact) const {
  return std::all_of(shapes_.begin(), shapes_.end(), [&](const auto& each) {
    const auto& [place, shape] = each;
    const at::Tensor& tensor = tensors.at(numbers_[place] - 1);
    if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
    bool same = tensor.scalar_type() == shape.dtype && tensor.device() == shape.device &&
                tensor.requires_grad() == shape.requiresGrad && tensor.sizes() == c10::IntArrayRef(shape.sizes);
    return same && (!exact || tensor.strides() == c10::IntArrayRef(shape.strides));
  });
}

PyObject* Computation::run(const std::vector<at::Tensor>& tensors) const {
  std::vector<Ref> held = places_;
  std::vector<PyObject*> found;
  for (size_t place = 0; place < held.size(); ++place) {
    if (numbers_[place] != 0) held[place] = Ref::steal(wrapTensor(tensors.at(numbers_[place] - 1)));
    found.push_back(held[place].get());
  }
  std::vector<at::Tensor> inputs, outputs;
  for (uint32_t place : segment_.inputs) inputs.push_back(tensors.at(numbers_[place] - 1));
  for (c10::IValue& value : runtime::run(*segment_.program, inputs, /*guarded=*/true)) {
    outputs.push_back(std::move(value).toTensor());
  }
  Kitchen kitchen(segment_.recipes, found, outputs);
  PyObject* made = kitchen.make(segment_.exit.result);
  return made ? Py_NewRef(made) : nullptr;
}

std::vector<size_t> Computation::writes() const {
  std::vector<size_t> out;
  for (size_t i = 0; i < segment_.inputs.size(); ++i) {
    if (segment_.program->argumentWrites[i] != 0) out.push_back(numbers_.at(segment_.inputs[i]) - 1);
  }
  return out;
}

bool Computation::looksAt(const char* name) const {
  const std::vector<GuardInstruction>& all = segment_.guards.instructions;
  return std::any_of(all.begin(), all.end(), [&](const GuardInstruction& at) {
    PyObject* object = at.object.get();
    return object && PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, name) == 0;
  });
}

}  // namespace saker::frontend
