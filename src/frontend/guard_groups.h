// Guards sorted by what a reader asks about them: the arguments of the call, the module or object that is called,
// globals and code of the program, and what PyTorch and Python read of themselves on the way.
#pragma once

#include <string>
#include <vector>

#include "frontend/guards.h"

namespace saker::frontend {

// enumerator, name
#define SAKER_GUARD_GROUPS(X)                                                                   \
  X(Arguments, "arguments") /* of the call, and what lies in them */                            \
  X(Module, "module")       /* the module, method or object that was compiled, and its parts */ \
  X(Globals, "globals")     /* functions, classes, globals and closures of the program */       \
  X(Internals, "internals") /* PyTorch's and Python's own code, and how modules look things up */

enum class GuardGroup : uint8_t {
#define X(enumerator, name) enumerator,
  SAKER_GUARD_GROUPS(X)
#undef X
};
std::string_view nameOf(GuardGroup group);

// In the order of Guards::texts(). `function` is what was compiled.
std::vector<GuardGroup> groupsOf(const Guards& guards, PyObject* function);

}  // namespace saker::frontend
