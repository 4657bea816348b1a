// Guards in words, for reports and logs.
#include <ATen/core/Tensor.h>
#include <structmember.h>

#include <sstream>

#include "frontend/guards.h"
#include "frontend/kinds.h"
#include "frontend/operations.h"
#include "frontend/user_names.h"
#include "host/objects.h"

namespace saker::frontend {

namespace {

std::string dims(c10::IntArrayRef values) {
  std::string out = "(";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + ")";
}

// Numbers, strings and the like as they are; of tensors and objects of the program, which may hold much and have code
// of their own, what they are.
std::string repr(PyObject* object) {
  if (isTensor(object)) {
    const at::Tensor& tensor = tensorOf(object);
    std::string name =
        Py_TYPE(object) == tensorClass() ? "tensor" : nameOf(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    bool sizes = tensor.defined() && !tensor.is_nested() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    return "<" + name + (sizes ? " " + dims(tensor.sizes()) : "") + ">";
  }
  if (PyTuple_CheckExact(object)) {
    std::string out;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      out += (i ? ", " : "") + repr(PyTuple_GET_ITEM(object, i));
    return "(" + out + (PyTuple_GET_SIZE(object) == 1 ? ",)" : ")");
  }
  if (!isAtom(object) && !isNamed(object) && isPythonClass(Py_TYPE(object)) && !isDerivedValue(object)) {
    return "<" + nameOf(reinterpret_cast<PyObject*>(Py_TYPE(object))) + " object>";
  }
  Ref text = Ref::steal(PyObject_Repr(object));
  const char* data = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!data) {
    PyErr_Clear();
    return "?";
  }
  std::string out = data;
  constexpr size_t kMost = 80;
  if (out.size() > kMost) out.replace(kMost - 3, std::string::npos, "...");
  return out;
}

// One text for each key.
std::string whichKey(PyObject* key) {
  if (isAtom(key)) return repr(key);
  std::ostringstream out;
  out << "<" << Py_TYPE(key)->tp_name << " at " << key << ">";
  return out.str();
}

std::string textOfKey(PyObject* key) {
  const char* data = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
  if (!data) PyErr_Clear();
  return data ? data : repr(key);
}

const GuardInstruction* loadOf(const Guards& guards, uint32_t place) {
  for (const GuardInstruction& at : guards.instructions) {
    if (at.place == place && at.op <= GuardOp::ContextValue) return &at;
  }
  return nullptr;
}

// The variable of an enclosing function that a cell is: as one of the functions that were called names it.
std::string cellName(const Guards& guards, PyObject* cell) {
  for (const GuardInstruction& at : guards.instructions) {
    if (at.op != GuardOp::Fixed || !PyFunction_Check(at.object.get())) continue;
    PyObject* closure = PyFunction_GET_CLOSURE(at.object.get());
    Ref names = Ref::steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(at.object.get()))));
    for (Py_ssize_t i = 0; closure && names && i < PyTuple_GET_SIZE(closure); ++i) {
      if (PyTuple_GET_ITEM(closure, i) == cell) return textOfKey(PyTuple_GET_ITEM(names.get(), i));
    }
  }
  return "a variable of an enclosing function";
}

std::string shownFixed(const Guards& guards, PyObject* object) {
  if (object == guards.names.self) return "self";
  if (PyCell_Check(object)) return cellName(guards, object);
  if (PyModule_Check(object)) return textAttribute(object, "__name__");
  if (PyFunction_Check(object)) return textAttribute(object, "__qualname__");
  if (PyType_Check(object)) return Operations::name(object);
  return std::string("<") + Py_TYPE(object)->tp_name + " object>";
}

// Globals have no owner in the user's code; neither do the dicts in which a module keeps its parts.
std::string shownKey(const Guards& guards, const GuardInstruction& at) {
  const GuardInstruction* owner = loadOf(guards, at.parent);
  if (owner && owner->op == GuardOp::Fixed && PyDict_Check(owner->object.get()) && PyUnicode_Check(at.object.get())) {
    PyObject* name = PyDict_GetItemString(owner->object.get(), "__name__");
    std::string module = name && PyUnicode_Check(name) ? textOfKey(name) : "";
    bool plain = module.empty() || module == guards.names.module || module == "builtins";
    if (name) return (plain ? "" : module + ".") + textOfKey(at.object.get());
  }
  bool isPart = owner && PyUnicode_Check(at.object.get()) &&
                (owner->op == GuardOp::Key || owner->op == GuardOp::Attribute) && PyUnicode_Check(owner->object.get());
  std::string kept = isPart ? textOfKey(owner->object.get()) : "";
  if (kept == "_modules" || kept == "_parameters" || kept == "_buffers") {
    const GuardInstruction* above = loadOf(guards, owner->parent);
    bool byDict = owner->op == GuardOp::Key && above && above->op == GuardOp::DictOf;
    if (byDict || owner->op == GuardOp::Attribute) {
      std::string part = textOfKey(at.object.get()), module = guards.shown(byDict ? above->parent : owner->parent);
      bool isNumber = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
      return isNumber ? module + "[" + part + "]" : module + "." + part;
    }
  }
  return guards.shown(at.parent) + "[" + repr(at.object.get()) + "]";
}

// A member of a class with __slots__.
std::string slotName(const Guards& guards, const GuardInstruction& slot) {
  for (const GuardInstruction& at : guards.instructions) {
    if (at.place != slot.parent || at.op != GuardOp::IsType) continue;
    PyObject* order = reinterpret_cast<PyTypeObject*>(at.object.get())->tp_mro;
    for (Py_ssize_t i = 0; order && i < PyTuple_GET_SIZE(order); ++i) {
      PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i))->tp_dict;
      Py_ssize_t position = 0;
      PyObject *key = nullptr, *value = nullptr;
      while (dict && PyDict_Next(dict, &position, &key, &value)) {
        if (!Py_IS_TYPE(value, &PyMemberDescr_Type)) continue;
        if (reinterpret_cast<PyMemberDescrObject*>(value)->d_member->offset == slot.number) return textOfKey(key);
      }
    }
  }
  return "<slot>";
}

}  // namespace

std::string Guards::shown(uint32_t place) const {
  for (const GuardInstruction& at : instructions) {
    if (at.place != place || at.op > GuardOp::ContextValue) continue;
    switch (at.op) {
      case GuardOp::Positional:
        return names.positional(static_cast<size_t>(at.number));
      case GuardOp::Fixed:
        return shownFixed(*this, at.object.get());
      case GuardOp::Attribute:
        return shown(at.parent) + "." + textOfKey(at.object.get());
      case GuardOp::Slot:
        return shown(at.parent) + "." + slotName(*this, at);
      case GuardOp::Item:
        return shown(at.parent) + "[" + std::to_string(at.number) + "]";
      case GuardOp::Cell:
        return shown(at.parent);  // a cell is named as the variable is
      case GuardOp::Key:
        return shownKey(*this, at);
      case GuardOp::Gradient:
        return shown(at.parent) + ".grad";
      case GuardOp::MethodSelf:
        return shown(at.parent) + ".__self__";
      case GuardOp::MethodFunction:
        return shown(at.parent) + ".__func__";
      case GuardOp::DictOf:
        return shown(at.parent) + ".__dict__";
      case GuardOp::Referent:
        return shown(at.parent) + "()";
      default:
        return expression(place);
    }
  }
  return "?";
}

std::string Guards::expression(uint32_t place) const {
  for (const GuardInstruction& at : instructions) {
    if (at.place != place || at.op > GuardOp::ContextValue) continue;
    auto name = [&] { return std::string(PyUnicode_Check(at.object.get()) ? PyUnicode_AsUTF8(at.object.get()) : "?"); };
    switch (at.op) {
      case GuardOp::Positional:
        return "args[" + std::to_string(at.number) + "]";
      case GuardOp::Keyword:
        return name();
      case GuardOp::FrameLocal:
      case GuardOp::FrameUnbound:
        return name();
      case GuardOp::FrameStack:
        return "stack[" + std::to_string(at.number) + "]";
      case GuardOp::FunctionMode:
        return "function mode " + std::to_string(at.number);
      case GuardOp::Fixed:
        if (PyModule_Check(at.object.get())) return PyModule_GetName(at.object.get());
        if (PyFunction_Check(at.object.get())) {
          return PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(at.object.get())->func_qualname);
        }
        return std::string("<") + Py_TYPE(at.object.get())->tp_name + " " +
               std::to_string(reinterpret_cast<uintptr_t>(at.object.get())) + ">";
      case GuardOp::Attribute:
        return expression(at.parent) + "." + name();
      case GuardOp::Slot:
        return expression(at.parent) + ".<slot " + std::to_string(at.number) + ">";
      case GuardOp::Item:
        return expression(at.parent) + "[" + std::to_string(at.number) + "]";
      case GuardOp::Key:
        return expression(at.parent) + "[" + whichKey(at.object.get()) + "]";
      case GuardOp::Cell:
        return expression(at.parent) + ".cell_contents";
      case GuardOp::Gradient:
        return expression(at.parent) + ".grad";
      case GuardOp::MethodSelf:
        return expression(at.parent) + ".__self__";
      case GuardOp::MethodFunction:
        return expression(at.parent) + ".__func__";
      case GuardOp::DictOf:
        return expression(at.parent) + ".__dict__";
      case GuardOp::Referent:
        return expression(at.parent) + "()";
      case GuardOp::Saved:
        return expression(at.parent) + ".saved_tensors[" + std::to_string(at.number) + "]";
      case GuardOp::Computed:
        return expression(at.parent) + "." + reinterpret_cast<PyGetSetDescrObject*>(at.object.get())->d_getset->name;
      case GuardOp::Local:
        return expression(at.parent) + ".<local " + std::to_string(at.number) + ">";
      default:
        return expression(at.parent) + ".get()";
    }
  }
  return "?";
}

std::string Guards::text(const GuardInstruction& at) const {
  std::string where = shown(at.place);
  switch (at.op) {
    case GuardOp::IsType:
      return "type(" + where + ") is " + shownName(at.object.get());
    case GuardOp::Is:
      if (isAtom(at.object.get()) || isNamed(at.object.get())) return where + " is " + inWords(at.object.get());
      return where + " is the same object";
    case GuardOp::Equals:
      return where + " == " + repr(at.object.get());
    case GuardOp::Same:
      return where + " is " + shown(static_cast<uint32_t>(at.number));
    case GuardOp::Different:
      return where + " is not " + shown(static_cast<uint32_t>(at.number));
    case GuardOp::Number:
      return where + " > 1";
    case GuardOp::Length:
      return "len(" + where + ") == " + std::to_string(at.number);
    case GuardOp::Empty:
      return at.number ? "not " + where : "bool(" + where + ")";
    case GuardOp::Keys:
      return "list(" + where + ") == list(" + repr(at.object.get()) + ")";
    case GuardOp::Elements:
      return "elements of " + where + " are " + repr(at.object.get());
    case GuardOp::NoAttribute:
      return where + " has no attribute " + repr(at.object.get());
    case GuardOp::NoKey:
      return repr(at.object.get()) + " not in " + where;
    case GuardOp::NoCell:
      return where + " is empty";
    case GuardOp::NoGradient:
      return where + ".grad is None";
    case GuardOp::Tensor:
    case GuardOp::Array: {
      const TensorShape& shape = tensors[static_cast<size_t>(at.number)];
      return where + ": " + c10::toString(shape.dtype) + dims(shape.sizes) +
             (shape.requiresGrad ? ", requires grad" : "");
    }
    case GuardOp::Function:
      return where + ".__code__ and defaults are the same";
    case GuardOp::FunctionLike:
      return where + " is a function of the same code";
    case GuardOp::NoSlot:
      return where + ".<slot> is not set";
    case GuardOp::Gives: {
      std::string name = PyUnicode_AsUTF8(PyDescr_NAME(PyTuple_GET_ITEM(at.object.get(), 0)));
      if (PyTuple_GET_SIZE(at.object.get()) == 1) return where + "." + name + " is not set";
      return where + "." + name + " == " + repr(PyTuple_GET_ITEM(at.object.get(), 1));
    }
    case GuardOp::Unbegun:
      return where + " is a generator of the same code that has not begun";
    case GuardOp::Position:
      return where + " is an iterator at the same place";
    case GuardOp::FrameUnbound:
      return where + " is not bound";
    case GuardOp::Compares: {
      static const char* const kSigns[] = {"<", "<=", "==", "!=", ">", ">="};
      std::string asked = where + " " + kSigns[at.number & 7] + " " + repr(at.object.get());
      return at.number & 8 ? asked : "not " + asked;
    }
    case GuardOp::Computes: {
      const NumberGuard& guard = numbers[static_cast<size_t>(at.number)];
      std::string names;
      for (const NumberGuard::Leaf& leaf : guard.leaves()) names += (names.empty() ? "" : ", ") + shown(leaf.place);
      return guard.text(names);
    }
    default:
      return where + " exists";
  }
}

std::vector<std::string> Guards::texts() const {
  std::vector<std::string> out;
  for (const GuardInstruction& at : instructions) {
    if (at.op > GuardOp::ContextValue || at.op == GuardOp::FrameUnbound) out.push_back(text(at));
  }
  for (const TypeLookups& lookups : types) {
    out.push_back("attributes of " + Operations::name(lookups.type.get()));
  }
  return out;
}

std::vector<const GuardInstruction*> Guards::failing(const CallArguments& call, Found& found) const {
  std::vector<const GuardInstruction*> out;
  found.places.assign(places, nullptr);
  std::vector<bool> broken(places);
  auto usable = [&](uint32_t place) { return place < places && !broken[place] && found[place]; };
  for (const GuardInstruction& at : instructions) {
    bool isLoad = at.op <= GuardOp::ContextValue;
    bool needsOther = at.op == GuardOp::Same || at.op == GuardOp::Different;
    bool possible = isLoad ? at.op <= GuardOp::Fixed || usable(at.parent) : usable(at.place);
    if (needsOther) possible = possible && usable(static_cast<uint32_t>(at.number));
    if (at.op == GuardOp::Computes) {
      for (const NumberGuard::Leaf& leaf : numbers[static_cast<size_t>(at.number)].leaves()) {
        possible = possible && usable(leaf.place);
      }
    }
    if (possible && step(at, call, found)) continue;
    if (possible) out.push_back(&at);
    broken[at.place] = true;  // what follows would look into something else
  }
  if (out.empty()) checkTypes(found);
  return out;
}

std::string Guards::failure(const Found& found) const {
  if (!found.why.empty()) return found.why;
  return found.failed ? text(*found.failed) : "other arguments";
}

}  // namespace saker::frontend
