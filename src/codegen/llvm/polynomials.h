// Functions of f32 as polynomials, for processors with fused multiply-add; each within 2 units in the last place of the
// true result, for all arguments (tests/cpp_codegen/functions.cpp). Coefficients are minimax fits of our own.
#pragma once

#include "codegen/llvm/code.h"

namespace saker::codegen {

Value* expPolynomial(Code& code, Value* x);
Value* exp2Polynomial(Code& code, Value* x);
Value* logPolynomial(Code& code, Value* x);
Value* tanhPolynomial(Code& code, Value* x);
Value* erfPolynomial(Code& code, Value* x);

// Right where |x| is at most the limit; beyond, and for infinity, the result is meaningless.
inline constexpr double kSinCosLimit = 1e5;
Value* sinCosPolynomial(Code& code, Value* x, bool cosine);

}  // namespace saker::codegen
