// What loops of programs carry from step to step, and what they have carried.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace saker::runtime {

using Values = std::vector<c10::IValue>;

// Copies results that share memory with something given, or with another result.
void copyShared(Values& results, const Values& given);

// What a while loop carried into each of its steps. The first is what it was given, whose memory is not its own: that
// is left out.
struct History {
  int64_t steps = 0;
  std::vector<Values> carried;  // into all but the first step
  std::vector<Values> kept;     // what each step gave beside what it carries
};

// The number of steps, in memory that keeps the history as long as it, or another tensor over that memory, lives.
at::Tensor keepHistory(History history);
// What it keeps, or nullptr: it was copied.
const History* historyOf(const at::Tensor& tensor);

// May throw: called between the steps of a loop whose end nobody knows. A host sets it.
using Interruption = void (*)();
void setInterruption(Interruption check);
void checkInterruption();

}  // namespace saker::runtime
