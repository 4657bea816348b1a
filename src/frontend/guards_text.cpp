// Guards in words, for reports and logs.
#include <ATen/core/Tensor.h>

#include "frontend/guards.h"

namespace saker::frontend {

namespace {

std::string repr(PyObject* object) {
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

std::string dims(c10::IntArrayRef values) {
  std::string out = "(";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + ")";
}

}  // namespace

std::string Guards::expression(uint32_t place) const {
  for (const Instruction& at : instructions) {
    if (at.place != place || at.op > Op::ContextValue) continue;
    auto name = [&] { return std::string(PyUnicode_Check(at.object.get()) ? PyUnicode_AsUTF8(at.object.get()) : "?"); };
    switch (at.op) {
      case Op::Positional:
        return "args[" + std::to_string(at.number) + "]";
      case Op::Keyword:
        return name();
      case Op::FrameLocal:
      case Op::FrameUnbound:
        return name();
      case Op::FrameStack:
        return "stack[" + std::to_string(at.number) + "]";
      case Op::FunctionMode:
        return "function mode " + std::to_string(at.number);
      case Op::Fixed:
        if (PyModule_Check(at.object.get())) return PyModule_GetName(at.object.get());
        if (PyFunction_Check(at.object.get())) {
          return PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(at.object.get())->func_qualname);
        }
        return std::string("<") + Py_TYPE(at.object.get())->tp_name + ">";
      case Op::Attribute:
        return expression(at.parent) + "." + name();
      case Op::Slot:
        return expression(at.parent) + ".<slot>";
      case Op::Item:
        return expression(at.parent) + "[" + std::to_string(at.number) + "]";
      case Op::Key:
        return expression(at.parent) + "[" + repr(at.object.get()) + "]";
      case Op::Cell:
        return expression(at.parent) + ".cell_contents";
      case Op::Gradient:
        return expression(at.parent) + ".grad";
      case Op::MethodSelf:
        return expression(at.parent) + ".__self__";
      case Op::MethodFunction:
        return expression(at.parent) + ".__func__";
      case Op::DictOf:
        return expression(at.parent) + ".__dict__";
      case Op::Referent:
        return expression(at.parent) + "()";
      case Op::Saved:
        return expression(at.parent) + ".saved_tensors[" + std::to_string(at.number) + "]";
      case Op::Computed:
        return expression(at.parent) + "." + reinterpret_cast<PyGetSetDescrObject*>(at.object.get())->d_getset->name;
      case Op::Local:
        return expression(at.parent) + ".<local " + std::to_string(at.number) + ">";
      default:
        return expression(at.parent) + ".get()";
    }
  }
  return "?";
}

std::string Guards::text(const Instruction& at) const {
  std::string where = expression(at.place);
  switch (at.op) {
    case Op::IsType:
      return "type(" + where + ") is " + reinterpret_cast<PyTypeObject*>(at.object.get())->tp_name;
    case Op::Is:
      return where + " is the same object";
    case Op::Equals:
      return where + " == " + repr(at.object.get());
    case Op::Same:
      return where + " is " + expression(static_cast<uint32_t>(at.number));
    case Op::Different:
      return where + " is not " + expression(static_cast<uint32_t>(at.number));
    case Op::Number:
      return where + " > 1";
    case Op::Length:
      return "len(" + where + ") == " + std::to_string(at.number);
    case Op::Empty:
      return at.number ? "not " + where : "bool(" + where + ")";
    case Op::Keys:
      return "list(" + where + ") == list(" + repr(at.object.get()) + ")";
    case Op::Elements:
      return "elements of " + where + " are " + repr(at.object.get());
    case Op::NoAttribute:
      return where + " has no attribute " + repr(at.object.get());
    case Op::NoKey:
      return repr(at.object.get()) + " not in " + where;
    case Op::NoCell:
      return where + " is empty";
    case Op::NoGradient:
      return where + ".grad is None";
    case Op::Tensor:
    case Op::Array: {
      const TensorShape& shape = tensors[static_cast<size_t>(at.number)];
      return where + ": " + c10::toString(shape.dtype) + dims(shape.sizes) +
             (shape.requiresGrad ? ", requires grad" : "");
    }
    case Op::Function:
      return where + ".__code__ and defaults are the same";
    case Op::FunctionLike:
      return where + " is a function of the same code";
    case Op::NoSlot:
      return where + ".<slot> is not set";
    case Op::Gives: {
      std::string name = PyUnicode_AsUTF8(PyDescr_NAME(PyTuple_GET_ITEM(at.object.get(), 0)));
      if (PyTuple_GET_SIZE(at.object.get()) == 1) return where + "." + name + " is not set";
      return where + "." + name + " == " + repr(PyTuple_GET_ITEM(at.object.get(), 1));
    }
    case Op::Unbegun:
      return where + " is a generator of the same code that has not begun";
    case Op::Position:
      return where + " is an iterator at the same place";
    case Op::FrameUnbound:
      return where + " is not bound";
    default:
      return where + " exists";
  }
}

std::vector<std::string> Guards::texts() const {
  std::vector<std::string> out;
  for (const Instruction& at : instructions) {
    if (at.op > Op::ContextValue || at.op == Op::FrameUnbound) out.push_back(text(at));
  }
  for (const TypeLookups& lookups : types) {
    out.push_back(std::string("attributes of ") + reinterpret_cast<PyTypeObject*>(lookups.type.get())->tp_name);
  }
  return out;
}

std::string Guards::failure(const Found& found) const {
  if (!found.why.empty()) return found.why;
  return found.failed ? text(*found.failed) : "other arguments";
}

}  // namespace saker::frontend
