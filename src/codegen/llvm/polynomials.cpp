#include "codegen/llvm/polynomials.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <initializer_list>

namespace saker::codegen {
namespace {

// The coefficient of the highest power first.
Value* horner(Code& code, Value* x, std::initializer_list<double> coefficients) {
  Value* sum = nullptr;
  for (double each : coefficients) sum = sum ? code.fma(sum, x, code.like(x, each)) : code.like(x, each);
  return sum;
}

// A nan stays one.
Value* atMost(Code& code, Value* x, double limit) {
  return code.b.CreateSelect(code.b.CreateFCmpOGT(x, code.like(x, limit)), code.like(x, limit), x);
}
Value* atLeast(Code& code, Value* x, double limit) {
  return code.b.CreateSelect(code.b.CreateFCmpOLT(x, code.like(x, limit)), code.like(x, limit), x);
}
Value* absolute(Code& code, Value* x) { return code.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
Value* nearest(Code& code, Value* x) { return code.b.CreateUnaryIntrinsic(llvm::Intrinsic::nearbyint, x); }
Value* copySign(Code& code, Value* x, Value* sign) {
  return code.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign);
}
llvm::Type* integers(Code& code, Value* x) { return Code::widened(code.b.getInt32Ty(), Code::lanes(x)); }

// x * 2^n for a whole number n between -151 and 129, with one rounding.
Value* scale(Code& code, Value* x, Value* n) {
  auto& b = code.b;
  if (code.target.vectorBytes == 64 && Code::lanes(x) % 16 == 0) {
    return code.inPieces({x, n}, 16, [&](llvm::ArrayRef<Value*> v) {
      return b.CreateIntrinsic(
          llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
          {v[0], v[1], llvm::Constant::getNullValue(v[0]->getType()), b.getInt16(0xffff), b.getInt32(4)});
    });
  }
  // Two factors, since one would overflow; the first multiplication is exact.
  Value* whole = b.CreateFPToSI(n, integers(code, x));
  Value* half = b.CreateAShr(whole, 1);
  auto power = [&](Value* exponent) {
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(exponent, code.likeInt(exponent, 127)), 23), x->getType());
  };
  return b.CreateFMul(b.CreateFMul(x, power(half)), power(b.CreateSub(whole, half)));
}

// exp of numbers between -104 and 89, and of nan.
Value* expInRange(Code& code, Value* x) {
  auto& b = code.b;
  Value* n = nearest(code, b.CreateFMul(x, code.like(x, 1.44269504088896341)));
  Value* r = code.fma(n, code.like(x, -0.693359375), x);  // the first part of ln 2 has few digits
  r = code.fma(n, code.like(x, 2.12194440054690583e-4), r);
  Value* p =
      horner(code, r, {1.979024863e-04, 1.394475916e-03, 8.333497669e-03, 4.166629362e-02, 1.666666586e-01, 0.5});
  Value* e = code.fma(p, b.CreateFMul(r, r), r);
  return scale(code, b.CreateFAdd(e, code.like(x, 1.0)), n);
}

}  // namespace

Value* expPolynomial(Code& code, Value* x) { return expInRange(code, atLeast(code, atMost(code, x, 89.0), -104.0)); }

Value* exp2Polynomial(Code& code, Value* x) {
  x = atLeast(code, atMost(code, x, 129.0), -151.0);
  Value* n = nearest(code, x);
  Value* r = code.b.CreateFSub(x, n);
  Value* p = horner(code, r,
                    {1.519604191e-05, 1.546688257e-04, 1.333393657e-03, 9.618037769e-03, 5.550410363e-02,
                     2.402265107e-01, 6.931471807e-01});
  return scale(code, code.fma(p, r, code.like(x, 1.0)), n);
}

Value* logPolynomial(Code& code, Value* x) {
  auto& b = code.b;
  Value* tiny = b.CreateFCmpOLT(x, code.like(x, 0x1p-126));
  Value* normal = b.CreateSelect(tiny, b.CreateFMul(x, code.like(x, 0x1p23)), x);
  // normal = m * 2^e, with m between sqrt(1/2) and sqrt(2).
  Value* bits = b.CreateBitCast(normal, integers(code, x));
  Value* exponent = b.CreateAShr(b.CreateSub(bits, code.likeInt(bits, 0x3f3504f3)), 23);
  Value* m = b.CreateBitCast(b.CreateSub(bits, b.CreateShl(exponent, 23)), x->getType());
  Value* e = b.CreateSIToFP(exponent, x->getType());
  e = b.CreateFAdd(e, b.CreateSelect(tiny, code.like(x, -23.0), code.like(x, 0.0)));
  Value* f = b.CreateFSub(m, code.like(x, 1.0));
  Value* z = b.CreateFMul(f, f);
  Value* p = horner(code, f,
                    {6.757530893e-02, -1.169432444e-01, 1.189352495e-01, -1.240308633e-01, 1.421855293e-01,
                     -1.666809016e-01, 2.000216714e-01, -2.500000872e-01, 3.333331197e-01});
  Value* y = b.CreateFMul(b.CreateFMul(p, z), f);
  y = code.fma(e, code.like(x, -2.12194440054690583e-4), y);
  y = code.fma(z, code.like(x, -0.5), y);
  y = code.fma(e, code.like(x, 0.693359375), b.CreateFAdd(f, y));
  Value* infinity = llvm::ConstantFP::getInfinity(x->getType());
  y = b.CreateSelect(b.CreateFCmpUGE(x, infinity), x, y);
  y = b.CreateSelect(b.CreateFCmpOEQ(x, code.like(x, 0.0)), llvm::ConstantFP::getInfinity(x->getType(), true), y);
  return b.CreateSelect(b.CreateFCmpOLT(x, code.like(x, 0.0)), llvm::ConstantFP::getNaN(x->getType()), y);
}

Value* tanhPolynomial(Code& code, Value* x) {
  auto& b = code.b;
  Value* magnitude = absolute(code, x);
  Value* z = b.CreateFMul(x, x);
  Value* p = horner(code, z, {-5.698899572e-03, 2.063385070e-02, -5.373818035e-02, 1.333142473e-01, -3.333328134e-01});
  Value* small = code.fma(b.CreateFMul(p, z), magnitude, magnitude);
  Value* bounded = atMost(code, magnitude, 10.0);  // from there on it is 1
  Value* e = expInRange(code, b.CreateFAdd(bounded, bounded));
  Value* ratio = b.CreateFDiv(code.like(x, 2.0), b.CreateFAdd(e, code.like(x, 1.0)));
  Value* large = b.CreateFSub(code.like(x, 1.0), ratio);
  return copySign(code, b.CreateSelect(b.CreateFCmpOLT(magnitude, code.like(x, 0.625)), small, large), x);
}

Value* erfPolynomial(Code& code, Value* x) {
  auto& b = code.b;
  Value* magnitude = absolute(code, x);
  Value* s = b.CreateFMul(x, x);
  Value* p = horner(code, s,
                    {8.298780129e-05, -8.125678978e-04, 5.199517758e-03, -2.685878183e-02, 1.128368425e-01,
                     -3.761263299e-01, 1.283791666e-01});
  Value* small = code.fma(p, x, x);
  // 1 - exp(-t - t q(t)); from 4 on it is 1.
  Value* t = atMost(code, magnitude, 4.0);
  Value* q = horner(code, t,
                    {1.083840039e-05, -3.188835145e-04, 3.626572995e-03, -2.372858664e-02, 1.061981653e-01,
                     6.351746260e-01, 1.286427761e-01});
  Value* e = expInRange(code, code.fma(b.CreateFNeg(q), t, b.CreateFNeg(t)));
  Value* large = copySign(code, b.CreateFSub(code.like(x, 1.0), e), x);
  return b.CreateSelect(b.CreateFCmpOLT(magnitude, code.like(x, 0.92)), small, large);
}

Value* sinCosPolynomial(Code& code, Value* x, bool cosine) {
  auto& b = code.b;
  // x = q * pi/2 + r. The three parts of pi/2 have 24 digits each, and the differences are exact where they must be.
  Value* q = nearest(code, b.CreateFMul(x, code.like(x, 0.636619772367581343)));
  Value* r = code.fma(q, code.like(x, -1.57079637050628662109375), x);
  r = code.fma(q, code.like(x, 4.371138828673793e-8), r);
  r = code.fma(q, code.like(x, 1.7151245100058819e-15), r);
  Value* z = b.CreateFMul(r, r);
  Value* p = horner(code, z, {2.717971138e-06, -1.983929653e-04, 8.333329256e-03, -1.666666664e-01});
  Value* sine = code.fma(b.CreateFMul(p, z), r, r);
  Value* c = horner(code, z, {2.443166628e-05, -1.388730344e-03, 4.166664542e-02});
  Value* other = code.fma(b.CreateFMul(z, z), c, code.fma(z, code.like(x, -0.5), code.like(x, 1.0)));
  Value* quadrant = b.CreateFPToSI(q, integers(code, x));
  if (cosine) quadrant = b.CreateAdd(quadrant, code.likeInt(quadrant, 1));
  Value* odd = b.CreateICmpNE(b.CreateAnd(quadrant, 1), code.likeInt(quadrant, 0));
  Value* result = b.CreateBitCast(b.CreateSelect(odd, other, sine), quadrant->getType());
  result = b.CreateBitCast(b.CreateXor(result, b.CreateShl(b.CreateAnd(quadrant, 2), 30)), x->getType());
  if (cosine) return result;
  // Keeps the sign of zero.
  return b.CreateSelect(b.CreateFCmpOLT(absolute(code, x), code.like(x, 0x1p-12)), x, result);
}

}  // namespace saker::codegen
