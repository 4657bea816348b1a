// What C++ programs catch.
#pragma once

#include <stdexcept>
#include <string>

namespace saker::tracing {

// A program cannot be captured. The message names the reason, the place in the program where it is known, and what to
// do.
struct CaptureError : std::runtime_error {
  explicit CaptureError(const std::string& message, const std::string& hint = {})
      : std::runtime_error(hint.empty() ? message : message + " (" + hint + ")") {}
};

}  // namespace saker::tracing
