// Operations that are a few instructions. Functions such as exp are in functions.h.
#pragma once

#include "codegen/llvm/code.h"
#include "kernel/kernel.h"

namespace saker::codegen {

// `dtype` is that of the operands. All operands have as many lanes, but for the condition of a select.
Value* arithmetic(Code& code, Op op, DType dtype, llvm::ArrayRef<Value*> operands);

// How two parts of a reduction become one, and what it is of nothing.
Value* combine(Code& code, kernel::Reduction reduction, DType dtype, Value* a, Value* b);
llvm::Constant* identity(Code& code, kernel::Reduction reduction, DType dtype);

}  // namespace saker::codegen
