#include "frontend/surroundings.h"

#include <ATen/Context.h>

#include <array>

#include "aten/autocast_state.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

constexpr std::array kDevices = {c10::kCPU, c10::kCUDA};

int autocastNesting() {
  aten::autocast::enter();
  return aten::autocast::leave();
}

// Errors that a finalizer or the end of a generator meets are told by sys.unraisablehook. In an attempt these may be
// refusals, which no user has asked for.
size_t attempts = 0;  // of all threads, under the interpreter's lock
PyObject* hookBefore = nullptr;
thread_local size_t attemptsHere = 0;

bool isRefusal(PyObject* error) {
  static constinit watch::Once<PyObject*> found;
  PyObject* type = found.get([] { return watch::importedAttribute("saker.errors", "CaptureError"); });
  Ref at = Ref::borrow(error);
  constexpr int kDeepest = 100;
  for (int i = 0; i < kDeepest && at && PyExceptionInstance_Check(at.get()); ++i) {
    if (type && PyObject_TypeCheck(at.get(), reinterpret_cast<PyTypeObject*>(type))) return true;
    at = Ref::steal(PyException_GetContext(at.get()));
  }
  return false;
}

PyObject* hush(PyObject*, PyObject* told) {
  Ref error = Ref::steal(PyObject_GetAttrString(told, "exc_value"));
  if (!error) PyErr_Clear();
  if (attemptsHere > 0 && error && isRefusal(error.get())) Py_RETURN_NONE;
  if (!hookBefore) Py_RETURN_NONE;
  return PyObject_CallOneArg(hookBefore, told);
}

PyObject* hushFunction() {
  static PyMethodDef method = {"unraisablehook", &hush, METH_O, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  return function;
}

void hushOn() {
  ++attemptsHere;
  if (attempts++ > 0) return;
  hookBefore = Py_XNewRef(PySys_GetObject("unraisablehook"));
  PySys_SetObject("unraisablehook", hushFunction());
}

void hushOff() {
  --attemptsHere;
  if (--attempts > 0) return;
  if (PySys_GetObject("unraisablehook") == hushFunction()) PySys_SetObject("unraisablehook", hookBefore);
  Py_CLEAR(hookBefore);
}

}  // namespace

Surroundings::Surroundings() : before_(Ambient::now()), nesting_(autocastNesting()) {
  for (at::SDPBackend backend : at::globalContext().sDPPriorityOrder()) order_.push_back(static_cast<int64_t>(backend));
  context_ = Ref::steal(PyContext_CopyCurrent());
  if (context_ && PyContext_Enter(context_.get()) < 0) context_ = Ref();
  PyErr_Clear();
  hushOn();
}

Surroundings::~Surroundings() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  hushOff();
  if (context_) PyContext_Exit(context_.get());
  PyErr_Clear();
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(before_.attention[0]);
  context.setSDPUseMemEfficient(before_.attention[1]);
  context.setSDPUseMath(before_.attention[2]);
  context.setSDPUseCuDNN(before_.attention[3]);
  context.setSDPPriorityOrder(order_);
  flags_.restore();
  at::ThreadLocalState::setThreadLocalState(thread_);
  for (size_t i = 0; i < kDevices.size(); ++i) aten::autocast::setDtype(kDevices[i], before_.autocastType[i]);
  aten::autocast::keepCasts(before_.autocastCache);
  while (autocastNesting() > nesting_) aten::autocast::leave();
  while (autocastNesting() < nesting_) aten::autocast::enter();
  aten::autocast::forgetCasts();  // weights that were cast in the attempt have no data
  PyErr_Restore(type, value, traceback);
}

}  // namespace saker::frontend
