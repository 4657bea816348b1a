#include "frontend/version.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "aten/memory.h"
#include "frontend/host_call.h"
#include "frontend/kinds.h"
#include "frontend/numpy.h"
#include "frontend/subjects/subjects.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/kept_error.h"
#include "host/objects.h"
#include "runtime/failure.h"
#include "runtime/interpreter.h"

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

at::Tensor tensorAt(PyObject* object) {
  if (isTensor(object)) return tensorOf(object);
  if (PyFloat_CheckExact(object)) return numberTensor(PyFloat_AS_DOUBLE(object));
  if (PyLong_CheckExact(object)) return at::empty({PyLong_AsLongLong(object), 0});
  std::optional<at::Tensor> tensor = leafTensor(object);
  TORCH_CHECK(tensor, "an array of numpy's cannot be seen as a tensor any more");
  return *tensor;
}

std::vector<uint32_t> sharedMemory(const std::vector<at::Tensor>& tensors) {
  constexpr uint32_t kOtherStorage = 1u << 31;
  std::vector<uint32_t> first = aten::sharedMemory(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (first[i] != i && !aten::sameStorage(tensors[i], tensors[first[i]])) first[i] |= kOtherStorage;
  }
  return first;
}

bool Version::addEffects(const Recorder& recorder, Cookbook& book) {
  for (const Effect& effect : recorder.effects()) {
    DoneAgain again;
    again.callable = effect.callable;
    again.names = effect.names;
    again.early = effect.early;
    again.inner = effect.inner;
    for (const Ref& argument : effect.arguments) {
      std::optional<uint32_t> number = book.write(argument.get());
      if (!number) return false;
      again.arguments.push_back(*number);
    }
    effects.push_back(std::move(again));
  }
  asked = recorder.subjects().flags.asked();
  locks = recorder.subjects().world.locks();
  std::optional<std::vector<Ref>> left = recorder.subjects().flags.leftModes();
  if (!left) return true;
  modes.emplace();
  for (const Ref& mode : *left) {
    std::optional<uint32_t> number = book.write(mode.get());
    if (!number) return false;
    modes->push_back(*number);
  }
  return true;
}

void Version::settle() {
  guards.wanted = inputs;
  for (const Recipe& recipe : recipes) {
    if (recipe.kind == Recipe::Kind::Place) guards.wanted.push_back(recipe.index);
  }
  for (const Draw& each : draws) {
    if (each.method && !drawnPlace(each.generator)) guards.wanted.push_back(each.generator);
  }
  for (const Asked& each : asked) {
    for (uint32_t place : each.places) {
      if (place != kInside) guards.wanted.push_back(place);
    }
  }
  guards.wantsAll = false;
}

bool Version::fits(const Ambient& now, const CallArguments& call, std::vector<PyObject*>& found) {
  if (!(ambient == now) || !guards.check(call, found)) return false;
  if (writes || dynamic) {
    std::vector<at::Tensor> tensors;
    for (uint32_t place : inputs) tensors.push_back(drawnPlace(place) ? at::Tensor() : tensorAt(found[place]));
    if (writes && !memory.empty() && sharedMemory(tensors) != memory) return false;
    if (dynamic && !sizesFit(tensors)) return false;
  }
  for (const Asked& each : asked) {
    Ref answer = askAgain(each, found);
    if (answer && sameAnswer(answer.get(), each.answer.get())) continue;
    guards.failFor(Operations::name(each.function.get()) + "() gives something else");
    return false;
  }
  // The last, since it changes something.
  if (!draws.empty() && !draw(found)) {
    guards.failFor("an int that is drawn at random is another one");
    return false;
  }
  return true;
}

bool Version::drawnPlace(uint32_t place) const {
  return std::any_of(draws.begin(), draws.end(), [&](const Draw& each) { return each.place == place; });
}

bool Version::draw(std::vector<PyObject*>& found) {
  found.resize(guards.places);
  drawn_.clear();
  states_.clear();
  bool mayDiffer =
      risky || std::any_of(draws.begin(), draws.end(), [](const Draw& each) { return bool(each.expected); });
  for (const Draw& each : draws) {
    bool outside = each.method && mayDiffer && !drawnPlace(each.generator);
    PyObject* generator = outside ? found[each.generator] : nullptr;
    for (const auto& [known, state] : states_) generator = generator == known.get() ? nullptr : generator;
    if (generator) states_.emplace_back(Ref::borrow(generator), generatorState(generator));
  }
  bool same = true;
  for (const Draw& each : draws) {
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

void Version::putBackStates() {
  for (const auto& [generator, state] : states_) setGeneratorState(generator.get(), state.get());
  states_.clear();
}

void Version::drawOnlyBefore(const std::vector<PyObject*>& found) {
  std::optional<uint32_t> failed = runtime::lastFailure().node;
  if (!failed || states_.empty()) return;
  size_t count = 0;
  for (const auto& each : before) {
    if (each.node <= *failed) count = each.draws;
  }
  KeptError kept;
  putBackStates();
  for (size_t i = 0; i < std::min(count, draws.size()); ++i) {
    if (draws[i].method && !drawnPlace(draws[i].generator)) again(draws[i], found);
  }
  PyErr_Clear();
}

bool Version::sizesFit(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> bound;
  for (const runtime::Source& source : program->sources) {
    bound.push_back(source.kind == runtime::Source::Kind::Argument ? tensors[source.argument] : source.tensor);
  }
  try {
    sym::Assignment symbols = runtime::bindSymbols(*program->graph, bound);
    for (const sym::Guard& guard : program->context->symbols().guards()) {
      std::optional<bool> holds = sym::evaluateBool(guard.condition, symbols);
      if (!holds || !*holds) return false;
    }
    for (size_t i = 0; i < bound.size(); ++i) {
      const ir::TensorType& type = *program->graph->top()->parameters()[i]->tensor();
      if (!type.symbolic) continue;
      runtime::Geometry told = runtime::geometryOf(type, symbols);
      if (bound[i].sizes() != c10::IntArrayRef(told.sizes) || bound[i].strides() != c10::IntArrayRef(told.strides))
        return false;
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

bool Version::redo(const DoneAgain& effect, Kitchen& kitchen) const {
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

PyObject* Version::run(const std::vector<PyObject*>& found) {
  return asPython([&] { return runGraph(found); });
}

PyObject* Version::runGraph(const std::vector<PyObject*>& found) {
  NoFunctionModes unasked;
  std::vector<at::Tensor> tensors, outputs;
  tensors.reserve(inputs.size());
  for (uint32_t place : inputs) tensors.push_back(tensorAt(found[place]));
  // What recipes take from places lives until they are made, whatever the graph lets go of.
  std::vector<Ref> held;
  for (const Recipe& recipe : recipes) {
    if (recipe.kind == Recipe::Kind::Place || recipe.kind == Recipe::Kind::Generator) {
      held.push_back(Ref::borrow(found[recipe.index]));
    }
  }
  for (const DoneAgain& effect : effects) {
    if (!effect.early) continue;
    Kitchen kitchen(recipes, found, outputs);
    if (!redo(effect, kitchen)) return nullptr;
  }
  if (!executor && late) {
    executor = late(tensors);
    late = nullptr;
  }
  std::vector<int64_t> versions;
  for (const auto& [input, moves] : unseen) versions.push_back(tensors[input]._version() + moves);
  inGraph = true;
  runtime::lastFailure() = {};
  std::unique_lock<std::recursive_mutex> others(running, std::defer_lock);
  if (alone && !others.try_lock()) {
    ReleaseInterpreter free;
    others.lock();
  }
  if (executor) outputs = executor(tensors);
  if (others.owns_lock()) others.unlock();
  inGraph = false;
  for (size_t i = 0; i < unseen.size(); ++i) {
    c10::VariableVersion counter = torch::autograd::impl::version_counter(tensors[unseen[i].first]);
    counter.set_version(versions[i]);
  }
  Kitchen kitchen(recipes, found, outputs);
  PyObject* made = kitchen.make(result);
  if (!made) return nullptr;
  for (const DoneAgain& effect : effects) {
    if (!effect.early && !redo(effect, kitchen)) return nullptr;
  }
  unasked.putBack();
  if (modes) {
    std::vector<Ref> left;
    for (uint32_t mode : *modes) {
      left.push_back(Ref::borrow(kitchen.make(mode)));
      if (!left.back()) return nullptr;
    }
    setFunctionModes(left);
  }
  return Py_NewRef(made);
}

}  // namespace saker::frontend
