// Segments for sizes that change: the call is made with stand-ins whose sizes are symbols, and nothing runs. What it
// finds out about the sizes becomes guards of the segment.
#pragma once

#include <memory>
#include <vector>

#include "frontend/changed_numbers.h"
#include "frontend/recorder.h"
#include "frontend/segment.h"

namespace saker::frontend {

// Nothing, and `why`, where the call cannot be followed without running it, or would change something outside: it is as
// if it had not been made. What holds the stand-ins are copies of the arguments; changes of these are done again.
// Sizes and numbers that the program looks at as objects (their text, their hash) are taken from `arguments` and stay
// what they are. `held` are numbers outside of the arguments that are symbols as well: they stand in the objects of the
// program while it is followed.
// `examples` get the inputs of its program. There is nothing yet that runs it.
std::unique_ptr<Segment> captureDynamic(PyObject* function, const Ambient& before, const CallArguments& call,
                                        std::vector<StandIn>& arguments, const std::vector<ChangedNumber>& held,
                                        std::vector<at::Tensor>& examples, std::optional<Stop>& why);

// How many arguments a call has, by position and by name.
size_t argumentCount(const CallArguments& call);
StandIn numberStandIn(size_t index, Path path, PyObject* number);

// Which sizes of the call's tensors, and which numbers, have changed since a segment was recorded that would otherwise
// fit; those that were dynamic already stay so. Empty: it is not about sizes.
std::vector<StandIn> changedSizes(const Segment& segment, const CallArguments& call);
// Floats that are arguments, or in one, at some of the places that guards look at (see Guards::expression).
std::vector<StandIn> floatStandIns(const Guards& guards, const CallArguments& call,
                                   const std::set<std::string>& places);
// All sizes of all tensors that are arguments, or those that the user marked.
std::vector<StandIn> allSizes(const CallArguments& call);
std::vector<StandIn> markedSizes(const CallArguments& call);
// False, with an error set: the user has said by torch._dynamo.mark_dynamic that a size changes, and the program does
// not allow it. `left` has the sizes that stayed symbols, `segment` what was recorded, or nothing.
bool checkMarks(const CallArguments& call, const std::vector<StandIn>& left, const Segment* segment);

}  // namespace saker::frontend
