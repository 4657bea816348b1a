#include "python/aot_call.h"

#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <list>

#include "aot/compiled_function.h"
#include "aot/signature.h"
#include "capture/trace.h"

namespace saker::python {

namespace {

// What was compiled for calls of one structure, with one set of constants, in one state of autograd.
struct Variant {
  bool flat;           // tensors only, by position
  py::object spec;     // otherwise: the structure of the arguments
  py::list constants;  // their leaves, None for tensors
  aot::Signature signature;
  std::shared_ptr<const aot::CompiledFunction> native;  // nullptr: eager mode
  py::object compiled;                                  // makes results of the tensors that come out
  bool single = false;                                  // the result is one tensor
};

struct AotCallable {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* function;
  PyObject* compile;             // (args, kwargs) -> saker._aot._Compiled
  PyObject* flatten;             // (args, kwargs) -> leaves, spec
  PyObject* eager;               // called before each call in eager mode that is one for want of something better
  std::list<Variant>* variants;  // other threads add to it while one compares, which may run Python code
};

py::object checked(PyObject* result) {
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

py::object toPython(const c10::IValue& number) {
  if (number.isInt()) return py::int_(number.toInt());
  if (number.isBool()) return py::bool_(number.toBool());
  return py::float_(number.toDouble());
}

class Invocation {
 public:
  Invocation(AotCallable& self, PyObject* const* args, size_t count, PyObject* names)
      : self_(self), args_(args), count_(count), names_(names) {}

  void prepare() {
    if (!takeTensors()) flatten();
    if (aot::belongsToEager(tensors_)) return;
    aot::Signature signature = aot::signatureOf(tensors_);
    if (!find(signature)) compile(std::move(signature));
  }

  py::object run() {
    if (!takeTensors()) flatten();
    if (aot::belongsToEager(tensors_)) return runEagerly(tracing::current() == nullptr);
    aot::Signature signature = aot::signatureOf(tensors_);
    const Variant* variant = find(signature);
    if (!variant) variant = &compile(std::move(signature));
    if (!variant->native) return runEagerly(true);
    // What runs may come back here, and compile more.
    std::shared_ptr<const aot::CompiledFunction> native = variant->native;
    py::object compiled = variant->compiled;
    bool single = variant->single;
    std::optional<std::vector<at::Tensor>> results;
    std::vector<c10::IValue> numbers;
    {
      py::gil_scoped_release released;
      results = (*native)(std::move(tensors_), &numbers);
    }
    if (!results) return runEagerly(true);
    if (single) return py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move((*results)[0])));
    py::list list(results->size());
    for (size_t i = 0; i < results->size(); ++i) {
      PyObject* item = (*results)[i].defined() ? THPVariable_Wrap(std::move((*results)[i])) : Py_NewRef(Py_None);
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), item);
    }
    for (const c10::IValue& number : numbers) list.append(toPython(number));
    return compiled.attr("results")(list);
  }

 private:
  bool takeTensors() {
    if (names_ && PyTuple_GET_SIZE(names_) != 0) return false;
    tensors_.reserve(count_);
    for (size_t i = 0; i < count_; ++i) {
      if (!THPVariable_Check(args_[i])) return false;
      tensors_.push_back(THPVariable_Unpack(args_[i]));
    }
    return true;
  }

  py::tuple positional() const {
    py::tuple tuple(count_);
    for (size_t i = 0; i < count_; ++i) tuple[i] = py::reinterpret_borrow<py::object>(args_[i]);
    return tuple;
  }
  py::dict named() const {
    py::dict dict;
    for (Py_ssize_t i = 0; names_ && i < PyTuple_GET_SIZE(names_); ++i) {
      dict[py::handle(PyTuple_GET_ITEM(names_, i))] =
          py::reinterpret_borrow<py::object>(args_[count_ + static_cast<size_t>(i)]);
    }
    return dict;
  }

  void flatten() {
    flat_ = false;
    tensors_.clear();
    py::tuple found = py::handle(self_.flatten)(positional(), named());
    spec_ = found[1];
    for (py::handle leaf : py::list(found[0])) {
      bool tensor = THPVariable_Check(leaf.ptr());
      if (tensor) tensors_.push_back(THPVariable_Unpack(leaf.ptr()));
      constants_.append(tensor ? py::handle(Py_None) : leaf);
    }
  }

  static bool sameConstants(const py::list& a, const py::list& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      py::object left = a[i], right = b[i];
      if (left.is(right)) continue;
      if (Py_TYPE(left.ptr()) != Py_TYPE(right.ptr()) || !left.equal(right)) return false;
    }
    return true;
  }

  bool matches(const Variant& variant, const aot::Signature& signature) const {
    if (variant.flat != flat_ || variant.signature != signature) return false;
    return flat_ || (variant.spec.equal(spec_) && sameConstants(variant.constants, constants_));
  }

  const Variant* find(const aot::Signature& signature) const {
    for (const Variant& variant : *self_.variants) {
      if (matches(variant, signature)) return &variant;
    }
    return nullptr;
  }

  const Variant& compile(aot::Signature signature) {
    py::object compiled = py::handle(self_.compile)(positional(), named());
    py::object native = compiled.attr("native");
    Variant made{flat_, spec_, constants_, std::move(signature), nullptr, compiled, false};
    if (!native.is_none()) {
      made.native = native.cast<std::shared_ptr<aot::CompiledFunction>>();
      made.single = compiled.attr("single").cast<bool>();
    }
    self_.variants->push_back(std::move(made));
    return self_.variants->back();
  }

  py::object runEagerly(bool counted) {
    if (counted) py::handle(self_.eager)();
    return checked(PyObject_Vectorcall(self_.function, args_, count_, names_));
  }

  AotCallable& self_;
  PyObject* const* args_;
  size_t count_;
  PyObject* names_;
  std::vector<at::Tensor> tensors_;
  bool flat_ = true;
  py::object spec_ = py::none();
  py::list constants_;
};

template <typename Function>
PyObject* guarded(const Function& function) {
  HANDLE_TH_ERRORS
  try {
    return function().release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  } catch (const runtime::RunError& error) {
    PyErr_SetString(py::module_::import("saker.errors").attr("RunError").ptr(), error.what());
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  return guarded([&] { return Invocation(*reinterpret_cast<AotCallable*>(self), args, count, names).run(); });
}

// Compiles for such a call, and does not make it.
PyObject* prepare(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    Invocation(*reinterpret_cast<AotCallable*>(self), args, static_cast<size_t>(count), names).prepare();
    return py::none();
  });
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *compile, *flatten, *eager;
  if (!PyArg_ParseTuple(args, "OOOO", &function, &compile, &flatten, &eager)) return nullptr;
  auto* self = reinterpret_cast<AotCallable*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = &call;
  self->function = Py_NewRef(function);
  self->compile = Py_NewRef(compile);
  self->flatten = Py_NewRef(flatten);
  self->eager = Py_NewRef(eager);
  self->variants = new std::list<Variant>;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<AotCallable*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dict);
  Py_VISIT(self->function);
  Py_VISIT(self->compile);
  Py_VISIT(self->flatten);
  Py_VISIT(self->eager);
  if (!self->variants) return 0;
  for (const Variant& variant : *self->variants) {
    Py_VISIT(variant.spec.ptr());
    Py_VISIT(variant.constants.ptr());
    Py_VISIT(variant.compiled.ptr());
  }
  return 0;
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<AotCallable*>(object);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->function);
  Py_CLEAR(self->compile);
  Py_CLEAR(self->flatten);
  Py_CLEAR(self->eager);
  std::list<Variant>* variants = std::exchange(self->variants, nullptr);
  delete variants;
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
    {"prepare", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&prepare)), METH_FASTCALL | METH_KEYWORDS,
     "Compile for a call with these arguments, and do not make it."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

void bindAotCall(py::module_& module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(&construct)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear)},
      {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(&bind)},
      {Py_tp_members, members},
      {Py_tp_methods, methods},
      {Py_tp_getset, properties},
      {0, nullptr},
  };
  static PyType_Spec spec = {"saker._C.AotCallable", sizeof(AotCallable), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  module.add_object("AotCallable", checked(PyType_FromSpec(&spec)));
}

}  // namespace saker::python
