#include "host/number_failure.h"

#include <Python.h>

#include "host/errors.h"
#include "host/gil.h"
#include "watch/ref.h"

namespace saker {

void raiseNumberFailure(const char* name, std::span<const double> operands) {
  HoldInterpreter held;  // a run goes without it
  for (const char* module : {"operator", "math"}) {
    Ref owner = Ref::steal(PyImport_ImportModule(module));
    Ref function = owner ? Ref::steal(PyObject_GetAttrString(owner.get(), name)) : Ref();
    PyErr_Clear();
    if (!function) continue;
    Ref args = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
    for (size_t i = 0; args && i < operands.size(); ++i) {
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), PyFloat_FromDouble(operands[i]));
    }
    Ref result = Ref::steal(args ? PyObject_CallObject(function.get(), args.get()) : nullptr);
    if (PyErr_Occurred()) throwPythonError();
    return;
  }
}

}  // namespace saker
