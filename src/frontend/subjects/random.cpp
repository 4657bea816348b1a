#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "frontend/host_call.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {

// What a generator is given, and what a recording can keep: numbers, strings, and states, which are tuples of numbers.
bool isConstant(PyObject* object) {
  if (!PyTuple_CheckExact(object)) return isAtom(object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (!PyLong_CheckExact(PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

std::vector<Ref> held(const std::vector<PyObject*>& objects, size_t from) {
  std::vector<Ref> out;
  for (size_t i = from; i < objects.size(); ++i) out.push_back(Ref::borrow(objects[i]));
  return out;
}

}  // namespace

Answer Random::makesGenerator(PyTypeObject* type, const Values& args) {
  static PyObject* const newName = PyUnicode_InternFromString("__new__");
  PyObject* make = lookUp(type, newName);
  if (Py_TYPE(type) != &PyType_Type || !make || !PyCFunction_Check(make)) return std::nullopt;
  if (speculative()) return stop(Why::AttemptMakesGenerator);
  for (PyObject* arg : args) {
    if (!isConstant(arg)) return stop(Why::MakesGeneratorFrom);
  }
  making_.push_back(held(args, 0));
  making_.back().insert(making_.back().begin(), Ref::borrow(reinterpret_cast<PyObject*>(type)));
  return true;
}

uint32_t Random::generatorPlace(PyObject* generator) {
  if (uint32_t place = placeOf(generator); place != kInside) return place;
  if (uint32_t place = placeOfGenerator(generator); place != kInside) return place;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(generator));
  if (making_.empty() || making_.back()[0].get() != type) return fixed(generator);
  uint32_t place = provenance().give(generator);
  generators_.emplace(generator, place);
  draws_.push_back(Draw{{}, kInside, std::move(making_.back()), {}, place});
  making_.pop_back();
  return place;
}

Answer Random::calls(PyObject* callable, const Values& args, PyObject*) {
  if (PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    return PyType_IsSubtype(type, generatorType()) ? makesGenerator(type, args) : std::nullopt;
  }
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  bool bound = self && PyObject_TypeCheck(self, generatorType());
  if (!bound && Py_IS_TYPE(callable, &PyMethodDescr_Type) && !args.empty()) self = args[0];
  if (!bound && !(self && PyDescr_TYPE(callable) == generatorType())) return std::nullopt;
  if (!PyObject_TypeCheck(self, generatorType())) return std::nullopt;
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  Ref method = name ? Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(generatorType()), name.get())) : Ref();
  if (!method || !Py_IS_TYPE(method.get(), &PyMethodDescr_Type)) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (speculative()) return stop(Why::AttemptDraws);
  std::vector<Ref> given = held(args, bound ? 0 : 1);
  for (const Ref& each : given) {
    if (!isConstant(each.get()) || !realize(each.get(), true)) return stop(Why::GeneratorArgument);
  }
  expectEnd();
  drawing_ = Draw{method, generatorPlace(self), std::move(given), {}, kInside};
  return true;
}

void Random::drew(PyObject* result) {
  Draw draw = std::move(*drawing_);
  drawing_.reset();
  keep(Ref::borrow(result));
  if (PyFloat_CheckExact(result)) {
    at::Tensor tensor = numberTensor(PyFloat_AS_DOUBLE(result));
    tape().meet(tensor);
    draw.place = provenance().give(result);
    provenance().settle(tensor, draw.place);
    subjects().arrays.addFloat(result, tensor);
  } else {
    draw.expected = Ref::borrow(result);
  }
  draws_.push_back(std::move(draw));
}

// torch.manual_seed and its like take locks and look at every kind of device; to the graph they are one operator each.
Answer Random::callsFunction(PyObject* function, const watch::Arguments& arguments) {
  auto isNamed = [&](const char* name) { return isPartOf(function, name, "torch/random.py"); };
  SeedCall call = isNamed("manual_seed")     ? SeedCall::Seed
                  : isNamed("get_rng_state") ? SeedCall::GetState
                  : isNamed("set_rng_state") ? SeedCall::SetState
                                             : SeedCall::None;
  if (call == SeedCall::None) return std::nullopt;
  if (at::globalContext().hasCUDA()) return stop(Why::SeedsDevices);
  if (speculative()) return stop(Why::AttemptSeeds);
  if (call == SeedCall::SetState && (arguments.positional != 1 || !isTensor(arguments.values[0]))) {
    return std::nullopt;
  }
  if (call == SeedCall::SetState) seed_ = Ref::borrow(arguments.values[0]);
  seedCall_ = call;
  hide(function);
  return true;
}

// It has happened: writing it down does it again, to the same effect.
void Random::changedSeed(PyObject* result) {
  SeedCall call = std::exchange(seedCall_, SeedCall::None);
  Ref state = std::exchange(seed_, Ref());
  if (stopped()) return;
  auto find = [](const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); };
  switch (call) {
    case SeedCall::Seed: {
      auto seed = static_cast<int64_t>(at::detail::getDefaultCPUGenerator().current_seed());
      find("saker::manual_seed").typed<void(int64_t)>().call(seed);
      return;
    }
    case SeedCall::SetState:
      find("saker::set_rng_state").typed<void(const at::Tensor&)>().call(tensorOf(state.get()));
      return;
    case SeedCall::GetState:
      tape().standsFor(tensorOf(result), find("saker::rng_state").typed<at::Tensor()>().call());
      return;
    case SeedCall::None:
      return;
  }
}

bool Random::called(PyObject* callable, PyObject* result, bool spread) {
  if (drawing_ && !spread) {
    drew(result);
    return true;
  }
  if (seedCall_ != SeedCall::None && !spread) changedSeed(result);
  if (!stopped() && !making_.empty() && making_.back()[0].get() == callable) generatorPlace(result);
  return false;
}

void Random::goesOn() {
  if (std::exchange(drawing_, std::nullopt)) tape().spoil(Why::DrawFailed);
}

}  // namespace saker::frontend
