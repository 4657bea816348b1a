#include "frontend/version.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_map>

#include "frontend/numpy.h"
#include "runtime/interpreter.h"

namespace saker::frontend {

at::Tensor tensorAt(PyObject* object) {
  if (isTensor(object)) return THPVariable_Unpack(object);
  if (PyFloat_CheckExact(object)) return numberTensor(PyFloat_AS_DOUBLE(object));
  if (PyLong_CheckExact(object)) return at::empty({PyLong_AsLongLong(object), 0});
  std::optional<at::Tensor> tensor = numpy::toTensor(object);
  TORCH_CHECK(tensor, "an array of numpy's cannot be seen as a tensor any more");
  return *tensor;
}

std::vector<uint32_t> sharedMemory(const std::vector<at::Tensor>& tensors) {
  std::unordered_map<const c10::StorageImpl*, uint32_t> first;
  std::vector<uint32_t> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const c10::StorageImpl* storage = tensors[i].has_storage() ? tensors[i].storage().unsafeGetStorageImpl() : nullptr;
    out.push_back(first.try_emplace(storage, static_cast<uint32_t>(i)).first->second);
  }
  return out;
}

void Version::settle() {
  guards.wanted = inputs;
  for (const Recipe& recipe : recipes) {
    if (recipe.kind == Recipe::Kind::Place) guards.wanted.push_back(recipe.index);
  }
  guards.wantsAll = false;
}

bool Version::fits(const Ambient& now, const CallArguments& call, std::vector<PyObject*>& found) {
  if (!(ambient == now) || !guards.check(call, found)) return false;
  if (!draws.empty() && !draw(found)) {
    guards.failFor("an int that is drawn at random is another one");
    return false;
  }
  if (!writes && !dynamic) return true;
  std::vector<at::Tensor> tensors;
  for (uint32_t place : inputs) tensors.push_back(tensorAt(found[place]));
  if (writes && !memory.empty() && sharedMemory(tensors) != memory) return false;
  return !dynamic || sizesFit(tensors);
}

bool Version::draw(std::vector<PyObject*>& found) {
  found.resize(guards.places);
  drawn_.clear();
  std::unordered_map<PyObject*, Ref> states;
  bool same = true;
  bool mayDiffer = std::any_of(draws.begin(), draws.end(), [](const Draw& each) { return bool(each.expected); });
  for (const Draw& each : draws) {
    PyObject* generator = each.generator.get();
    if (mayDiffer && !states.contains(generator)) {
      states.emplace(generator, Ref::steal(PyObject_CallMethod(generator, "getstate", nullptr)));
    }
    PyObject* args[] = {generator, each.argument.get()};
    drawn_.push_back(Ref::steal(PyObject_Vectorcall(each.method.get(), args, each.argument ? 2 : 1, nullptr)));
    PyObject* number = drawn_.back().get();
    same = same && number && (!each.expected || sameValue(number, each.expected.get()));
    if (!same) break;
    if (!each.expected) found[each.place] = number;
  }
  PyErr_Clear();
  for (const auto& [generator, state] : states) {
    if (same) break;
    Ref name = Ref::steal(PyUnicode_InternFromString("setstate"));
    Ref done = Ref::steal(PyObject_CallMethodOneArg(generator, name.get(), state.get()));
    PyErr_Clear();
  }
  return same;
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

PyObject* Version::run(const std::vector<PyObject*>& found) {
  HANDLE_TH_ERRORS
  std::vector<at::Tensor> tensors, outputs;
  tensors.reserve(inputs.size());
  for (uint32_t place : inputs) tensors.push_back(tensorAt(found[place]));
  // What recipes take from places lives until they are made, whatever the graph lets go of.
  std::vector<Ref> held;
  for (const Recipe& recipe : recipes) {
    if (recipe.kind == Recipe::Kind::Place) held.push_back(Ref::borrow(found[recipe.index]));
  }
  if (!executor && late) {
    executor = late(tensors);
    late = nullptr;
  }
  inGraph = true;
  if (executor) outputs = executor(tensors);
  inGraph = false;
  Kitchen kitchen(recipes, found, outputs);
  PyObject* made = kitchen.make(result);
  if (!made) return nullptr;
  for (const DoneAgain& effect : effects) {
    std::vector<PyObject*> arguments;
    for (uint32_t number : effect.arguments) {
      arguments.push_back(kitchen.make(number));
      if (!arguments.back()) return nullptr;
    }
    if (!effect.callable) {
      PyCell_Set(arguments[0], arguments[1]);
      continue;
    }
    size_t named = effect.names ? static_cast<size_t>(PyTuple_GET_SIZE(effect.names.get())) : 0;
    Ref done = Ref::steal(
        PyObject_Vectorcall(effect.callable.get(), arguments.data(), arguments.size() - named, effect.names.get()));
    if (!done) return nullptr;
  }
  return Py_NewRef(made);
  END_HANDLE_TH_ERRORS
}

}  // namespace saker::frontend
