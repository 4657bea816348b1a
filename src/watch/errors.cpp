#include "watch/errors.h"

namespace saker::watch {

void raiseForName(PyObject* type, const char* format, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return;
  PyErr_Format(type, format, text);
  if (type != PyExc_NameError) return;
  PyObject* raised = takeRaised();
  if (PyErr_GivenExceptionMatches(raised, PyExc_NameError)) {
    auto* error = reinterpret_cast<PyNameErrorObject*>(raised);
    if (error->name == nullptr) error->name = Py_NewRef(name);
  }
  setRaised(raised);
}

void raiseUnbound(PyCodeObject* code, int slot) {
  if (PyErr_Occurred() != nullptr) return;
  PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, slot);
  const bool free = slot >= code->co_nlocalsplus - code->co_nfreevars;
  raiseForName(free ? PyExc_NameError : PyExc_UnboundLocalError, free ? unboundFreeName : unboundLocalName, name);
}

#if PY_VERSION_HEX >= 0x030c0000
PyObject* takeRaised() { return PyErr_GetRaisedException(); }
void setRaised(PyObject* exception) { PyErr_SetRaisedException(exception); }
#else
PyObject* takeRaised() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback != nullptr ? traceback : Py_None);
  Py_XDECREF(traceback);
  Py_XDECREF(type);
  return value;
}
void setRaised(PyObject* exception) {
  PyErr_Restore(Py_NewRef(PyExceptionInstance_Class(exception)), exception, PyException_GetTraceback(exception));
}
#endif

}  // namespace saker::watch
