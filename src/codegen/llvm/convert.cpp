#include "codegen/llvm/convert.h"

namespace saker::codegen {
namespace {

Value* fromBfloat16(Code& code, Value* bits) {
  int lanes = Code::lanes(bits);
  Value* wide = code.b.CreateZExt(bits, Code::widened(code.b.getInt32Ty(), lanes));
  return code.b.CreateBitCast(code.b.CreateShl(wide, 16), Code::widened(code.b.getFloatTy(), lanes));
}

// By integers: the processor's instruction for it takes subnormal numbers for zero.
Value* toBfloat16(Code& code, Value* number) {
  auto& b = code.b;
  int lanes = Code::lanes(number);
  Value* bits = b.CreateBitCast(number, Code::widened(b.getInt32Ty(), lanes));
  Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
  Value* rounded = b.CreateLShr(b.CreateAdd(b.CreateAdd(bits, code.likeInt(bits, 0x7fff)), odd), 16);
  Value* nan = b.CreateFCmpUNO(number, number);
  return b.CreateTrunc(b.CreateSelect(nan, code.likeInt(bits, 0x7fc0), rounded), Code::widened(b.getInt16Ty(), lanes));
}

Value* fromFloat16(Code& code, Value* bits) {
  auto& b = code.b;
  int lanes = Code::lanes(bits);
  llvm::Type* floats = Code::widened(b.getFloatTy(), lanes);
  if (code.target.half) return b.CreateFPExt(b.CreateBitCast(bits, Code::widened(b.getHalfTy(), lanes)), floats);
  Value* wide = b.CreateZExt(bits, Code::widened(b.getInt32Ty(), lanes));
  Value* magnitude = b.CreateAnd(wide, 0x7fff);
  Value* shifted = b.CreateShl(magnitude, 13);
  // The exponent has another bias: a multiplication corrects it, for subnormal numbers too.
  Value* number = b.CreateFMul(b.CreateBitCast(shifted, floats), llvm::ConstantFP::get(floats, 0x1p112));
  Value* special = b.CreateICmpUGE(magnitude, code.likeInt(magnitude, 0x7c00));
  Value* out = b.CreateSelect(special, b.CreateOr(shifted, 0x7f800000), b.CreateBitCast(number, wide->getType()));
  return b.CreateBitCast(b.CreateOr(out, b.CreateShl(b.CreateAnd(wide, 0x8000), 16)), floats);
}

Value* toFloat16(Code& code, Value* number) {
  auto& b = code.b;
  int lanes = Code::lanes(number);
  llvm::Type* shorts = Code::widened(b.getInt16Ty(), lanes);
  if (code.target.half) {
    return b.CreateBitCast(b.CreateFPTrunc(number, Code::widened(b.getHalfTy(), lanes)), shorts);
  }
  Value* bits = b.CreateBitCast(number, Code::widened(b.getInt32Ty(), lanes));
  Value* sign = b.CreateLShr(b.CreateAnd(bits, code.likeInt(bits, 0x80000000ll)), 16);
  Value* magnitude = b.CreateAnd(bits, 0x7fffffff);
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, 13), 1);
  Value* biased = b.CreateAdd(magnitude, code.likeInt(bits, 0xfff - (int64_t{112} << 23)));
  Value* normal = b.CreateLShr(b.CreateAdd(biased, odd), 13);
  // Adding 0.5 leaves multiples of 2^-24 in the mantissa, rounded as they should be.
  Value* sum = b.CreateFAdd(b.CreateBitCast(magnitude, number->getType()), code.like(number, 0.5));
  Value* small = b.CreateSub(b.CreateBitCast(sum, bits->getType()), code.likeInt(bits, 0x3f000000));
  Value* out = b.CreateSelect(b.CreateICmpULT(magnitude, code.likeInt(bits, 0x38800000)), small, normal);
  out = b.CreateSelect(b.CreateICmpUGE(magnitude, code.likeInt(bits, 0x477ff000)), code.likeInt(bits, 0x7c00), out);
  out = b.CreateSelect(b.CreateICmpUGT(magnitude, code.likeInt(bits, 0x7f800000)), code.likeInt(bits, 0x7e00), out);
  return b.CreateTrunc(b.CreateOr(out, sign), shorts);
}

Value* floatToInteger(Code& code, Value* number, DType to) {
  auto& b = code.b;
  int lanes = Code::lanes(number);
  // Through the type that README.md of src/kernel names.
  bool wide = to == DType::Int64 || to == DType::UInt8;
  Value* out = b.CreateFPToSI(number, Code::widened(wide ? b.getInt64Ty() : b.getInt32Ty(), lanes));
  llvm::Type* type = Code::widened(code.type(to), lanes);
  return out->getType() == type ? out : b.CreateTrunc(out, type);
}

}  // namespace

Value* convert(Code& code, Value* value, DType from, DType to) {
  auto& b = code.b;
  if (from == to) return value;
  if (from == DType::BFloat16) return convert(code, fromBfloat16(code, value), DType::Float32, to);
  if (from == DType::Float16) return convert(code, fromFloat16(code, value), DType::Float32, to);
  if (to == DType::BFloat16) return toBfloat16(code, convert(code, value, from, DType::Float32));
  if (to == DType::Float16) return toFloat16(code, convert(code, value, from, DType::Float32));
  int lanes = Code::lanes(value);
  llvm::Type* type = Code::widened(code.type(to), lanes);
  if (ir::isFloat(from)) {
    if (to == DType::Bool) return b.CreateFCmpUNE(value, code.like(value, 0));
    if (to == DType::Float64) return b.CreateFPExt(value, type);
    if (to == DType::Float32) return b.CreateFPTrunc(value, type);
    return floatToInteger(code, value, to);
  }
  bool isUnsigned = from == DType::Bool || from == DType::UInt8;
  if (ir::isFloat(to)) {
    if (isUnsigned) value = b.CreateZExt(value, Code::widened(b.getInt32Ty(), lanes));
    return b.CreateSIToFP(value, type);
  }
  if (to == DType::Bool) return b.CreateICmpNE(value, code.likeInt(value, 0));
  if (ir::byteSize(from) == ir::byteSize(to) && from != DType::Bool) return value;  // u8 and i8
  if (ir::byteSize(from) > ir::byteSize(to)) return b.CreateTrunc(value, type);
  return isUnsigned ? b.CreateZExt(value, type) : b.CreateSExt(value, type);
}

}  // namespace saker::codegen
