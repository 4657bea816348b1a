#include "frontend/user_names.h"

#include "frontend/kinds.h"
#include "frontend/operations.h"
#include "host/kept_error.h"
#include "host/objects.h"

namespace saker::frontend {

namespace {

bool isPartial(PyObject* object) { return std::string_view(Py_TYPE(object)->tp_name) == "functools.partial"; }

std::string asText(PyObject* unicode) {
  const char* data = unicode && PyUnicode_Check(unicode) ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (!data) PyErr_Clear();
  return data ? data : "";
}

// The Python function behind a callable: what a method calls, the forward of a module, what a partial keeps.
Ref pythonFunction(PyObject* callable, int depth = 0) {
  if (PyFunction_Check(callable) || depth > 4) return Ref::borrow(callable);
  if (Py_IS_TYPE(callable, &PyMethod_Type)) return pythonFunction(PyMethod_GET_FUNCTION(callable), depth + 1);
  if (isPartial(callable)) {
    Ref function = Ref::steal(PyObject_GetAttrString(callable, "func"));
    PyErr_Clear();
    return function ? pythonFunction(function.get(), depth + 1) : Ref::borrow(callable);
  }
  for (const char* name : {"forward", "__call__"}) {
    Ref key = Ref::steal(PyUnicode_FromString(name));
    PyObject* found = _PyType_Lookup(Py_TYPE(callable), key.get());
    if (found && PyFunction_Check(found)) return Ref::borrow(found);
  }
  return Ref::borrow(callable);
}

// What positional arguments are called; `rest`: what takes those behind them. A decorator's wrapper that takes *args
// has the names of the function that it wraps.
std::vector<std::string> positionalNames(PyObject* function, std::string& rest, int depth = 0) {
  constexpr int kDeepest = 8;
  std::vector<std::string> out;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  Ref names = Ref::steal(PyCode_GetVarnames(code));
  for (int i = 0; names && i < code->co_argcount; ++i) out.push_back(asText(PyTuple_GET_ITEM(names.get(), i)));
  rest.clear();
  if (!names || !(code->co_flags & CO_VARARGS)) return out;
  rest = asText(PyTuple_GET_ITEM(names.get(), code->co_argcount + code->co_kwonlyargcount));
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* wrapped = dict && depth < kDeepest ? PyDict_GetItemString(dict, "__wrapped__") : nullptr;
  if (!wrapped || !PyFunction_Check(wrapped)) return out;
  std::string inner;
  std::vector<std::string> more = positionalNames(wrapped, inner, depth + 1);
  if (more.size() < out.size() || (more.size() == out.size() && inner.empty())) return out;
  rest = inner;
  for (size_t i = out.size(); i < more.size(); ++i) out.push_back(more[i]);
  return out;
}

std::string shortened(std::string text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return text;
  size_t end = kMost - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;  // not inside of a letter
  return text.substr(0, end) + "...";
}

// "an" in front of a vowel.
std::string withArticle(const std::string& noun) {
  bool vowel = !noun.empty() && std::string_view("aeiouAEIOU").find(noun[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + noun;
}

}  // namespace

std::string functionName(PyObject* function) {
  KeptError kept;
  if (isPythonClass(Py_TYPE(function)) && !PyType_Check(function)) {
    return Operations::name(reinterpret_cast<PyObject*>(Py_TYPE(function)));
  }
  Ref inner = isPartial(function) ? pythonFunction(function) : Ref::borrow(function);
  return Operations::name(inner.get());
}

Definition definitionOf(PyObject* function) {
  KeptError kept;
  Ref inner = pythonFunction(function);
  if (!PyFunction_Check(inner.get())) return {};
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(inner.get()));
  return {asText(code->co_filename), code->co_firstlineno};
}

std::string UserNames::positional(size_t index) const {
  if (index < parameters.size()) return parameters[index];
  if (!rest.empty()) return rest + "[" + std::to_string(index - parameters.size()) + "]";
  return "args[" + std::to_string(index) + "]";
}

UserNames namesOf(PyObject* callable) {
  KeptError kept;
  UserNames out;
  bool isMethod = Py_IS_TYPE(callable, &PyMethod_Type);
  bool isObject = !isMethod && !PyFunction_Check(callable) && isPythonClass(Py_TYPE(callable));
  if (isMethod) out.self = PyMethod_GET_SELF(callable);
  if (isObject) out.self = callable;
  if (isPartial(callable)) return out;  // which has given some of them already
  Ref function = pythonFunction(callable);
  if (!PyFunction_Check(function.get())) return out;
  out.module = asText(reinterpret_cast<PyFunctionObject*>(function.get())->func_module);
  out.parameters = positionalNames(function.get(), out.rest);
  if ((isMethod || isObject) && !out.parameters.empty()) out.parameters.erase(out.parameters.begin());
  PyErr_Clear();
  return out;
}

std::string shownName(PyObject* object) {
  constexpr std::string_view kPython = "builtins.";
  std::string name = Operations::name(object);
  return name.starts_with(kPython) ? name.substr(kPython.size()) : name;
}

std::string inWords(PyObject* object) {
  KeptError kept;
  if (!object) return "nothing";
  if (isAtom(object)) {
    Ref text = Ref::steal(PyObject_Repr(object));
    return text ? shortened(asText(text.get())) : "?";
  }
  if (isNamed(object)) return PyModule_Check(object) ? "the module " + nameOf(object) : shownName(object);
  if (isTensor(object)) return "a tensor";
  if (Py_IS_TYPE(object, &PyMethod_Type)) return "the method " + Operations::name(PyMethod_GET_FUNCTION(object));
  std::string name = Py_TYPE(object)->tp_name;
  return isPythonClass(Py_TYPE(object)) ? "an object of class " + name : withArticle(name);
}

}  // namespace saker::frontend
