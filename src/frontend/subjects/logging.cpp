// Records that a logger emits. A replay makes the record again, with the place in the program that it tells, and hands
// it to the logger after the operators of the call, as it does with what is printed. Only handlers of the logging
// module itself that write to files are known to change nothing that the program could read; others run eagerly.
#include <Python.h>

#include <algorithm>
#include <initializer_list>

#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "watch/loop.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

constexpr std::string_view kFile = "logging/__init__.py";

Ref ofModule(const char* name) { return Ref::steal(watch::importedAttribute("logging", name)); }

bool isExact(PyObject* object, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == ofModule(name).get();
  });
}

// What never changes, so that it can be given again later.
bool isFrozen(PyObject* object) {
  if (isAtom(object)) return true;
  if (!PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (!isFrozen(PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

// emit(logger, level, file, line, message, arguments, function): what Logger._log does once it knows who called.
PyObject* emit(PyObject*, PyObject* const* args, Py_ssize_t) {
  Ref name = Ref::steal(PyObject_GetAttrString(args[0], "name"));
  if (!name) return nullptr;
  Ref record = Ref::steal(PyObject_CallMethod(args[0], "makeRecord", "OOOOOOOOOO", name.get(), args[1], args[2],
                                              args[3], args[4], args[5], Py_None, args[6], Py_None, Py_None));
  return record ? PyObject_CallMethod(args[0], "handle", "O", record.get()) : nullptr;
}

PyObject* emitFunction() {
  static PyMethodDef method = {"emit", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&emit)),
                               METH_FASTCALL, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  return function;
}

}  // namespace

bool isEmission(PyObject* callable) { return callable == emitFunction(); }

namespace {

class Logging final : public SubjectOf<Logging> {
 public:
  using SubjectOf::SubjectOf;

  Answer callsMethod(PyObject* method, const watch::Arguments& arguments) override;

 private:
  bool emits(PyObject* method, const watch::Arguments& arguments);
  // Are all handlers that a record reaches known to change nothing that the program could read? What says so is
  // guarded.
  bool allPlain(PyObject* logger, long level);
  // An attribute, with a guard. Nothing: there is none, or the recording has ended.
  Ref guarded(PyObject* object, const char* name);
  bool isPlain(PyObject* handler, long level);
  bool isFile(PyObject* stream);
  // Are these methods of its class those of the logging module?
  bool isOfLogging(PyObject* object, std::initializer_list<const char*> methods);
  // What the class of an object has under a name that the object itself has nothing under.
  PyObject* ofClass(PyObject* object, const char* name) {
    PyObject* key = kept(name);
    PyObject* dict = instanceDict(object);
    if ((dict && PyDict_GetItemWithError(dict, key)) || !attribute(object, key)) return nullptr;
    return lookUp(Py_TYPE(object), key);
  }
  PyObject* kept(const char* name) { return keep(Ref::steal(PyUnicode_InternFromString(name))); }
};

}  // namespace

Ref Logging::guarded(PyObject* object, const char* name) {
  PyObject* key = kept(name);
  if (!attribute(object, key)) return {};
  Ref value = Ref::steal(PyObject_GetAttr(object, key));
  if (!value) PyErr_Clear();
  return value;
}

bool Logging::isOfLogging(PyObject* object, std::initializer_list<const char*> methods) {
  return std::all_of(methods.begin(), methods.end(), [&](const char* name) {
    PyObject* found = ofClass(object, name);
    return found && PyFunction_Check(found) && isPartOf(found, name, kFile);
  });
}

// A file of Python's, written by C code.
bool Logging::isFile(PyObject* stream) {
  static constinit watch::Once<PyObject*> file, memory;
  PyObject* fileType = file.get([] { return watch::importedAttribute("_io", "TextIOWrapper"); });
  PyObject* memoryType = memory.get([] { return watch::importedAttribute("_io", "StringIO"); });
  PyTypeObject* type = Py_TYPE(stream);
  if (!PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(fileType)) &&
      reinterpret_cast<PyObject*>(type) != memoryType) {
    return false;
  }
  for (const char* name : {"write", "flush"}) {
    PyObject* found = ofClass(stream, name);
    if (!found || !Py_IS_TYPE(found, &PyMethodDescr_Type)) return false;
  }
  return true;
}

bool Logging::isPlain(PyObject* handler, long level) {
  Ref least = guarded(handler, "level");
  if (!least || !PyLong_Check(least.get())) return false;
  if (level < PyLong_AsLong(least.get())) return true;  // it is not asked
  if (!isExact(handler, {"StreamHandler", "FileHandler", "NullHandler", "_StderrHandler"})) return false;
  if (isExact(handler, {"NullHandler"})) return isOfLogging(handler, {"handle"});
  if (!isOfLogging(handler, {"handle", "emit", "format", "flush", "filter", "acquire", "release"})) return false;
  Ref filters = guarded(handler, "filters"), formatter = guarded(handler, "formatter");
  if (!filters || !PyList_CheckExact(filters.get()) || PyList_GET_SIZE(filters.get()) > 0 || !formatter) return false;
  if (!realize(filters.get(), false)) return false;
  if (formatter.get() != Py_None && !isExact(formatter.get(), {"Formatter"})) return false;
  if (!isExact(handler, {"_StderrHandler"})) {
    Ref stream = guarded(handler, "stream");
    return stream && isFile(stream.get());
  }
  Ref sys = Ref::steal(PyImport_ImportModule("sys"));
  Ref stream = guarded(sys.get(), "stderr");
  return stream && isFile(stream.get());
}

// Every handler that the record reaches, as Logger.callHandlers goes through them.
bool Logging::allPlain(PyObject* logger, long level) {
  Ref module = Ref::steal(PyImport_ImportModule("logging"));
  if (!isExact(logger, {"Logger", "RootLogger"}) ||
      !isOfLogging(logger, {"_log", "findCaller", "makeRecord", "handle", "callHandlers", "filter"})) {
    return false;
  }
  Ref factory = guarded(module.get(), "_logRecordFactory"), off = guarded(logger, "disabled");
  if (factory.get() != ofModule("LogRecord").get() || !off) return false;
  Ref filters = guarded(logger, "filters");
  if (!filters || !PyList_CheckExact(filters.get()) || PyList_GET_SIZE(filters.get()) > 0) return false;
  if (!realize(filters.get(), false)) return false;
  bool any = false;
  for (Ref at = Ref::borrow(logger); at && at.get() != Py_None;) {
    Ref handlers = guarded(at.get(), "handlers");
    if (!handlers || !PyList_CheckExact(handlers.get()) || !realize(handlers.get(), false)) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(handlers.get()); ++i) {
      any = true;
      if (!isPlain(PyList_GET_ITEM(handlers.get(), i), level)) return false;
    }
    Ref goesOn = guarded(at.get(), "propagate");
    if (!goesOn) return false;
    at = PyObject_IsTrue(goesOn.get()) == 1 ? guarded(at.get(), "parent") : Ref();
  }
  if (any) return true;
  Ref last = guarded(module.get(), "lastResort");
  return last && last.get() != Py_None && isPlain(last.get(), level);
}

// Logger._log(level, message, arguments)
bool Logging::emits(PyObject* method, const watch::Arguments& arguments) {
  if (speculative()) return stop(Why::AttemptLogs);
  bool more = arguments.names && PyTuple_GET_SIZE(arguments.names) > 0;
  if (arguments.positional != 3 || more) return stop(Why::LogsWith);
  PyObject *level = arguments.values[0], *message = arguments.values[1], *given = arguments.values[2];
  bool frozen = PyLong_CheckExact(level) && PyUnicode_CheckExact(message) && isFrozen(given);
  if (!frozen || subjects().arrays.holdsArrays(given)) return stop(Why::LogsObject);
  if (!subjects().world.locks().empty()) return stop(Why::LogsUnderLock);
  if (!realize(given, true)) return false;
  PyObject* logger = PyMethod_GET_SELF(method);
  if (!allPlain(logger, PyLong_AsLong(level))) {
    return stop(Why::LogsToHandler);
  }
  Ref module = Ref::steal(PyImport_ImportModule("logging"));
  Ref own = guarded(module.get(), "_srcfile");
  if (!own || !PyUnicode_Check(own.get())) return stop(Why::LogsUnnamed);
  for (const watch::Place& place : watch::places()) {
    if (PyUnicode_Compare(place.code->co_filename, own.get()) == 0) continue;
    Ref line = Ref::steal(PyLong_FromLong(place.line));
    hide(method);
    return effect(emitFunction(),
                  {logger, level, place.code->co_filename, line.get(), message, given, place.code->co_name});
  }
  return stop(Why::LogsInside);
}

Answer Logging::callsMethod(PyObject* method, const watch::Arguments& arguments) {
  if (!isPartOf(PyMethod_GET_FUNCTION(method), "_log", kFile)) return std::nullopt;
  return emits(method, arguments);
}

std::unique_ptr<Subject> makeLogging(Recorder& recorder) { return std::make_unique<Logging>(recorder); }

}  // namespace saker::frontend
