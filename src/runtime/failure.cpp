#include "runtime/failure.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <stdexcept>

namespace saker::runtime {

Failure& lastFailure() {
  thread_local Failure last;
  return last;
}

void checkPlain(const std::string& op, const at::Tensor& result) {
  constexpr c10::DispatchKey key = c10::DispatchKey::Python;
  if (!result.unsafeGetTensorImpl()->key_set().has(key) || !c10::impl::tls_is_dispatch_key_excluded(key)) return;
  throw std::runtime_error(op + ": the result is a tensor subclass that answers operators itself, which was not known");
}

void failForSizes(const std::string& op) {
  lastFailure().sizes = true;
  throw std::runtime_error(op + ": the result has another shape than was inferred");
}

}  // namespace saker::runtime
