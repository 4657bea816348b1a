// The Python type of compiled functions, saker.Compiled.
#include "frontend/compiled.h"
#include "host/errors.h"

namespace saker::frontend {

namespace {

struct Object {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weak;
  Compiled* compiled;
};

Object* asObject(PyObject* object) { return reinterpret_cast<Object*>(object); }

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  return asPython([&] { return asObject(self)->compiled->call(args, nargsf, names); });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(asObject(self)->dict);
  Compiled* compiled = asObject(self)->compiled;
  if (!compiled) return 0;
  Py_VISIT(compiled->function());
  int stop = 0;
  auto each = [&](PyObject* object) {
    if (object && stop == 0) stop = visit(object, arg);
  };
  for (const Known& known : compiled->known()) known.segment->eachObject(each);
  return stop;
}

int clear(PyObject* self) {
  Py_CLEAR(asObject(self)->dict);
  if (asObject(self)->compiled) {
    asObject(self)->compiled->forget();
    asObject(self)->compiled->setFunction(Py_None);
  }
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (asObject(self)->weak) PyObject_ClearWeakRefs(self);
  clear(self);
  delete asObject(self)->compiled;
  Py_TYPE(self)->tp_free(self);
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

// As a function, it is its own copy.
PyObject* copied(PyObject* self, PyObject*) { return Py_NewRef(self); }

// How it is copied and pickled is written in Python: what it was compiled of and with, and no recording.
PyObject* askPython(const char* name, PyObject* self, PyObject* memo) {
  PyObject* module = PyImport_ImportModule("saker._carry");
  if (!module) return nullptr;
  PyObject* result = PyObject_CallMethod(module, name, memo ? "OO" : "O", self, memo);
  Py_DECREF(module);
  return result;
}

PyObject* deeplyCopied(PyObject* self, PyObject* memo) { return askPython("deepcopied", self, memo); }
PyObject* reduced(PyObject* self, PyObject*) { return askPython("reduced", self, nullptr); }

PyMethodDef methods[] = {{"__copy__", copied, METH_NOARGS, nullptr},
                         {"__deepcopy__", deeplyCopied, METH_O, nullptr},
                         {"__reduce__", reduced, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

PyTypeObject* compiledType() {
  static PyTypeObject* const made = [] {
    static PyTypeObject type{};
    Py_SET_REFCNT(&type, 1);
    type.tp_name = "saker.Compiled";
    type.tp_doc = "A function that saker.compile has wrapped.";
    type.tp_basicsize = sizeof(Object);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_call = PyVectorcall_Call;
    type.tp_vectorcall_offset = offsetof(Object, vectorcall);
    type.tp_dictoffset = offsetof(Object, dict);
    type.tp_weaklistoffset = offsetof(Object, weak);
    type.tp_traverse = traverse;
    type.tp_clear = clear;
    type.tp_dealloc = dealloc;
    type.tp_descr_get = bind;
    type.tp_getset = getset;
    type.tp_methods = methods;
    return PyType_Ready(&type) == 0 ? &type : nullptr;
  }();
  return made;
}

PyObject* makeCompiled(PyObject* function, Options options) {
  Object* object = PyObject_GC_New(Object, compiledType());
  object->vectorcall = vectorcall;
  object->dict = nullptr;
  object->weak = nullptr;
  object->compiled = new Compiled(function, std::move(options));
  PyObject_GC_Track(object);
  return reinterpret_cast<PyObject*>(object);
}

bool isCompiled(PyObject* object) { return Py_IS_TYPE(object, compiledType()); }

Compiled* compiledOf(PyObject* object) { return isCompiled(object) ? asObject(object)->compiled : nullptr; }

}  // namespace saker::frontend
