// From a recording to what runs it: the one list of stages, whoever asks (saker.compile in training, with sizes that
// change or not; aot_function; back ends of the user's). Programs that are not differentiated pass the stages Simplify
// and Prepare when they first run (runtime/prepared.h).
#pragma once

#include <memory>

#include "aot/compiled_function.h"
#include "passes/stages.h"

namespace saker::aot {

// A function, which is called once on stand-ins. Throws as the stages do: CallFailed, NotAheadOfTime.
std::shared_ptr<CompiledFunction> compile(const tracing::Host& host, std::span<const at::Tensor> arguments,
                                          const Callee& function, const JointOptions& options,
                                          const autograd::PartitionOptions& partition, passes::Stages& stages);

// The first stage alone: calls the function on stand-ins and differentiates it, for what it learns from that.
void differentiate(const tracing::Host& host, std::span<const at::Tensor> arguments, const Callee& function,
                   const JointOptions& options, passes::Stages& stages);

// A recording, whose sizes may be symbols; `inputs` are examples of what its parameters are given. What a backward asks
// of symbols becomes guards of the recording.
std::shared_ptr<CompiledFunction> compile(const tracing::Host& host, const runtime::Program& recording,
                                          std::span<const at::Tensor> inputs, passes::Stages& stages);

}  // namespace saker::aot
