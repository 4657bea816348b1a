#include "frontend/guard_groups.h"

#include <array>
#include <string_view>

#include "frontend/place_loads.h"

namespace saker::frontend {

namespace {

std::string_view viewOf(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (!data) PyErr_Clear();
  return data ? std::string_view(data, static_cast<size_t>(size)) : std::string_view();
}

bool isForeign(std::string_view module) {
  std::string_view top = module.substr(0, module.find('.'));
  for (std::string_view known : {"torch", "builtins", "collections", "functools", "typing", "types", "abc", "enum",
                                 "contextlib", "warnings", "inspect", "weakref", "threading", "copy", "operator"}) {
    if (top == known) return true;
  }
  return false;
}

// The module that defines a function or class, or that a dict of globals belongs to; empty: nobody knows.
std::string_view definedBy(PyObject* object) {
  if (PyDict_Check(object)) {
    PyObject* name = PyDict_GetItemString(object, "__name__");
    return viewOf(name);
  }
  if (PyModule_Check(object)) return definedBy(PyModule_GetDict(object));
  if (PyFunction_Check(object)) return viewOf(reinterpret_cast<PyFunctionObject*>(object)->func_module);
  if (PyMethod_Check(object)) return definedBy(PyMethod_GET_FUNCTION(object));
  if (PyType_Check(object)) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
      std::string_view name = type->tp_name;
      size_t dot = name.rfind('.');
      return dot == std::string_view::npos ? "builtins" : name.substr(0, dot);
    }
    return viewOf(PyDict_GetItemString(type->tp_dict, "__module__"));
  }
  return {};
}

// What a module has for its own bookkeeping: which guards on it hold is PyTorch's business.
bool isBookkeeping(std::string_view name) {
  return name.ends_with("_hooks") || name.ends_with("_hooks_with_kwargs") || name.ends_with("_hooks_always_called") ||
         name == "_modules" || name == "_parameters" || name == "_buffers" || name == "_non_persistent_buffers_set" ||
         name == "_compiled_call_impl" || name == "_is_full_backward_hook" || name == "__dict__";
}

class Sorter {
 public:
  Sorter(const Guards& guards, PyObject* function)
      : loads_(guards), called_(PyMethod_Check(function) ? PyMethod_GET_SELF(function) : function) {}

  GuardGroup of(const GuardInstruction& check) const {
    const GuardInstruction* last = loads_[check.place];
    if (!last) return GuardGroup::Globals;
    // How a module finds its attributes, and which dicts it keeps.
    bool looksUp = check.op == GuardOp::NoAttribute || check.op == GuardOp::NoKey;
    if (last->op == GuardOp::DictOf || isBookkeeping(nameOf(*last))) return GuardGroup::Internals;
    const GuardInstruction* root = last;
    while (const GuardInstruction* before = loads_.before(*root)) root = before;
    if (root->op == GuardOp::FunctionMode) return GuardGroup::Internals;
    if (root->op < GuardOp::Fixed) return looksUp ? GuardGroup::Internals : GuardGroup::Arguments;
    PyObject* object = root->object.get();
    if (object == called_ && !PyFunction_Check(object)) return looksUp ? GuardGroup::Internals : GuardGroup::Module;
    // A name that is no global is a builtin's.
    bool builtin = check.op == GuardOp::NoKey && last == root;
    return builtin || isForeign(definedBy(object)) ? GuardGroup::Internals : GuardGroup::Globals;
  }

 private:
  static std::string_view nameOf(const GuardInstruction& load) {
    return load.op == GuardOp::Attribute || load.op == GuardOp::Key ? viewOf(load.object.get()) : std::string_view();
  }

  PlaceLoads loads_;
  PyObject* called_;  // the module of a bound method
};

}  // namespace

std::string_view nameOf(GuardGroup group) {
  static constexpr std::array kNames = {
#define X(enumerator, name) name,
      SAKER_GUARD_GROUPS(X)
#undef X
  };
  return kNames[static_cast<size_t>(group)];
}

std::vector<GuardGroup> groupsOf(const Guards& guards, PyObject* function) {
  Sorter sorter(guards, function);
  std::vector<GuardGroup> out;
  for (const GuardInstruction& at : guards.instructions) {
    if (at.op > GuardOp::ContextValue || at.op == GuardOp::FrameUnbound) out.push_back(sorter.of(at));
  }
  for (const TypeLookups& lookups : guards.types) {
    out.push_back(isForeign(definedBy(lookups.type.get())) ? GuardGroup::Internals : GuardGroup::Globals);
  }
  return out;
}

}  // namespace saker::frontend
