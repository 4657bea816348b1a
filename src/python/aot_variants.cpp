#include "python/aot_variants.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "host/objects.h"
#include "host/subclass_form.h"

namespace saker::python {

bool Structure::operator==(const Structure& other) const {
  if (flat != other.flat || constants.size() != other.constants.size() || parameters != other.parameters) return false;
  if (flat) return true;
  if (tree != other.tree) return false;
  return std::equal(constants.begin(), constants.end(), other.constants.begin(),
                    [](const Ref& a, const Ref& b) { return sameConstant(a.get(), b.get()); });
}

int Structure::traverse(const Visitor& visit) const {
  if (int stop = tree.traverse(visit)) return stop;
  return visit(constants);
}

CallArguments::CallArguments(PyObject* const* args, size_t count, PyObject* names, const ModuleTensors* module)
    : args(args), count(count), names(names), module(module) {
  if (module) {
    for (const Ref& tensor : module->tensors) add(tensor.get());
  }
  if (!takeTensors()) flatten();
}

void CallArguments::add(PyObject* tensor) {
  if (!module && Py_TYPE(tensor) != tensorClass()) structure.parameters.push_back(tensors.size());
  tensors.push_back(THPVariable_Unpack(tensor));
  answersItself = answersItself || (answersCalls(Py_TYPE(tensor)) && !isWrapperClass(Py_TYPE(tensor)));
}

bool CallArguments::takeTensors() {
  if (names && PyTuple_GET_SIZE(names) != 0) return false;
  size_t before = tensors.size();
  tensors.reserve(before + count);
  for (size_t i = 0; i < count; ++i) {
    if (!THPVariable_Check(args[i])) {
      tensors.resize(before);
      structure.parameters.clear();
      return false;
    }
    add(args[i]);
  }
  return true;
}

void CallArguments::flatten() {
  structure.flat = false;
  std::vector<Ref> leaves;
  auto given = py::reinterpret_steal<py::tuple>(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(given.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  structure.tree.add(given.ptr(), leaves);
  structure.tree.add(named().ptr(), leaves);
  for (Ref& leaf : leaves) {
    bool tensor = THPVariable_Check(leaf.get());
    if (tensor) add(leaf.get());
    structure.constants.push_back(tensor ? Ref() : std::move(leaf));
  }
}

py::tuple CallArguments::positional() const {
  size_t before = module ? 1 : 0;
  py::tuple tuple(before + count);
  if (module) {
    py::dict state;
    for (size_t i = 0; i < module->tensors.size(); ++i) {
      state[py::handle((*module->names)[i].get())] = py::handle(module->tensors[i].get());
    }
    tuple[0] = state;
  }
  for (size_t i = 0; i < count; ++i) tuple[before + i] = py::reinterpret_borrow<py::object>(args[i]);
  return tuple;
}

py::dict CallArguments::named() const {
  py::dict dict;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    dict[py::handle(PyTuple_GET_ITEM(names, i))] =
        py::reinterpret_borrow<py::object>(args[count + static_cast<size_t>(i)]);
  }
  return dict;
}

uint64_t hashOf(const aot::Signature& signature) {
  uint64_t hash = signature.size();
  for (uint64_t part : signature) hash = (hash ^ part) * 0x9e3779b97f4a7c15ull + (hash >> 29);
  return hash;
}

Variant variantOf(const py::tuple& made) {
  Variant out;
  if (py::object(made[0]).is_none()) {
    py::object awaited = made[2];
    if (!awaited.is_none()) out.awaited = Ref::borrow(awaited.ptr());
    return out;
  }
  out.native = made[0].cast<std::shared_ptr<aot::CompiledFunction>>();
  out.results = made[1].cast<std::shared_ptr<ResultTree>>();
  return out;
}

Variant compileFunction(PyObject* compile, const py::object& function, const py::tuple& args, const py::dict& kwargs) {
  return variantOf(py::handle(compile)(function, args, kwargs));
}

Variant& Variants::get(PyObject* compile, PyObject* function, const CallArguments& call) {
  aot::Signature signature = aot::signatureOf(call.tensors);
  uint64_t hash = hashOf(signature) ^ call.structure.tree.hash();
  auto matches = [&](const Key& key) { return key.signature == signature && key.structure == call.structure; };
  if (Variant* found = compiled_.find(hash, matches)) return *found;
  Variant made =
      compileFunction(compile, py::reinterpret_borrow<py::object>(function), call.positional(), call.named());
  return compiled_.add(hash, {call.structure, std::move(signature)}, std::move(made));
}

int Variants::traverse(const Visitor& visit) const {
  return compiled_.each([&](const auto& entry) {
    if (int stop = entry.key.structure.traverse(visit)) return stop;
    if (int stop = visit(entry.value.awaited)) return stop;
    bool alone = entry.value.results && entry.value.results.use_count() == 1;
    return alone ? entry.value.results->traverse(visit) : 0;
  });
}

}  // namespace saker::python
