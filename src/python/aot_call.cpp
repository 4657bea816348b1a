#include "python/aot_call.h"

#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

#include "aot/signature.h"
#include "capture/trace.h"
#include "frontend/compiled.h"
#include "python/aot_apart.h"
#include "python/aot_variants.h"

namespace saker::python {

namespace {

struct AotCallable {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* function;
  PyObject* compile;  // (function, args, kwargs) -> CompiledFunction or None, ResultTree
  Variants* variants;
  Aparts* aparts;
};

// The function of a module gives its result and the buffers that it has replaced; in eager mode it replaces them
// itself.
py::object runEagerly(const AotCallable& self, const CallArguments& call, bool counted) {
  if (counted) ++frontend::counts().fallbacks;
  frontend::Inside inside;
  if (!call.module) return checked(PyObject_Vectorcall(self.function, call.args, call.count, call.names));
  tracing::Trace* trace = tracing::current();
  if (trace && trace->mode() == tracing::Mode::Capture) {
    return checked(PyObject_Call(self.function, call.positional().ptr(), call.named().ptr()));
  }
  py::object result = checked(PyObject_Vectorcall(call.module->module, call.args, call.count, call.names));
  return py::make_tuple(result, py::dict());
}

// A run in eager mode whose Functions may be looked at.
class Awaiting {
 public:
  explicit Awaiting(PyObject* awaited) : awaited_(awaited) {
    begun_ = awaited_ && py::handle(awaited_).attr("begin")().cast<bool>();
  }
  ~Awaiting() {
    if (!begun_) return;
    py::error_scope raised;
    try {
      py::handle(awaited_).attr("end")();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("saker");
    }
  }
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

 private:
  PyObject* awaited_;
  bool begun_ = false;
};

py::object runAwaited(const AotCallable& self, const CallArguments& call, const Ref& awaited) {
  Awaiting here(awaited.get());
  return runEagerly(self, call, true);
}

// Nothing, or what was awaited has come, or never will.
std::optional<Variant> compiledNow(const AotCallable& self, const CallArguments& call, const Ref& awaited) {
  auto function = py::reinterpret_borrow<py::object>(self.function);
  py::object made = py::handle(awaited.get()).attr("again")(function, call.positional(), call.named());
  return made.is_none() ? std::nullopt : std::optional(variantOf(made));
}

py::object taken(Ref object) { return py::reinterpret_steal<py::object>(object.release()); }

py::object run(AotCallable& self, CallArguments call) {
  if (aot::threadBelongsToEager()) return runEagerly(self, call, tracing::current() == nullptr);
  if (call.answersItself) return runEagerly(self, call, true);
  if (Aparts::takes(call)) {
    std::optional<Ref> results = self.aparts->run(self.compile, self.function, call);
    return results ? taken(std::move(*results)) : runEagerly(self, call, true);
  }
  if (aot::belongToEager(call.tensors)) return runEagerly(self, call, true);
  Variant& known = self.variants->get(self.compile, self.function, call);
  Variant compiled = known;  // what runs may come back, and compile more
  if (compiled.awaited) {
    if (std::optional<Variant> now = compiledNow(self, call, compiled.awaited)) compiled = known = std::move(*now);
  }
  if (!compiled.native) return runAwaited(self, call, compiled.awaited);
  std::optional<std::vector<at::Tensor>> results;
  std::vector<c10::IValue> numbers;
  {
    py::gil_scoped_release released;
    results = (*compiled.native)(std::move(call.tensors), &numbers);
  }
  if (!results) return runEagerly(self, call, true);
  return taken(compiled.results->build(*results, numbers));
}

void prepare(AotCallable& self, const CallArguments& call) {
  if (aot::threadBelongsToEager() || call.answersItself || aot::belongToEager(call.tensors)) return;
  self.variants->get(self.compile, self.function, call);
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  return withPythonErrors([&] {
    return run(*reinterpret_cast<AotCallable*>(self), CallArguments(args, count, names, /*module=*/nullptr));
  });
}

// Compiles for such a call, and does not make it.
PyObject* prepareCall(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return withPythonErrors([&] {
    prepare(*reinterpret_cast<AotCallable*>(self),
            CallArguments(args, static_cast<size_t>(count), names, /*module=*/nullptr));
    return py::none();
  });
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *compile;
  if (!PyArg_ParseTuple(args, "OO", &function, &compile)) return nullptr;
  auto* self = reinterpret_cast<AotCallable*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = &call;
  self->function = Py_NewRef(function);
  self->compile = Py_NewRef(compile);
  self->variants = new Variants;
  self->aparts = new Aparts;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<AotCallable*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dict);
  Py_VISIT(self->function);
  Py_VISIT(self->compile);
  if (!self->variants) return 0;
  Visitor visitor{visit, arg};
  if (int stop = self->variants->traverse(visitor)) return stop;
  return self->aparts->traverse(visitor);
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<AotCallable*>(object);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->function);
  Py_CLEAR(self->compile);
  Variants* variants = std::exchange(self->variants, nullptr);
  Aparts* aparts = std::exchange(self->aparts, nullptr);
  delete variants;
  delete aparts;
  return 0;
}

void destroy(PyObject* object) {
  PyObject_GC_UnTrack(object);
  PyTypeObject* type = Py_TYPE(object);
  if (reinterpret_cast<AotCallable*>(object)->weakrefs) PyObject_ClearWeakRefs(object);
  clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

// As a function, it becomes a method where it is found in a class.
PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
  return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(AotCallable, function), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(AotCallable, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(AotCallable, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(AotCallable, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef methods[] = {
    {"prepare", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&prepareCall)),
     METH_FASTCALL | METH_KEYWORDS, "Compile for a call with these arguments, and do not make it."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

py::object callCompiled(PyObject* callable, CallArguments call) {
  return run(*reinterpret_cast<AotCallable*>(callable), std::move(call));
}

void prepareCompiled(PyObject* callable, const CallArguments& call) {
  prepare(*reinterpret_cast<AotCallable*>(callable), call);
}

void addCallableType(py::module_& module, const char* name, size_t size, std::vector<PyType_Slot> slots) {
  slots.push_back({Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)});
  slots.push_back({0, nullptr});
  PyType_Spec spec = {name, static_cast<int>(size), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots.data()};
  module.add_object(std::strrchr(name, '.') + 1, checked(PyType_FromSpec(&spec)));
}

void bindAotCall(py::module_& module) {
  addCallableType(module, "saker._C.AotCallable", sizeof(AotCallable),
                  {{Py_tp_new, reinterpret_cast<void*>(&construct)},
                   {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
                   {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                   {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                   {Py_tp_descr_get, reinterpret_cast<void*>(&bind)},
                   {Py_tp_members, members},
                   {Py_tp_methods, methods},
                   {Py_tp_getset, properties}});
}

}  // namespace saker::python
