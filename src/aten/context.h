// Contexts of graphs that PyTorch runs.
#pragma once

#include <memory>

#include "ir/context.h"

namespace saker::aten {

// A context with the operator table, which knows what this PyTorch does on this machine.
std::shared_ptr<ir::Context> newContext();

}  // namespace saker::aten
