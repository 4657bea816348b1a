// Does the watched program raise, if a value that it asks for its truth is not what it is?
#pragma once

#include <optional>

namespace saker::watch {

// The running instruction of the innermost watched frame is a conditional jump, and one of its two ways does nothing
// but raise: the truth that leads the other way. Nothing: it is no such check.
std::optional<bool> checkedTruth();

}  // namespace saker::watch
