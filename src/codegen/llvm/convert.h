// Conversions between types, of single numbers or lanes.
#pragma once

#include "codegen/llvm/code.h"

namespace saker::codegen {

Value* convert(Code& code, Value* value, DType from, DType to);

}  // namespace saker::codegen
