// A module compiled ahead of time: for each tree of its parts, and each set of those that are in training mode, a
// callable that takes its parameters and buffers before its arguments.
#include <structmember.h>

#include <list>

#include "host/errors.h"
#include "python/aot_call.h"
#include "python/module_walk.h"

namespace saker::python {

namespace {

struct Made {
  ModuleWalk::Layout layout;
  std::shared_ptr<const std::vector<Ref>> names;
  Ref callable;
};

struct AotModule {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  PyObject* functional;   // saker._aot.Functional
  PyObject* compile;      // (function) -> AotCallable
  PyObject* module;       // that of the functional one
  std::list<Made>* made;  // other threads add to it
};

// Its callable for a call now, and the tensors that this takes.
std::pair<Ref, ModuleTensors> found(AotModule& self) {
  ModuleWalk walk(self.module, self.functional);
  ModuleTensors tensors{self.module, nullptr, std::move(walk.tensors)};
  for (const Made& made : *self.made) {
    if (!(made.layout == walk.layout)) continue;
    tensors.names = made.names;
    return {made.callable, std::move(tensors)};
  }
  tensors.names = std::make_shared<const std::vector<Ref>>(walk.fullNames());
  py::object callable = py::handle(self.compile)(py::handle(self.functional).attr("call"));
  Ref kept = Ref::borrow(callable.ptr());
  self.made->push_back({std::move(walk.layout), tensors.names, kept});
  return {std::move(kept), std::move(tensors)};
}

PyObject* callModule(PyObject* object, PyObject* const* args, size_t flags, PyObject* names) {
  return withPythonErrors([&] {
    auto& self = *reinterpret_cast<AotModule*>(object);
    auto [callable, tensors] = found(self);
    auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
    py::tuple returned = callCompiled(callable.get(), CallArguments(args, count, names, &tensors));
    py::object replaced = returned[1];
    bool none = PyDict_CheckExact(replaced.ptr()) && PyDict_GET_SIZE(replaced.ptr()) == 0;
    return none ? py::object(returned[0]) : py::handle(self.functional).attr("take")(returned);
  });
}

PyObject* prepareModule(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return withPythonErrors([&] {
    auto [callable, tensors] = found(*reinterpret_cast<AotModule*>(object));
    prepareCompiled(callable.get(), CallArguments(args, static_cast<size_t>(count), names, &tensors));
    return py::none();
  });
}

PyObject* makeModule(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *functional, *compile;
  if (!PyArg_ParseTuple(args, "OO", &functional, &compile)) return nullptr;
  PyObject* module = PyObject_GetAttrString(functional, "module");
  if (!module) return nullptr;
  auto* self = reinterpret_cast<AotModule*>(type->tp_alloc(type, 0));
  if (!self) {
    Py_DECREF(module);
    return nullptr;
  }
  self->vectorcall = &callModule;
  self->functional = Py_NewRef(functional);
  self->compile = Py_NewRef(compile);
  self->module = module;
  self->made = new std::list<Made>;
  return reinterpret_cast<PyObject*>(self);
}

int visitModule(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<AotModule*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->functional);
  Py_VISIT(self->compile);
  Py_VISIT(self->module);
  if (!self->made) return 0;
  for (const Made& made : *self->made) Py_VISIT(made.callable.get());
  return 0;
}

int clearModule(PyObject* object) {
  auto* self = reinterpret_cast<AotModule*>(object);
  Py_CLEAR(self->functional);
  Py_CLEAR(self->compile);
  Py_CLEAR(self->module);
  delete std::exchange(self->made, nullptr);
  return 0;
}

void destroyModule(PyObject* object) {
  PyObject_GC_UnTrack(object);
  PyTypeObject* type = Py_TYPE(object);
  clearModule(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef moduleMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(AotModule, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef moduleMethods[] = {
    {"prepare", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&prepareModule)),
     METH_FASTCALL | METH_KEYWORDS, "Compile for a call with these arguments, and do not make it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void bindAotModule(py::module_& module) {
  addCallableType(module, "saker._C.AotModule", sizeof(AotModule),
                  {{Py_tp_new, reinterpret_cast<void*>(&makeModule)},
                   {Py_tp_dealloc, reinterpret_cast<void*>(&destroyModule)},
                   {Py_tp_traverse, reinterpret_cast<void*>(&visitModule)},
                   {Py_tp_clear, reinterpret_cast<void*>(&clearModule)},
                   {Py_tp_members, moduleMembers},
                   {Py_tp_methods, moduleMethods}});
}

}  // namespace saker::python
