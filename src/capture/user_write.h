// A call of an operator of the user's that writes, as a capture sees it: what it writes, and whether doing it on copies
// (aten/on_copies.h) is all that it does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capture/call.h"

namespace saker::tracing {

class Trace;

struct UserWrite {
  std::vector<at::Tensor> targets;  // what it writes, in the order of the copies
  // How far the version counter of each has been moved already: by a kernel above the trace, if the operator has one.
  // How far its own kernel moves it is known when that runs.
  uint32_t counted = 0;
};

bool isUserWrite(const Call& call);

// Throws ops::RefusalException where the schema says that results are views, or no tensors.
UserWrite userWrite(const Call& call);

// Why a graph would do it otherwise than eager mode, if it would.
std::optional<std::string> whyNotOnCopies(Trace& trace, const Call& call, const UserWrite& write);

// Why a graph would run an operator of the user's otherwise than eager mode does, if it would.
std::optional<std::string> whyNotBelowAutograd(const Call& call);

}  // namespace saker::tracing
