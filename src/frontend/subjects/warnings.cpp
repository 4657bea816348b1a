// Warnings: told again by a replay, at the line that told them. Whether one is shown, turned into an error or ignored
// is for the filters to say, which are guarded, and for the module's own book of what was shown.
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

class Warnings final : public SubjectOf<Warnings> {
 public:
  explicit Warnings(Recorder& recorder);

  Answer behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) override;

 private:
  bool guardFilters();
  bool warns(PyObject* callable, const Values& args, PyObject* names);

  Ref caller_;  // the frame that made the call
};

}  // namespace

namespace {

Ref frameBehind(const Ref& frame) {
  return Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.get()))));
}

Ref codeOf(const Ref& frame) {
  return Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.get()))));
}

// Frames of the import system are nobody's.
bool isImporting(const Ref& frame) {
  Ref code = codeOf(frame);
  const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code.get())->co_filename);
  std::string_view name = file ? file : "";
  return name.find("importlib") != std::string_view::npos && name.find("_bootstrap") != std::string_view::npos;
}

Ref currentFrame() { return Ref::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame())); }

}  // namespace

Warnings::Warnings(Recorder& recorder) : SubjectOf(recorder), caller_(currentFrame()) {}

// What the filters are, and in which order.
bool Warnings::guardFilters() {
  static PyObject* const moduleName = PyUnicode_InternFromString("warnings");
  static PyObject* const filtersName = PyUnicode_InternFromString("filters");
  Ref module = Ref::steal(PyImport_GetModule(moduleName));
  Ref filters = module ? Ref::steal(PyObject_GetAttr(module.get(), filtersName)) : Ref();
  if (!filters || !PyList_Check(filters.get()) || !attribute(module.get(), filtersName)) {
    PyErr_Clear();
    return stop(Why::WarnsFiltered);
  }
  if (!realize(filters.get(), false)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters.get()); ++i) {
    PyObject* filter = PyList_GET_ITEM(filters.get(), i);
    if (!PyTuple_Check(filter) || !realize(filter, false)) return stop(Why::WarnsFiltered);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(filter); ++k) pin(PyTuple_GET_ITEM(filter, k));  // compiled patterns
  }
  return true;
}

// warn(message, category=None, stacklevel=1, source=None)
bool Warnings::warns(PyObject* callable, const Values& args, PyObject* names) {
  PyObject* message = argumentOf(args, names, 0, "message");
  PyObject* category = argumentOf(args, names, 1, "category");
  PyObject* level = argumentOf(args, names, 2, "stacklevel");
  bool more = argumentOf(args, names, 3, "source") || argumentOf(args, names, 4, "skip_file_prefixes");
  if (!message || !PyUnicode_CheckExact(message) || more || (level && !PyLong_CheckExact(level))) {
    return stop(Why::WarnsObject);
  }
  if (!guardFilters()) return false;
  hide(calling());  // how it is shown is Python code
  Ref kind = Ref::borrow(category && category != Py_None ? category : PyExc_UserWarning);
  // The frame that it is about: the one that warns, or one of those that led there.
  Py_ssize_t steps = level ? PyLong_AsSsize_t(level) : 1;
  Ref frame = currentFrame();
  bool plain = steps <= 0 || isImporting(frame);
  while (frame && frame.get() != caller_.get() && --steps > 0) {
    do frame = frameBehind(frame);
    while (frame && !plain && isImporting(frame) && frame.get() != caller_.get());
  }
  if (!frame) return stop(Why::WarnsNoFrame);
  if (frame.get() == caller_.get()) {
    // Somebody who called the function: a replay has the same frames behind it.
    Ref left = Ref::steal(PyLong_FromSsize_t(steps));
    return effect(callable, {message, kind.get(), left.get()});
  }
  auto* raw = reinterpret_cast<PyFrameObject*>(frame.get());
  Ref globals = Ref::steal(PyFrame_GetGlobals(raw));
  Ref line = Ref::steal(PyLong_FromLong(PyFrame_GetLineNumber(raw)));
  Ref file = Ref::borrow(reinterpret_cast<PyCodeObject*>(codeOf(frame).get())->co_filename);
  static PyObject* const book = PyUnicode_InternFromString("__warningregistry__");
  static PyObject* const nameName = PyUnicode_InternFromString("__name__");
  Ref none = Ref::steal(PyDict_New());
  Ref registry = Ref::borrow(PyDict_SetDefault(globals.get(), book, none.get()));
  PyObject* name = PyDict_GetItemWithError(globals.get(), nameName);
  Ref module = name && PyUnicode_Check(name) ? Ref::borrow(name) : Ref::steal(PyUnicode_FromString("<string>"));
  fixed(registry.get());
  static constinit watch::Once<PyObject*> found;
  PyObject* explicitly = found.get([] { return watch::importedAttribute("_warnings", "warn_explicit"); });
  if (!explicitly) return stop(Why::Warns);
  return effect(explicitly, {message, kind.get(), file.get(), line.get(), module.get(), registry.get()});
}

Answer Warnings::behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) {
  if (behaviour != Behaviour::Warns) return std::nullopt;
  return warns(callable, args, names);
}

std::unique_ptr<Subject> makeWarnings(Recorder& recorder) { return std::make_unique<Warnings>(recorder); }

}  // namespace saker::frontend
