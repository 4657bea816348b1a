// A call written as text, tensors by their types: for reports, and to tell calls apart.
#pragma once

#include <span>
#include <string>

#include "ir/arg.h"

namespace saker::aten {

std::string callText(std::string_view name, std::span<const ir::Arg> args);

}  // namespace saker::aten
