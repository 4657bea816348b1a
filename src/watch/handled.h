// Would the watched program notice an exception that is raised here?
#pragma once

#include <Python.h>

namespace saker::watch {

struct Questions {
  // Does the __exit__ of a `with` only put back what belongs to the thread?
  bool (*putsBackOnly)(PyObject* exit);
  // May `except cls` catch it?
  bool (*catches)(PyObject* cls);
  // Do the handlers of functions with these globals do nothing but raise again?
  bool (*raisesAgain)(PyObject* globals);
};

// Is the innermost watched frame, or one that it was called from, inside of a `try` that may catch the exception or
// does something on its way, or of a `with` whose manager may?
bool handled(const Questions& ask);

}  // namespace saker::watch
