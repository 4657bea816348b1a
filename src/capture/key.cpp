#include "capture/key.h"

#include <torch/library.h>

#include "capture/record.h"

namespace saker::capture {

void setRecordingOnThisThread(bool on) { c10::impl::tls_set_dispatch_key_included(kTraceKey, on); }

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&recordCall>()); }

}  // namespace saker::capture
