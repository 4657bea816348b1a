// Calls of which the forward graph is all: no gradients, no writes, no views of what the caller has, no sizes that
// change. They go around what a call of any function has to ask (aot/call.h).
#pragma once

#include <vector>

#include "aot/plan.h"

namespace saker::aot {

// Are all calls such?
bool isPlain(const Plan& plan);

// One call, for a plan that is plain. Throws WrongArguments as every call does.
std::vector<at::Tensor> callPlainly(const Plan& plan, std::vector<at::Tensor> arguments);

}  // namespace saker::aot
