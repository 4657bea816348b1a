#include "frontend/symbol_doors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "frontend/class_questions.h"
#include "frontend/kinds.h"
#include "host/objects.h"
#include "watch/loop.h"
#include "watch/once.h"

namespace saker::frontend::doors {

namespace {

using watch::Binary;
using Values = std::vector<PyObject*>;

constexpr int kDeepestSymbol = 8;

// What an object of C refers to: its type tells the garbage collector.
int visitPart(PyObject* part, void* found) {
  auto* search = static_cast<std::pair<PyObject*, int>*>(found);
  if (!search->first) search->first = symbolIn(part, search->second + 1);
  return 0;
}

PyObject* symbolInParts(PyObject* object, int depth) {
  std::pair<PyObject*, int> search{nullptr, depth};
  if (traverseproc traverse = Py_TYPE(object)->tp_traverse) traverse(object, &visitPart, &search);
  return search.first;
}

bool looksLikeIterator(PyTypeObject* type) {
  return !isPythonClass(type) && type->tp_iternext && type != &PyGen_Type && type != &PyCoro_Type;
}

// Numbers with which arithmetic and comparisons of symbols are those of Python's numbers.
bool isPlainNumber(PyObject* object) {
  if (isSymbol(object) || PyFloat_CheckExact(object) || PyBool_Check(object)) return true;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

// What symbols can be compared with: such numbers, what equals no number, and what compares by code of the program.
bool isComparable(PyObject* object, int depth = 0) {
  if (depth > kDeepestSymbol) return false;
  if (isPlainNumber(object) || object == Py_None || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
      isTensor(object) || isNamed(object)) {
    return true;
  }
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
      if (!isComparable(PySequence_Fast_ITEMS(object)[i], depth + 1)) return false;
    }
    return true;
  }
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!isComparable(value, depth + 1)) return false;
    }
    return true;
  }
  return PyAnySet_Check(object) || Py_IS_TYPE(object, &PyRange_Type) ||
         (isPythonClass(Py_TYPE(object)) && !isDerivedValue(object));
}

bool isFloat(PyObject* number) { return PyFloat_Check(number) || kindOf(number) == Number::Float; }

// Is the number that a symbol stands for, or the number itself, so? That becomes a guard.
bool isSo(PyObject* number, int comparison, double than) {
  watch::Pause pause;
  Ref other = Ref::steal(isFloat(number) ? PyFloat_FromDouble(than) : PyLong_FromDouble(than));
  int answer = PyObject_RichCompareBool(number, other.get(), comparison);
  if (answer < 0) PyErr_Clear();
  return answer > 0;
}

// A power of a number that is no symbol: far from where it is too large, or zero to a negative power.
bool isTameExponent(double base, PyObject* exponent) {
  constexpr double kMostBits = 1000;
  if (!(base > 0) || !std::isfinite(base)) return false;
  double bits = std::log2(base);
  if (bits > 0) return isSo(exponent, Py_LE, std::floor(kMostBits / bits));
  return bits == 0 || isSo(exponent, Py_GE, std::ceil(kMostBits / bits));
}

// Powers of floats raise, or are complex, where the functions of C behind symbols are not a number.
bool isTamePower(PyObject* base, PyObject* exponent) {
  constexpr double kMost = 4, kLargest = 1e70;
  bool ints = !isFloat(base) && !isFloat(exponent);
  if (ints && isSymbol(exponent)) return false;
  double number = isSymbol(exponent) ? isSymbol(base) ? -1 : PyFloat_AsDouble(base) : PyFloat_AsDouble(exponent);
  if (PyErr_Occurred()) PyErr_Clear();
  if (isSymbol(exponent)) return isTameExponent(number, exponent);
  if (ints && number >= 0) return number <= kMost;
  if (!(std::abs(number) <= kMost)) return false;
  if (kindOf(base) != Number::Float) return isSo(base, Py_GT, 0);
  return isSo(base, Py_GE, 1 / kLargest) && isSo(base, Py_LE, kLargest);
}

bool isIndexed(PyObject* container) {
  return PyList_Check(container) || PyTuple_Check(container) || PyUnicode_Check(container) ||
         PyBytes_Check(container) || Py_IS_TYPE(container, &PyRange_Type) || isTensor(container) || isDeque(container);
}

bool isPythonCode(PyObject* object) { return isPythonClass(Py_TYPE(object)) && !isDerivedValue(object); }

// These ask for the index of a number, which floats lack: the error that says so names the class.
bool asksForIndex(const std::string& name) {
  static const std::unordered_set<std::string> all = {
      "range",   "bin",     "hex",      "oct",      "chr",         "index",       "gcd",
      "lcm",     "isqrt",   "insert",   "pop",      "rotate",      "repeat",      "islice",
      "indices", "__mul__", "__rmul__", "__imul__", "__getitem__", "__setitem__", "__delitem__"};
  return all.contains(name);
}

// Functions of C that take numbers by their arithmetic, their index or their truth, or keep them as they are.
bool takesNumbers(const std::string& module, const std::string& name) {
  static const std::unordered_set<std::string> builtins = {
      "abs", "all", "any", "max",  "min",   "sum", "sorted",    "iter",   "bool", "range",    "list",  "bin",
      "hex", "oct", "chr", "dict", "tuple", "zip", "enumerate", "filter", "map",  "reversed", "slice", "object"};
  static const std::unordered_set<std::string> operators = {
      "abs", "neg", "pos", "not_", "truth", "index", "getitem", "itemgetter", "attrgetter", "methodcaller", "concat"};
  static const std::unordered_set<std::string> rounding = {"floor", "ceil", "trunc", "sqrt", "prod",  "log", "log2",
                                                           "log10", "exp",  "pow",   "gcd",  "isqrt", "lcm"};
  if (module == "builtins") return builtins.contains(name);
  if (module == "_operator") return operators.contains(name);
  if (module == "math") return rounding.contains(name);
  if (module == "functools" || module == "_functools") {
    return name == "partial" || name == "reduce" || name == "cmp_to_key";
  }
  if (module == "collections") return name == "deque" || name == "OrderedDict" || name == "defaultdict";
  if (module == "types") return name == "SimpleNamespace" || name == "MethodType" || name == "MappingProxyType";
  return module == "itertools";
}

// Methods of types of C, by the type that has them.
bool methodTakesNumbers(PyTypeObject* owner, const std::string& name) {
  static const std::unordered_set<std::string> ofSequences = {
      "append", "appendleft", "extend",       "extendleft", "insert",      "pop",         "popleft",      "index",
      "count",  "copy",       "__add__",      "__iadd__",   "__mul__",     "__imul__",    "__rmul__",     "__getitem__",
      "remove", "reverse",    "__contains__", "__iter__",   "__setitem__", "__delitem__", "__reversed__", "numel",
      "sort",   "clear",      "__eq__",       "__ne__",     "__lt__",      "__le__",      "__gt__",       "__ge__",
      "rotate", "__init__",   "__new__",      "__len__"};
  static const std::unordered_set<std::string> ofDicts = {"items",   "keys",  "values",  "copy",     "__iter__",
                                                          "__len__", "clear", "popitem", "__init__", "__new__"};
  if (owner == &PyList_Type || PyType_IsSubtype(owner, &PyTuple_Type) ||
      std::string_view(owner->tp_name) == "collections.deque") {
    return ofSequences.contains(name);
  }
  if (PyType_IsSubtype(owner, &PyDict_Type)) return ofDicts.contains(name);
  if (owner == &PySlice_Type) return name == "indices";
  return PyExceptionClass_Check(reinterpret_cast<PyObject*>(owner)) && (name == "__init__" || name == "__new__");
}

// The type whose method this is, be it bound or not; nullptr: it is a function.
PyTypeObject* ownerOf(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type) {
    return PyDescr_TYPE(callable);
  }
  if (type == &_PyMethodWrapper_Type) {
    Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    PyErr_Clear();
    return self ? nativeBase(Py_TYPE(self.get())) : nullptr;
  }
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  if (!self || PyModule_Check(self)) return nullptr;
  return PyType_Check(self) ? nativeBase(reinterpret_cast<PyTypeObject*>(self)) : nativeBase(Py_TYPE(self));
}

PyObject* symbolAmong(const Values& args) {
  for (PyObject* arg : args) {
    if (PyObject* found = symbolIn(arg)) return found;
  }
  return nullptr;
}

// A binary operator by the name of its function.
std::optional<Binary> binaryNamed(const std::string& name) {
  static const std::unordered_map<std::string, Binary> all = {{"add", Binary::Add},
                                                              {"sub", Binary::Subtract},
                                                              {"mul", Binary::Multiply},
                                                              {"mod", Binary::Remainder},
                                                              {"floordiv", Binary::FloorDivide},
                                                              {"pow", Binary::Power},
                                                              {"and_", Binary::And},
                                                              {"truediv", Binary::TrueDivide},
                                                              {"or_", Binary::Or},
                                                              {"xor", Binary::Xor},
                                                              {"lshift", Binary::Lshift},
                                                              {"rshift", Binary::Rshift},
                                                              {"matmul", Binary::MatrixMultiply}};
  std::string plain = name.size() > 1 && name[0] == 'i' ? name.substr(1) : "";
  for (const std::string& each : {name, plain, plain + "_"}) {
    if (auto found = all.find(each); found != all.end()) return found->second;
  }
  return std::nullopt;
}

bool isComparison(const std::string& name) {
  return name == "eq" || name == "ne" || name == "lt" || name == "le" || name == "gt" || name == "ge";
}

PyObject* seenByPure(PyObject* callable, const Values& args) {
  PyObject* symbol = symbolAmong(args);
  PyTypeObject* owner = PyType_Check(callable) ? nullptr : ownerOf(callable);
  std::string name = nameOf(callable), module = moduleOf(callable);
  if (!symbol) return nullptr;
  if (asksForIndex(name)) {
    for (PyObject* arg : args) {
      if (kindOf(arg) == Number::Float) return arg;
    }
  }
  if (owner) return methodTakesNumbers(owner, name) ? nullptr : symbol;
  if (module == "_operator" && args.size() == 2) {
    if (std::optional<Binary> op = binaryNamed(name)) return seenByBinary(*op, args[0], args[1]);
    if (isComparison(name)) return seenByComparison(args[0], args[1]);
    if (name == "contains") return seenByContains(args[0], args[1]);
    if (name == "getitem") return seenByItem(args[0], args[1]);
  }
  if (module == "builtins" && name == "divmod" && args.size() == 2) {
    return seenByBinary(Binary::FloorDivide, args[0], args[1]);
  }
  if (module == "builtins" && name == "pow" && args.size() == 2) return seenByBinary(Binary::Power, args[0], args[1]);
  if (module == "builtins" && name == "round" && args.size() == 1) return nullptr;
  if (module == "torch" && name == "Size") return nullptr;
  return takesNumbers(module, name) ? nullptr : symbol;
}

// These store numbers by themselves, and those of a symbol without asking whether they fit.
bool storesNumbers(PyObject* callable) {
  static const std::unordered_set<std::string> all = {"tensor", "as_tensor", "asarray", "new_tensor", "new"};
  std::string name = nameOf(callable);
  return all.contains(name) || name.starts_with("sparse_");
}

// Of a class of tensors that is called: symbols by themselves, or those of a shape, are sizes; others are stored.
PyObject* storedByClass(const Values& args) {
  for (PyObject* arg : args) {
    bool sizes = isSymbol(arg) || std::string_view(Py_TYPE(arg)->tp_name) == "torch.Size";
    if (PyObject* found = sizes ? nullptr : symbolIn(arg)) return found;
  }
  return nullptr;
}

// Of the key of a tensor: numbers that stand in a list there are stored in a tensor of indices.
PyObject* symbolInLists(PyObject* key) {
  if (PyList_Check(key)) return symbolIn(key);
  for (Py_ssize_t i = 0; PyTuple_Check(key) && i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* part = PyTuple_GET_ITEM(key, i);
    PyObject* found = PyList_Check(part) || PyTuple_Check(part) ? symbolIn(part) : nullptr;
    if (found) return found;
  }
  return nullptr;
}

PyObject* seenByMutation(PyObject* callable, const Values& args) {
  PyTypeObject* owner = ownerOf(callable);
  std::string name = nameOf(callable);
  for (PyObject* arg : args) {
    if (asksForIndex(name) && kindOf(arg) == Number::Float) return arg;
  }
  if (owner && methodTakesNumbers(owner, name)) return nullptr;
  if (args.empty()) return nullptr;
  bool ofDict = PyDict_Check(args[0]);
  // Values may be symbols, keys not.
  if (ofDict && (name == "__setitem__" || name == "setdefault" || name == "pop" || name == "__delitem__")) {
    return args.size() > 1 ? symbolIn(args[1]) : nullptr;
  }
  if (ofDict && (name == "update" || name == "__ior__") && (args.size() < 2 || PyDict_Check(args[1]))) return nullptr;
  if (moduleOf(callable) == "_operator" && args.size() == 2) {
    if (std::optional<Binary> op = binaryNamed(name)) return seenByBinary(*op, args[0], args[1]);
  }
  return symbolAmong(args);
}

}  // namespace

Number kindOf(PyObject* object) {
  struct Classes {
    PyObject *ofInts, *ofFloats, *ofBools;
  };
  static constinit watch::Once<Classes> found;
  const Classes& classes = found.get([] {
    return Classes{watch::importedAttribute("torch", "SymInt"), watch::importedAttribute("torch", "SymFloat"),
                   watch::importedAttribute("torch", "SymBool")};
  });
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type == classes.ofInts) return Number::Int;
  if (type == classes.ofFloats) return Number::Float;
  return type == classes.ofBools ? Number::Bool : Number::None;
}

PyObject* symbolIn(PyObject* object, int depth) {
  if (isSymbol(object)) return object;
  if (depth > kDeepestSymbol) return nullptr;
  auto among = [&](PyObject* const* items, Py_ssize_t count) -> PyObject* {
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (PyObject* found = symbolIn(items[i], depth + 1)) return found;
    }
    return nullptr;
  };
  if (PyTuple_Check(object) || PyList_Check(object)) return among(PySequence_Fast_ITEMS(object), Py_SIZE(object));
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (PyObject* found = symbolIn(value, depth + 1)) return found;
    }
    return nullptr;
  }
  if (PyExceptionInstance_Check(object)) {
    PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(object)->args;
    return args ? symbolIn(args, depth + 1) : nullptr;
  }
  PyTypeObject* type = Py_TYPE(object);
  std::string_view name = type->tp_name;
  bool holds = type == &PySlice_Type || type == &PyDictValues_Type || type == &PyDictItems_Type ||
               type == &PyDictProxy_Type || isDeque(object) || looksLikeIterator(type) || name == "functools.partial" ||
               name == "types.SimpleNamespace";
  if (type == &PyMethod_Type) return symbolIn(PyMethod_GET_SELF(object), depth + 1);
  return holds ? symbolInParts(object, depth) : nullptr;
}

PyObject* seenByUnary(watch::Unary op, PyObject* operand) {
  return op == watch::Unary::Invert && isSymbol(operand) ? operand : nullptr;
}

PyObject* seenByBinary(Binary op, PyObject* left, PyObject* right) {
  bool text = PyUnicode_Check(left) || PyBytes_Check(left) || PyByteArray_Check(left);
  if (op == Binary::Remainder && text) return symbolIn(right);
  bool leftIs = isSymbol(left), rightIs = isSymbol(right);
  if (!leftIs && !rightIs) return nullptr;
  PyObject* symbol = leftIs ? left : right;
  PyObject* other = leftIs ? right : left;
  if (isTensor(other) || isPythonCode(other)) return nullptr;
  // Sequences are repeated by an index.
  if (op == Binary::Multiply && kindOf(symbol) == Number::Int &&
      (PyList_Check(other) || PyTuple_Check(other) || PyUnicode_Check(other) || PyBytes_Check(other))) {
    return nullptr;
  }
  if (!isPlainNumber(other)) return symbol;
  bool floats = isFloat(left) || isFloat(right);
  switch (op) {
    case Binary::Add:
    case Binary::Subtract:
    case Binary::Multiply:
    case Binary::TrueDivide:
      return nullptr;
    case Binary::FloorDivide:  // PyTorch rounds those of floats in another way
    case Binary::Remainder:
      return floats ? symbol : nullptr;
    case Binary::Power:
      return isTamePower(left, right) ? nullptr : symbol;
    default:
      return symbol;
  }
}

PyObject* seenByComparison(PyObject* left, PyObject* right) {
  PyObject* symbol = symbolIn(left);
  if (!symbol) symbol = symbolIn(right);
  return !symbol || (isComparable(left) && isComparable(right)) ? nullptr : symbol;
}

PyObject* seenByIdentity(PyObject* left, PyObject* right) {
  PyObject* symbol = isSymbol(left) ? left : isSymbol(right) ? right : nullptr;
  if (!symbol) return nullptr;
  PyObject* other = symbol == left ? right : left;
  // No number is None, True, a tensor or the like.
  bool number = isSymbol(other) || PyLong_CheckExact(other) || PyFloat_CheckExact(other);
  return number ? symbol : nullptr;
}

PyObject* seenByContains(PyObject* container, PyObject* item) {
  PyObject* symbol = symbolIn(item);
  if (isPythonCode(container)) return nullptr;
  bool hashes = PyDict_Check(container) || PyAnySet_Check(container) || Py_IS_TYPE(container, &PyDictKeys_Type);
  if (symbol && (hashes || !isIndexed(container) || PyUnicode_Check(container) || PyBytes_Check(container))) {
    return symbol;
  }
  return isTensor(container) ? nullptr : seenByComparison(container, item);
}

PyObject* seenByItem(PyObject* container, PyObject* key) {
  if (isSymbol(container)) return container;
  PyObject* symbol = symbolIn(key);
  if (symbol && isTensor(container)) return symbolInLists(key);
  if (!symbol || isPythonCode(container)) return nullptr;
  return isIndexed(container) && kindOf(symbol) == Number::Int ? nullptr : symbol;
}

PyObject* seenByCall(Behaviour behaviour, PyObject* callable, const Values& args) {
  static const std::unordered_set<std::string> shallow = {
      "callable", "object", "super", "__new__", "__init__", "SimpleNamespace", "MethodType", "send", "with_traceback"};
  switch (behaviour) {
    case Behaviour::Pure:
    case Behaviour::Content:
    case Behaviour::Text:
      return seenByPure(callable, args);
    case Behaviour::Shallow: {
      std::string name = nameOf(callable);
      if (shallow.contains(name) || name.starts_with("_has_torch_function")) return nullptr;
      if (PyType_Check(callable) && PyExceptionClass_Check(callable)) return nullptr;
      return symbolAmong(args);
    }
    case Behaviour::Identity: {
      std::string name = nameOf(callable);
      if (name == "id") return args.empty() || !isSymbol(args[0]) ? nullptr : args[0];
      return symbolAmong(args);
    }
    case Behaviour::Tensor:
      if (PyType_Check(callable)) return storedByClass(args);
      return storesNumbers(callable) ? symbolAmong(args) : nullptr;
    case Behaviour::Lookup:
      return args.size() < 2 ? nullptr : seenByItem(args[0], args[1]);
    case Behaviour::Length:
      return args.empty() || !isSymbol(args[0]) ? nullptr : args[0];
    case Behaviour::Mutates:
      return !args.empty() && isTensor(args[0]) ? nullptr : seenByMutation(callable, args);
    case Behaviour::OfError:
      return shallow.contains(nameOf(callable)) ? nullptr : symbolAmong(args);
    case Behaviour::Belongs:
      // A list or a tuple of symbols has a class of its own.
      if (args.size() == 2 && !isSymbol(args[0]) && asksClassOnly(args[1])) return nullptr;
      return symbolAmong(args);
    case Behaviour::OfClass:
    case Behaviour::Host:
    case Behaviour::Warns:
    case Behaviour::Asks:
    case Behaviour::Sets:
      return symbolAmong(args);
    default:
      return nullptr;
  }
}

PyObject* callsUnseen(const Values& args) {
  for (PyObject* given : args) {
    Ref called = Ref::borrow(given);
    while (called && std::string_view(Py_TYPE(called.get())->tp_name) == "functools.partial") {
      called = Ref::steal(PyObject_GetAttrString(called.get(), "func"));
    }
    PyErr_Clear();
    if (!called) return given;
    PyObject* arg = called.get();
    if (PyFunction_Check(arg) || Py_IS_TYPE(arg, &PyMethod_Type) || !PyCallable_Check(arg)) continue;
    auto* type = PyType_Check(arg) ? reinterpret_cast<PyTypeObject*>(arg) : Py_TYPE(arg);
    if (isPythonClass(type)) continue;
    static const std::unordered_set<std::string> known = {"int", "float", "str", "repr", "len", "set", "frozenset"};
    std::string name = nameOf(arg), module = moduleOf(arg);
    bool number = module == "_operator" && (isComparison(name) || name == "add" || name == "mul" || name == "sub");
    if (number || takesNumbers(module, name) || (module == "builtins" && known.contains(name))) continue;
    if (Operations::table().ofCall(arg) == Behaviour::Tensor) continue;
    if (std::string_view(Py_TYPE(arg)->tp_name) == "operator.itemgetter") continue;
    return given;
  }
  return nullptr;
}

}  // namespace saker::frontend::doors
