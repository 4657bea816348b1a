#include "python/refusal.h"

#include <pybind11/pybind11.h>

namespace saker::python {

void setRefusal(const ops::Refusal& refusal) {
  py::object type = py::module_::import("saker.errors").attr("Refusal");
  py::object error = type(ops::name(refusal.reason), refusal.message);
  PyErr_SetObject(type.ptr(), error.ptr());
}

void raiseRefusal(const ops::Refusal& refusal) {
  setRefusal(refusal);
  throw py::error_already_set();
}

}  // namespace saker::python
