// Versions for sizes that change: the call is made with stand-ins whose sizes are symbols, and nothing runs. What it
// finds out about the sizes becomes guards of the version.
#pragma once

#include <memory>
#include <span>

#include "frontend/recorder.h"
#include "frontend/version.h"

namespace saker::frontend {

// Nothing, and `why`, where the call cannot be followed without running it, or would change something outside: it is as
// if it had not been made. What holds the stand-ins are copies of the arguments; changes of these are done again.
std::unique_ptr<Version> captureDynamic(PyObject* function, const Ambient& before, const CallArguments& call,
                                        std::span<StandIn> arguments, std::string& why);

// Which sizes of the call's tensors, and which numbers, have changed since a version was recorded that would otherwise
// fit; those that were dynamic already stay so. Empty: it is not about sizes.
std::vector<StandIn> changedSizes(const Version& version, const CallArguments& call);
// All sizes of all tensors that are arguments, or those that the user marked.
std::vector<StandIn> allSizes(const CallArguments& call);
std::vector<StandIn> markedSizes(const CallArguments& call);

}  // namespace saker::frontend
