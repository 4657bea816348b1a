#include "watch/dict_changes.h"

namespace saker::watch {

const uint64_t* versionOf(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

#if PY_VERSION_HEX >= 0x030C0000

namespace {

uint64_t changes = 0;  // under the GIL; CPython's callback has no place for a pointer of ours

int noteChange(PyDict_WatchEvent, PyObject*, PyObject*, PyObject*) {
  ++changes;
  return 0;
}

int watcher() {
  static const int number = PyDict_AddWatcher(noteChange);
  if (number < 0) PyErr_Clear();
  return number;
}

}  // namespace

bool watchDict(PyObject* dict) {
  if (watcher() < 0) return false;
  if (PyDict_Watch(watcher(), dict) == 0) return true;
  PyErr_Clear();
  return false;
}

uint64_t dictChanges() { return changes; }

#else

bool watchDict(PyObject*) { return false; }

uint64_t dictChanges() { return 0; }

#endif

}  // namespace saker::watch
