// Numbers as the bits that a constant of a kernel has.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/dtype.h"

namespace saker::lower {

// Rounded to the type; of an integer type: converted as C++ does.
uint64_t constantBits(ir::DType dtype, double number);
uint64_t constantBits(ir::DType dtype, int64_t number);
// Nothing where code does it better: from and to half precision, and out of range.
std::optional<uint64_t> convertedConstant(ir::DType from, uint64_t bits, ir::DType to);

}  // namespace saker::lower
