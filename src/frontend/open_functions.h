// A program that calls a torch.autograd.Function, whose gradients are compiled once its backward has run.
//
// At first the Function is one operator, and PyTorch runs it as ever. In a replay its forward is written down, and in
// the backward of that call its backward (saker._functions, on frontend/computation.h). If both only compute, what they
// were written down as takes their places where autograd goes through the program, and replays run compiled graphs.
#pragma once

#include <memory>
#include <vector>

#include "frontend/host_call.h"
#include "frontend/segment.h"

namespace saker::frontend {

// What is called for such an operator: the Function itself, or what stands for it where it is looked at (below).
Ref functionToCall(const HostCall& call);

// Runs a program that calls Functions: `plainly` at first. `exact`: by input, whether guards tell where it begins in
// its memory.
Executor openingFunctions(const std::shared_ptr<runtime::Program>& program, Executor plainly, std::vector<bool> exact);

}  // namespace saker::frontend
