// Lazy modules: the call that finds out their sizes initialises them, once. A recording is of what comes after, so what
// it has read of such a module before is forgotten, and read again.
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"

namespace saker::frontend {

namespace {

class LazyModules final : public SubjectOf<LazyModules> {
 public:
  using SubjectOf::SubjectOf;

  Answer callsFunction(PyObject* function, const watch::Arguments& arguments) override;
  bool called(PyObject* callable, PyObject* result, bool spread) override;

 private:
  void initialised(PyObject* module);

  PyObject* initialising_ = nullptr;
};

}  // namespace

// The call that initialises a lazy module is not recorded.
Answer LazyModules::callsFunction(PyObject* function, const watch::Arguments& arguments) {
  if (arguments.positional < 2 || !isPartOf(function, "_infer_parameters", "torch/nn/modules/lazy.py"))
    return std::nullopt;
  if (speculative()) return stop(Why::AttemptInitialises);
  hide(function);
  initialising_ = arguments.values[1];
  return true;
}

void LazyModules::initialised(PyObject* module) {
  uint32_t root = placeOf(module);
  if (root == kInside) return;
  provenance().forgetBehind(root);
  forgetRealized();
  checkIs(GuardOp::IsType, root, reinterpret_cast<PyObject*>(Py_TYPE(module)));
  // The hooks that its call has looked at before.
  for (const char* name : {"_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"}) {
    PyObject* key = keep(Ref::steal(PyUnicode_InternFromString(name)));
    Ref hooks = Ref::steal(PyObject_GetAttr(module, key));
    if (!hooks || !attribute(module, key) || !realize(hooks.get(), false)) return PyErr_Clear();
  }
}

bool LazyModules::called(PyObject*, PyObject*, bool spread) {
  PyObject* module = spread ? nullptr : std::exchange(initialising_, nullptr);
  if (module && !stopped()) initialised(module);
  return false;
}

std::unique_ptr<Subject> makeLazyModules(Recorder& recorder) { return std::make_unique<LazyModules>(recorder); }

}  // namespace saker::frontend
