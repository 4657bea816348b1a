// Functions such as exp: by polynomials of our own, or by calls of functions outside (outside.h).
#pragma once

#include "codegen/llvm/code.h"

namespace saker::codegen {

struct Functions {
  bool eager = false;                           // the functions that eager mode calls, and no polynomials
  std::function<bool(const std::string&)> has;  // whether a function can be called by this name
};

// Whether this header computes it, and not arithmetic.h.
bool isFunction(Op op, DType dtype);
Value* function(Code& code, const Functions& functions, Op op, DType dtype, llvm::ArrayRef<Value*> operands);

// Calls the function outside, for as many lanes at a time as there is one for.
Value* callOutside(Code& code, const Functions& functions, Op op, DType dtype, llvm::ArrayRef<Value*> operands);

}  // namespace saker::codegen
