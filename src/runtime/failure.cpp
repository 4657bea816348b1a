#include "runtime/failure.h"

#include <stdexcept>

namespace saker::runtime {

Failure& lastFailure() {
  thread_local Failure last;
  return last;
}

void failForSizes(const std::string& op) {
  lastFailure().sizes = true;
  throw std::runtime_error(op + ": the result has another shape than was inferred");
}

}  // namespace saker::runtime
