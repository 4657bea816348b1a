// What is called in place of isinstance, type, int, float, len, divmod and functions of math while a call is followed
// with symbols.
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "frontend/class_questions.h"
#include "frontend/kinds.h"
#include "frontend/math_functions.h"
#include "frontend/symbol_doors.h"
#include "host/objects.h"
#include "host/symbol_watch.h"
#include "watch/once.h"

namespace saker::frontend {

bool asksClassOnly(PyObject* classes, int depth) {
  constexpr int kDeepestClass = 8;
  if (depth > kDeepestClass) return false;
  if (PyTuple_Check(classes)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i) {
      if (!asksClassOnly(PyTuple_GET_ITEM(classes, i), depth + 1)) return false;
    }
    return true;
  }
  if (!PyType_Check(classes)) return std::string_view(Py_TYPE(classes)->tp_name) == "types.UnionType";
  static PyObject* const name = PyUnicode_InternFromString("__instancecheck__");
  PyObject* check = _PyType_Lookup(Py_TYPE(classes), name);
  if (!check || !PyFunction_Check(check)) return true;
  constexpr const char* kFiles[] = {"/abc.py", "<frozen abc>", "/typing.py", "torch/nn/parameter.py", "torch/types.py"};
  return std::any_of(std::begin(kFiles), std::end(kFiles),
                     [&](const char* file) { return isPartOf(check, "__instancecheck__", file); });
}

namespace doors {

namespace {

// A number of the kind that a symbol is.
PyObject* sampleOf(PyObject* symbol) {
  static PyObject* const ofInts = PyLong_FromLong(2);
  static PyObject* const ofFloats = PyFloat_FromDouble(1.5);
  Number kind = kindOf(symbol);
  return kind == Number::Int ? ofInts : kind == Number::Float ? ofFloats : Py_True;
}

PyObject* isInstance(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_Format(PyExc_TypeError, "isinstance expected 2 arguments, got %zd", count);
    return nullptr;
  }
  int answer = PyObject_IsInstance(isSymbol(args[0]) ? sampleOf(args[0]) : args[0], args[1]);
  return answer < 0 ? nullptr : PyBool_FromLong(answer);
}

template <PyTypeObject* type>
PyObject* callType(PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(type), args, static_cast<size_t>(count), names);
}

PyObject* typeOf(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 1 && !names && isSymbol(args[0])) {
    return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(sampleOf(args[0]))));
  }
  return callType<&PyType_Type>(args, count, names);
}

PyObject* toInt(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  Number kind = count == 1 && !names ? kindOf(args[0]) : Number::None;
  if (kind == Number::Int) return Py_NewRef(args[0]);
  if (kind == Number::Float) return PyObject_CallMethod(args[0], "__trunc__", nullptr);
  return callType<&PyLong_Type>(args, count, names);
}

PyObject* toFloat(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  Number kind = count == 1 && !names ? kindOf(args[0]) : Number::None;
  if (kind == Number::Float) return Py_NewRef(args[0]);
  if (kind == Number::Int) return PyObject_CallMethod(args[0], "__sym_float__", nullptr);
  return callType<&PyFloat_Type>(args, count, names);
}

bool isFirstSizeSymbol(PyObject* object) {
  static PyObject* const length = PyUnicode_InternFromString("__len__");
  PyObject* method = isTensor(object) ? _PyType_Lookup(Py_TYPE(object), length) : nullptr;
  if (!method || !isPartOf(method, "__len__", "torch/_tensor.py")) return false;
  const at::Tensor& tensor = tensorOf(object);
  return tensor.dim() > 0 && tensor.sym_size(0).is_symbolic();
}

// Python's own makes a number of what __len__ gives. `self`: it.
PyObject* lengthOf(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count == 1 && isFirstSizeSymbol(args[0])) return PyObject_CallMethod(args[0], "__len__", nullptr);
  return PyObject_Vectorcall(self, args, static_cast<size_t>(count), nullptr);
}

// `self`: Python's own.
PyObject* quotientAndRest(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  auto isInt = [](PyObject* object) { return PyLong_CheckExact(object) || kindOf(object) == Number::Int; };
  if (count != 2 || !isSymbol(args[0]) || !isInt(args[0]) || !isInt(args[1])) {
    return PyObject_Vectorcall(self, args, static_cast<size_t>(count), nullptr);
  }
  Ref quotient = Ref::steal(PyNumber_FloorDivide(args[0], args[1]));
  Ref rest = quotient ? Ref::steal(PyNumber_Remainder(args[0], args[1])) : Ref();
  return rest ? PyTuple_Pack(2, quotient.get(), rest.get()) : nullptr;
}

// `self`: the operation and the function of Python's.
PyObject* computes(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Number kind = count == 1 ? kindOf(args[0]) : Number::None;
  if (kind == Number::Int || kind == Number::Float) {
    return applyToSymbol(static_cast<sym::FloatOp>(PyLong_AsLong(PyTuple_GET_ITEM(self, 0))), args[0]).release();
  }
  return PyObject_Vectorcall(PyTuple_GET_ITEM(self, 1), args, static_cast<size_t>(count), nullptr);
}

struct Replacement {
  PyMethodDef method;
  PyObject* original;
  PyObject* self = nullptr;
  PyObject* function = nullptr;
};

std::vector<Replacement> makeReplacements() {
  auto withNames = [](PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
  };
  auto plain = [](PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
  };
  constexpr int kNamed = METH_FASTCALL | METH_KEYWORDS;
  std::vector<Replacement> all = {
      {{"isinstance", plain(&isInstance), METH_FASTCALL, nullptr},
       PyDict_GetItemString(PyEval_GetBuiltins(), "isinstance")},
      {{"type", withNames(&typeOf), kNamed, nullptr}, reinterpret_cast<PyObject*>(&PyType_Type)},
      {{"int", withNames(&toInt), kNamed, nullptr}, reinterpret_cast<PyObject*>(&PyLong_Type)},
      {{"float", withNames(&toFloat), kNamed, nullptr}, reinterpret_cast<PyObject*>(&PyFloat_Type)},
  };
  for (auto [name, function] : {std::pair("len", &lengthOf), std::pair("divmod", &quotientAndRest)}) {
    PyObject* original = PyDict_GetItemString(PyEval_GetBuiltins(), name);
    all.push_back({{name, plain(function), METH_FASTCALL, nullptr}, original, original});
  }
  for (const auto& [name, op] : kMathFunctions) {
    PyObject* original = watch::importedAttribute("math", name.data());  // a literal
    if (!original) continue;
    PyObject* self = Py_BuildValue("(lO)", static_cast<long>(op), original);
    all.push_back({{name.data(), plain(&computes), METH_FASTCALL, nullptr}, original, self});
  }
  return all;
}

std::vector<Replacement>& replacements() {
  static std::vector<Replacement>& all = *new std::vector<Replacement>(makeReplacements());
  for (Replacement& each : all) {
    if (!each.function) each.function = PyCFunction_New(&each.method, each.self);
  }
  return all;
}

}  // namespace

PyObject* insteadOf(PyObject* callable) {
  for (const Replacement& each : replacements()) {
    if (each.original == callable) return each.function;
  }
  return nullptr;
}

PyObject* standsFor(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return nullptr;
  for (const Replacement& each : replacements()) {
    if (each.function == callable) return each.original;
  }
  return nullptr;
}

PyObject* seenInstead(PyObject* callable, const std::vector<PyObject*>& args) {
  if (args.empty() || !isSymbol(args[0])) return nullptr;
  std::string name = nameOf(callable);
  if (name == "len") return args[0];
  if (name == "divmod") return nullptr;
  if (standsFor(callable) == replacements()[0].original) {
    return args.size() == 2 && asksClassOnly(args[1]) ? nullptr : args[0];
  }
  return args.size() == 1 ? nullptr : args[0];
}

}  // namespace doors
}  // namespace saker::frontend
