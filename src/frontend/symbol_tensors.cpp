#include "frontend/symbol_tensors.h"

#include <array>
#include <string_view>
#include <vector>

#include "frontend/symbol_doors.h"
#include "watch/once.h"
#include "watch/ref.h"

namespace saker::frontend::doors {

namespace {

// Numbers in lists in lists, all of which are of equal length at equal depth.
struct Numbers {
  std::vector<PyObject*> all;
  std::vector<Py_ssize_t> sizes;
  bool floats = false;

  bool add(PyObject* data, size_t depth) {
    constexpr size_t kDeepest = 4, kMost = 64;
    bool isShape = std::string_view(Py_TYPE(data)->tp_name) == "torch.Size";
    if (PyList_CheckExact(data) || PyTuple_CheckExact(data) || isShape) {
      Py_ssize_t length = Py_SIZE(data);
      if (depth == kDeepest || length == 0) return false;
      if (depth == sizes.size() && all.empty()) sizes.push_back(length);
      if (depth >= sizes.size() || sizes[depth] != length) return false;
      for (Py_ssize_t i = 0; i < length; ++i) {
        if (!add(PySequence_Fast_ITEMS(data)[i], depth + 1)) return false;
      }
      return true;
    }
    Number kind = kindOf(data);
    bool isFloat = kind == Number::Float || PyFloat_CheckExact(data);
    if (!isFloat && kind != Number::Int && !PyLong_CheckExact(data)) return false;
    floats |= isFloat;
    all.push_back(data);
    return depth == sizes.size() && all.size() <= kMost;
  }
};

bool takes(const watch::Arguments& arguments, Numbers& numbers) {
  if (arguments.positional != 1 || !numbers.add(arguments.values[0], 0)) return false;
  for (Py_ssize_t i = 0; arguments.names && i < PyTuple_GET_SIZE(arguments.names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(arguments.names, i);
    bool known =
        PyUnicode_CompareWithASCIIString(name, "dtype") == 0 || PyUnicode_CompareWithASCIIString(name, "device") == 0;
    if (!known) return false;
  }
  return true;
}

Ref call(const char* function, Ref args, PyObject* keywords) {
  Ref found = Ref::steal(watch::importedAttribute("torch", function));
  return found && args ? Ref::steal(PyObject_Call(found.get(), args.get(), keywords)) : Ref();
}

// Tensors of `length` of them each; none where an error is set.
std::vector<Ref> stacked(const std::vector<Ref>& parts, size_t length) {
  std::vector<Ref> made;
  for (size_t begin = 0; begin < parts.size(); begin += length) {
    Ref row = Ref::steal(PyList_New(0));
    for (size_t i = 0; row && i < length; ++i) {
      if (PyList_Append(row.get(), parts[begin + i].get()) < 0) return {};
    }
    made.push_back(row ? call("stack", Ref::steal(PyTuple_Pack(1, row.get())), nullptr) : Ref());
    if (!made.back()) return {};
  }
  return made;
}

PyObject* makeTensor(const watch::Arguments& arguments, const Numbers& numbers) {
  Ref keywords = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; arguments.names && i < PyTuple_GET_SIZE(arguments.names); ++i) {
    PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(arguments.names, i), arguments.values[1 + i]);
  }
  PyObject* dtype = PyDict_GetItemString(keywords.get(), "dtype");
  if (!dtype || dtype == Py_None) {
    Ref own = numbers.floats ? call("get_default_dtype", Ref::steal(PyTuple_New(0)), nullptr)
                             : Ref::steal(watch::importedAttribute("torch", "int64"));
    if (!own || PyDict_SetItemString(keywords.get(), "dtype", own.get()) < 0) return nullptr;
  }
  std::vector<Ref> parts;
  for (PyObject* number : numbers.all) {
    parts.push_back(call("scalar_tensor", Ref::steal(PyTuple_Pack(1, number)), keywords.get()));
    if (!parts.back()) return nullptr;
  }
  // Innermost lists first. A reshape of all would give a view, which torch.tensor does not.
  for (size_t depth = numbers.sizes.size(); depth > 0; --depth) {
    parts = stacked(parts, static_cast<size_t>(numbers.sizes[depth - 1]));
    if (parts.empty()) return nullptr;
  }
  return parts.front().release();
}

PyObject* standInCalled(PyObject* original, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  watch::Arguments arguments;
  arguments.values = args;
  arguments.positional = static_cast<size_t>(count);
  arguments.names = names;
  Numbers numbers;
  if (!symbolForTensor(arguments) || !takes(arguments, numbers)) {
    return PyObject_Vectorcall(original, args, static_cast<size_t>(count), names);
  }
  return makeTensor(arguments, numbers);
}

PyMethodDef standInMethod = {"tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&standInCalled)),
                             METH_FASTCALL | METH_KEYWORDS, nullptr};

struct StandIn {
  PyObject* original;
  PyObject* function;
};

const std::array<StandIn, 2>& standIns() {
  static constinit watch::Once<std::array<StandIn, 2>> made;
  return made.get([] {
    auto of = [](const char* name) {
      PyObject* original = watch::importedAttribute("torch", name);
      return StandIn{original, PyCFunction_New(&standInMethod, original)};
    };
    return std::array<StandIn, 2>{of("tensor"), of("as_tensor")};
  });
}

}  // namespace

PyObject* tensorInstead(PyObject* callable) {
  for (const StandIn& each : standIns()) {
    if (each.original == callable) return each.function;
  }
  return nullptr;
}

PyObject* tensorFunction(PyObject* standIn) {
  bool mine = PyCFunction_Check(standIn) && reinterpret_cast<PyCFunctionObject*>(standIn)->m_ml == &standInMethod;
  return mine ? PyCFunction_GET_SELF(standIn) : nullptr;
}

PyObject* symbolForTensor(const watch::Arguments& arguments) {
  size_t count = arguments.positional + (arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0);
  for (size_t i = 0; i < count; ++i) {
    if (PyObject* found = symbolIn(arguments.values[i])) return found;
  }
  return nullptr;
}

bool canMakeTensor(const watch::Arguments& arguments) {
  Numbers numbers;
  return takes(arguments, numbers);
}

}  // namespace saker::frontend::doors
