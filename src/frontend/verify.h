// SAKER_VERIFY=1: the first replay of a segment is compared with eager mode, which runs on copies of the arguments.
#pragma once

#include "frontend/replay.h"

namespace saker::frontend {

// Can the function run once more without being noticed: all that it changes are its arguments, and no guard asks
// whether an argument is some other object?
bool canVerify(const Segment& segment, PyObject* function);
// Replay::run, with an error where eager mode gives something else.
PyObject* runVerified(Replay& replay, PyObject* function, const CallArguments& call);

}  // namespace saker::frontend
