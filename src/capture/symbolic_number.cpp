#include "capture/symbolic_number.h"

#include <atomic>

namespace saker::tracing {

namespace {
std::atomic<SymbolicNumber> asked = nullptr;
}

void setSymbolicNumber(SymbolicNumber ask) { asked.store(ask, std::memory_order_release); }
SymbolicNumber symbolicNumber() { return asked.load(std::memory_order_acquire); }

}  // namespace saker::tracing
