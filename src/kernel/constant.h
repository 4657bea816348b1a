// Constants of kernels as text: the shortest text that reads back as the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/dtype.h"

namespace saker::kernel {

// 1.0, -0.0, inf, nan, nan(0x7fc00001), -3, true.
void appendConstant(std::string& out, ir::DType dtype, uint64_t bits);
// Nothing if the text is no constant of this type.
std::optional<uint64_t> constantFromText(ir::DType dtype, std::string_view text);

}  // namespace saker::kernel
