#include "frontend/stance.h"

#include <Python.h>

#include <string_view>

#include "watch/dict_changes.h"
#include "watch/ref.h"

namespace saker::frontend {

namespace {

// What was found, for as long as the dicts that it was found in have not moved.
struct Seen {
  PyObject* modules = nullptr;
  uint64_t modulesVersion = 0;
  PyObject* globals = nullptr;  // of the module that holds it; none: it is not loaded
  uint64_t globalsVersion = 0;
  Stance stance = Stance::Default;
};

Stance readStance(PyObject* globals) {
  PyObject* held = PyDict_GetItemString(globals, "_stance");
  Ref name = held ? Ref::steal(PyObject_GetAttrString(held, "stance")) : Ref();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  PyErr_Clear();
  std::string_view stance = text ? text : "default";
  if (stance == "force_eager") return Stance::ForceEager;
  if (stance == "eager_on_recompile") return Stance::EagerOnRecompile;
  if (stance == "fail_on_recompile") return Stance::FailOnRecompile;
  return Stance::Default;
}

}  // namespace

Stance stance() {
  static Seen seen;
  PyObject* modules = PyImport_GetModuleDict();
  if (seen.modules != modules || seen.modulesVersion != *watch::versionOf(modules)) {
    static PyObject* const name = PyUnicode_InternFromString("torch._dynamo.eval_frame");
    PyObject* module = PyDict_GetItemWithError(modules, name);
    PyObject* globals = module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
    seen = {modules, *watch::versionOf(modules), globals, 0, {}};
  }
  if (!seen.globals) return Stance::Default;
  if (seen.globalsVersion != *watch::versionOf(seen.globals)) {
    seen.stance = readStance(seen.globals);
    seen.globalsVersion = *watch::versionOf(seen.globals);
  }
  return seen.stance;
}

}  // namespace saker::frontend
