#include "frontend/replay.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>

#include "frontend/kinds.h"
#include "frontend/user_names.h"
#include "host/errors.h"
#include "host/kept_error.h"
#include "host/objects.h"
#include "runtime/failure.h"

namespace saker::frontend {

namespace {

// By the methods of C, whatever a class or an object says.
Ref generatorState(PyObject* generator) {
  static PyObject* const name = PyUnicode_InternFromString("getstate");
  Ref method = Ref::borrow(_PyType_Lookup(generatorType(), name));
  return Ref::steal(PyObject_CallOneArg(method.get(), generator));
}

void setGeneratorState(PyObject* generator, PyObject* state) {
  static PyObject* const name = PyUnicode_InternFromString("setstate");
  PyObject* args[] = {generator, state};
  Ref method = Ref::borrow(_PyType_Lookup(generatorType(), name));
  Ref done = Ref::steal(PyObject_Vectorcall(method.get(), args, 2, nullptr));
  PyErr_Clear();
}

Ref again(const Draw& draw, const std::vector<PyObject*>& found) {
  std::vector<PyObject*> args;
  if (draw.method) args.push_back(found[draw.generator]);
  for (const Ref& each : draw.arguments) args.push_back(each.get());
  if (draw.method) return Ref::steal(PyObject_Vectorcall(draw.method.get(), args.data(), args.size(), nullptr));
  auto* type = reinterpret_cast<PyTypeObject*>(args[0]);
  Ref given = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size()) - 1));
  for (size_t i = 1; i < args.size(); ++i) {
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i) - 1, Py_NewRef(args[i]));
  }
  return Ref::steal(generatorType()->tp_new(type, given.get(), nullptr));
}

// States of generators are tuples of numbers.
bool sameOutcome(PyObject* got, PyObject* expected) {
  if (!PyTuple_CheckExact(got)) return sameValue(got, expected);
  return PyTuple_CheckExact(expected) && PyObject_RichCompareBool(got, expected, Py_EQ) == 1;
}

}  // namespace

bool Replay::fits(const Ambient& now, const CallArguments& call, bool guardsOnly) {
  if (!(segment_.ambient == now) || !segment_.guards.check(call, found_)) return false;
  if (!guardsOnly && !segment_.single && (segment_.writes || segment_.dynamic)) {
    std::vector<at::Tensor> tensors = inputs();
    if (segment_.writes && !segment_.memory.empty() && !liesAsRecorded(tensors)) return false;
    if (segment_.dynamic && !segment_.sizesFit(tensors)) return false;
  }
  for (const Asked& each : segment_.asked) {
    Ref answer = askAgain(each, found_.places);
    if (answer && sameAnswer(answer.get(), each.answer.get())) continue;
    std::string gives = answer ? inWords(answer.get()) : "an error";
    found_.why =
        Operations::name(each.function.get()) + "(): expected " + inWords(each.answer.get()) + ", found " + gives;
    return false;
  }
  // Whatever it promised, code of the user's may have let go of what was found.
  auto isUsers = [](const Asked& each) { return each.users; };
  bool ran = std::any_of(segment_.asked.begin(), segment_.asked.end(), isUsers);
  if (ran && !segment_.guards.check(call, found_)) return false;
  // The last, since it changes something.
  if (!guardsOnly && !segment_.draws.empty() && !draw()) {
    found_.why = "an int that is drawn at random is another one";
    return false;
  }
  return true;
}

bool Replay::liesAsRecorded(const std::vector<at::Tensor>& tensors) const {
  return sharedMemory(tensors) == segment_.memory && sharedCounters(tensors, segment_.memory) == segment_.counters;
}

std::vector<at::Tensor> Replay::inputs() const {
  std::vector<at::Tensor> out;
  out.reserve(segment_.inputs.size());
  for (uint32_t place : segment_.inputs) {
    bool isDrawn = drawn_.empty() && segment_.drawnPlace(place);  // later
    out.push_back(isDrawn ? at::Tensor() : tensorAt(found_[place]));
  }
  return out;
}

bool Replay::draw() {
  std::vector<PyObject*>& found = found_.places;
  found.resize(segment_.guards.places);
  drawn_.clear();
  states_.clear();
  bool mayDiffer = segment_.hazards.risky || std::any_of(segment_.draws.begin(), segment_.draws.end(),
                                                         [](const Draw& each) { return bool(each.expected); });
  for (const Draw& each : segment_.draws) {
    bool outside = each.method && mayDiffer && !segment_.drawnPlace(each.generator);
    PyObject* generator = outside ? found[each.generator] : nullptr;
    for (const auto& [known, state] : states_) generator = generator == known.get() ? nullptr : generator;
    if (generator) states_.emplace_back(Ref::borrow(generator), generatorState(generator));
  }
  bool same = true;
  for (const Draw& each : segment_.draws) {
    drawn_.push_back(again(each, found));
    PyObject* got = drawn_.back().get();
    same = got && (!each.expected || sameOutcome(got, each.expected.get()));
    if (!same) break;
    if (!each.expected) found[each.place] = got;
  }
  PyErr_Clear();
  if (!same) putBackStates();
  return same;
}

void Replay::putBackStates() {
  for (const auto& [generator, state] : states_) setGeneratorState(generator.get(), state.get());
  states_.clear();
}

// Only where an operator may fail, and the program then runs itself.
void Replay::keepHistories() {
  for (size_t i = 0; segment_.hazards.risky && i < segment_.histories.size(); ++i) {
    const at::Tensor& tensor = tensorOf(found_[segment_.histories[i]]);
    bool flag = tensor.is_leaf() && tensor.requires_grad();
    histories_.push_back({tensor, flag, {tensor.grad_fn(), static_cast<uint32_t>(tensor.output_nr())}});
  }
}

void Replay::putBackHistories() {
  for (const History& each : histories_) {
    each.tensor.unsafeGetTensorImpl()->set_requires_grad(each.requiresGrad);
    torch::autograd::impl::set_gradient_edge(each.tensor, each.edge);
  }
  histories_.clear();
}

void Replay::drawOnlyBefore() {
  const std::vector<Draw>& draws = segment_.draws;
  std::optional<uint32_t> failed = runtime::lastFailure().node;
  if (!failed || states_.empty()) return;
  size_t count = 0;
  for (const auto& each : segment_.hazards.before) {
    if (each.node <= *failed) count = each.draws;
  }
  KeptError kept;
  putBackStates();
  for (size_t i = 0; i < std::min(count, draws.size()); ++i) {
    if (draws[i].method && !segment_.drawnPlace(draws[i].generator)) again(draws[i], found_.places);
  }
  PyErr_Clear();
}

bool Replay::redo(const DoneAgain& effect, Kitchen& kitchen) const {
  std::vector<PyObject*> arguments;
  for (uint32_t number : effect.arguments) {
    arguments.push_back(kitchen.make(number));
    if (!arguments.back()) return false;
  }
  if (!effect.callable) {
    PyCell_Set(arguments[0], arguments[1]);
    return true;
  }
  size_t named = effect.names ? static_cast<size_t>(PyTuple_GET_SIZE(effect.names.get())) : 0;
  Ref done = Ref::steal(
      PyObject_Vectorcall(effect.callable.get(), arguments.data(), arguments.size() - named, effect.names.get()));
  return bool(done);
}

PyObject* Replay::runSingle() {
  constexpr size_t kMost = 8;
  std::array<const at::Tensor*, kMost> tensors{};
  if (segment_.inputs.size() > kMost) return nullptr;
  for (size_t i = 0; i < segment_.inputs.size(); ++i) {
    PyObject* object = found_[segment_.inputs[i]];
    if (!isTensor(object)) return nullptr;
    tensors[i] = &tensorOf(object);
  }
  inGraph_ = true;
  runtime::lastFailure() = {};
  at::Tensor result = segment_.single->run({tensors.data(), segment_.inputs.size()});
  inGraph_ = false;
  const Recipe& recipe = segment_.recipes[segment_.exit.result];
  if (recipe.kind == Recipe::Kind::Output) return wrapTensor(result);
  return Py_NewRef(recipe.kind == Recipe::Kind::Place ? found_[recipe.index] : recipe.object.get());
}

PyObject* Replay::run() {
  PyObject* result = nullptr;
  if (segment_.single) {  // errors and warnings are the caller's to translate
    try {
      result = runSingle();
    } catch (...) {
      result = asPython([]() -> PyObject* { throw; });
    }
  }
  if (!result && !PyErr_Occurred()) result = asPython([&] { return runGraph(); });
  if (turn_) turn_->leave();
  return result;
}

PyObject* Replay::runGraph() {
  std::optional<NoFunctionModes> unasked;
  if (segment_.ambient.functionModes > 0) unasked.emplace();
  const std::vector<PyObject*>& found = found_.places;
  std::vector<at::Tensor> tensors = inputs(), outputs;
  // What recipes take from places lives until they are made, whatever the graph lets go of.
  std::vector<Ref> held;
  for (const Recipe& recipe : segment_.recipes) {
    if (recipe.kind == Recipe::Kind::Place || recipe.kind == Recipe::Kind::Generator) {
      held.push_back(Ref::borrow(found[recipe.index]));
    }
  }
  keepHistories();
  for (const DoneAgain& effect : segment_.effects) {
    if (!effect.early) continue;
    Kitchen kitchen(segment_.recipes, found, outputs);
    if (!redo(effect, kitchen)) return nullptr;
  }
  std::vector<int64_t> versions;
  for (const auto& [input, moves] : segment_.unseen) versions.push_back(tensors[input]._version() + moves);
  inGraph_ = true;
  runtime::lastFailure() = {};
  outputs = segment_.code->run(tensors);
  inGraph_ = false;
  for (size_t i = 0; i < segment_.unseen.size(); ++i) {
    c10::VariableVersion counter = torch::autograd::impl::version_counter(tensors[segment_.unseen[i].first]);
    counter.set_version(versions[i]);
  }
  if (turn_) turn_->leave();
  Kitchen kitchen(segment_.recipes, found, outputs);
  PyObject* made = kitchen.make(segment_.exit.result);
  if (!made) return nullptr;
  for (const DoneAgain& effect : segment_.effects) {
    if (!effect.early && !redo(effect, kitchen)) return nullptr;
  }
  if (unasked) unasked->putBack();
  if (segment_.modes) {
    std::vector<Ref> left;
    for (uint32_t mode : *segment_.modes) {
      left.push_back(Ref::borrow(kitchen.make(mode)));
      if (!left.back()) return nullptr;
    }
    setFunctionModes(left);
  }
  return Py_NewRef(made);
}

}  // namespace saker::frontend
