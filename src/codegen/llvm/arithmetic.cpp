#include "codegen/llvm/arithmetic.h"

#include <bit>
#include <limits>

#include "codegen/llvm/functions.h"
#include "support/check.h"

namespace saker::codegen {
namespace {

using kernel::Reduction;
using llvm::Intrinsic::ID;

bool isUnsigned(DType dtype) { return dtype == DType::UInt8 || dtype == DType::Bool; }

Value* extreme(Code& code, bool larger, DType dtype, Value* x, Value* y) {
  auto& b = code.b;
  if (!ir::isFloat(dtype)) {
    ID id = isUnsigned(dtype) ? (larger ? llvm::Intrinsic::umax : llvm::Intrinsic::umin)
                              : (larger ? llvm::Intrinsic::smax : llvm::Intrinsic::smin);
    return b.CreateBinaryIntrinsic(id, x, y);
  }
  // The comparison and the first select are one instruction, which gives y if one is a nan.
  Value* picked = b.CreateSelect(larger ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y), x, y);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, picked);
}

// Division never traps: what is divided by zero is anything, since lanes that nobody asked for may do so.
Value* integerDivision(Code& code, DType dtype, Value* x, Value* y) {
  auto& b = code.b;
  if (dtype != DType::Int64) {
    // Floats with enough digits divide exactly, many at a time.
    int lanes = Code::lanes(x);
    llvm::Type* type = Code::widened(dtype == DType::Int32 ? b.getDoubleTy() : b.getFloatTy(), lanes);
    auto number = [&](Value* v) { return isUnsigned(dtype) ? b.CreateUIToFP(v, type) : b.CreateSIToFP(v, type); };
    Value* quotient = b.CreateFPToSI(b.CreateFDiv(number(x), number(y)), Code::widened(b.getInt32Ty(), lanes));
    return dtype == DType::Int32 ? quotient : b.CreateTrunc(quotient, x->getType());
  }
  Value* minusOne = b.CreateICmpEQ(y, code.likeInt(y, -1));
  Value* traps = b.CreateOr(minusOne, b.CreateICmpEQ(y, code.likeInt(y, 0)));
  Value* quotient = b.CreateSDiv(x, b.CreateSelect(traps, code.likeInt(y, 1), y));
  return b.CreateSelect(minusOne, b.CreateNeg(x), quotient);
}

Value* shift(Code& code, bool left, DType dtype, Value* x, Value* y) {
  auto& b = code.b;
  int width = 8 * ir::byteSize(dtype);
  if (!left && !isUnsigned(dtype)) {
    return b.CreateAShr(x, b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, y, code.likeInt(y, width - 1)));
  }
  Value* inside = b.CreateICmpULT(y, code.likeInt(y, width));
  Value* amount = b.CreateSelect(inside, y, code.likeInt(y, 0));
  Value* shifted = left ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  return b.CreateSelect(inside, shifted, code.likeInt(x, 0));
}

Value* compare(Code& code, Op op, DType dtype, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  struct Row {
    P floats, signedIntegers, unsignedIntegers;
  };
  static constexpr Row kRows[] = {
      {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  const Row& row = kRows[static_cast<size_t>(op) - static_cast<size_t>(Op::Eq)];
  if (ir::isFloat(dtype)) return code.b.CreateFCmp(row.floats, x, y);
  return code.b.CreateICmp(isUnsigned(dtype) ? row.unsignedIntegers : row.signedIntegers, x, y);
}

Value* integerOp(Code& code, Op op, DType dtype, llvm::ArrayRef<Value*> v) {
  auto& b = code.b;
  switch (op) {
    case Op::Add:
      return b.CreateAdd(v[0], v[1]);
    case Op::Sub:
      return b.CreateSub(v[0], v[1]);
    case Op::Mul:
      return b.CreateMul(v[0], v[1]);
    case Op::Div:
      return integerDivision(code, dtype, v[0], v[1]);
    case Op::Rem:
      return b.CreateSub(v[0], b.CreateMul(integerDivision(code, dtype, v[0], v[1]), v[1]));
    case Op::Neg:
      return b.CreateNeg(v[0]);
    case Op::Abs:
      return isUnsigned(dtype) ? v[0] : b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, v[0], b.getFalse());
    case Op::And:
      return b.CreateAnd(v[0], v[1]);
    case Op::Or:
      return b.CreateOr(v[0], v[1]);
    case Op::Xor:
      return b.CreateXor(v[0], v[1]);
    case Op::Not:
      return b.CreateNot(v[0]);
    case Op::Shl:
    case Op::Shr:
      return shift(code, op == Op::Shl, dtype, v[0], v[1]);
    default:
      SAKER_CHECK(false, "an operation of integers that there is not");
  }
}

Value* floatOp(Code& code, Op op, llvm::ArrayRef<Value*> v) {
  auto& b = code.b;
  switch (op) {
    case Op::Add:
      return b.CreateFAdd(v[0], v[1]);
    case Op::Sub:
      return b.CreateFSub(v[0], v[1]);
    case Op::Mul:
      return b.CreateFMul(v[0], v[1]);
    case Op::Div:
      return b.CreateFDiv(v[0], v[1]);
    case Op::Fma:
      return code.fma(v[0], v[1], v[2]);
    case Op::Neg:
      return b.CreateFNeg(v[0]);
    case Op::Abs:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v[0]);
    case Op::Sqrt:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, v[0]);
    case Op::Floor:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, v[0]);
    case Op::Ceil:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, v[0]);
    case Op::Trunc:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v[0]);
    case Op::Round:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::nearbyint, v[0]);
    case Op::CopySign:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, v[0], v[1]);
    default:
      SAKER_CHECK(false, "an operation of floats that there is not");
  }
}

}  // namespace

Value* arithmetic(Code& code, Op op, DType dtype, llvm::ArrayRef<Value*> v) {
  if (op == Op::Select) return code.b.CreateSelect(v[0], v[1], v[2]);
  if (op >= Op::Eq && op <= Op::Ge) return compare(code, op, dtype, v[0], v[1]);
  if (op == Op::Min || op == Op::Max) return extreme(code, op == Op::Max, dtype, v[0], v[1]);
  return ir::isFloat(dtype) ? floatOp(code, op, v) : integerOp(code, op, dtype, v);
}

Value* combine(Code& code, Reduction reduction, DType dtype, Value* a, Value* b) {
  switch (reduction) {
    case Reduction::Sum:
      return arithmetic(code, Op::Add, dtype, {a, b});
    case Reduction::Prod:
      return arithmetic(code, Op::Mul, dtype, {a, b});
    case Reduction::Max:
      return extreme(code, true, dtype, a, b);
    case Reduction::Min:
      return extreme(code, false, dtype, a, b);
    case Reduction::Any:
      return code.b.CreateOr(a, b);
    case Reduction::All:
      return code.b.CreateAnd(a, b);
  }
  return nullptr;
}

llvm::Constant* identity(Code& code, Reduction reduction, DType dtype) {
  llvm::Type* type = code.type(dtype);
  bool isFloat = ir::isFloat(dtype);
  unsigned width = static_cast<unsigned>(8 * ir::byteSize(dtype));
  bool largest = reduction == Reduction::Min;
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Any:
      return llvm::Constant::getNullValue(type);
    case Reduction::Prod:
      return isFloat ? llvm::ConstantFP::get(type, 1.0) : llvm::ConstantInt::get(type, 1);
    case Reduction::All:
      return llvm::ConstantInt::get(type, 1);
    default:
      break;
  }
  if (isFloat) return llvm::ConstantFP::getInfinity(type, !largest);
  llvm::APInt number = isUnsigned(dtype)
                           ? (largest ? llvm::APInt::getMaxValue(width) : llvm::APInt::getMinValue(width))
                           : (largest ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getSignedMinValue(width));
  return llvm::ConstantInt::get(type, number);
}

}  // namespace saker::codegen
