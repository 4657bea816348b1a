// What the watched program asks data: does it raise, if the answer is not what it is? Does it choose among objects?
#pragma once

#include <optional>

namespace saker::watch {

// The running instruction of the innermost watched frame is a conditional jump, or calls bool for one, there or in the
// frame that it returns to; and one of the two ways of the jump does nothing but raise: the truth that leads the other
// way. Nothing: it is no such check.
std::optional<bool> checkedTruth();

// Is the innermost watched frame in a call of the builtin functions min or max? They ask data which of their arguments
// is the one.
bool chooses();

}  // namespace saker::watch
