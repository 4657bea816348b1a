#include "codegen/llvm/functions.h"

#include "codegen/llvm/polynomials.h"
#include "codegen/outside.h"

namespace saker::codegen {
namespace {

Value* call(Code& code, const std::string& name, llvm::ArrayRef<Value*> operands) {
  llvm::Type* type = operands[0]->getType();
  llvm::SmallVector<llvm::Type*, 3> types(operands.size(), type);
  llvm::FunctionCallee callee = code.module.getOrInsertFunction(name, llvm::FunctionType::get(type, types, false));
  llvm::CallInst* made = code.b.CreateCall(callee, operands);
  made->addFnAttr(llvm::Attribute::NoBuiltin);  // LLVM would make one call of others that nobody gives, sincosf
  made->setDoesNotThrow();
  made->setDoesNotAccessMemory();
  return made;
}

}  // namespace

bool isFunction(Op op, DType dtype) { return op >= Op::Exp || (op == Op::Rem && ir::isFloat(dtype)); }

Value* callOutside(Code& code, const Functions& functions, Op op, DType dtype, llvm::ArrayRef<Value*> operands) {
  int widest = code.target.vectorBytes / ir::byteSize(dtype);
  for (int lanes = std::min(Code::lanes(operands[0]), widest); lanes > 1; lanes /= 2) {
    std::string name = vectorFunction(op, dtype, lanes, functions.eager);
    if (name.empty() || !functions.has(name)) continue;
    return code.inPieces(operands, lanes, [&](llvm::ArrayRef<Value*> pieces) { return call(code, name, pieces); });
  }
  std::string name = scalarFunction(op, dtype);
  return code.inPieces(operands, 1, [&](llvm::ArrayRef<Value*> pieces) { return call(code, name, pieces); });
}

Value* function(Code& code, const Functions& functions, Op op, DType dtype, llvm::ArrayRef<Value*> operands) {
  // Without fused multiply-add the polynomials would not be accurate.
  if (dtype != DType::Float32 || functions.eager || !code.target.fma)
    return callOutside(code, functions, op, dtype, operands);
  Value* x = operands[0];
  switch (op) {
    case Op::Exp:
      return expPolynomial(code, x);
    case Op::Exp2:
      return exp2Polynomial(code, x);
    case Op::Log:
      return logPolynomial(code, x);
    case Op::Tanh:
      return tanhPolynomial(code, x);
    case Op::Erf:
      return erfPolynomial(code, x);
    case Op::Sin:
    case Op::Cos: {
      // Large arguments, which need pi with many more digits, are left to the function outside.
      if (!code.atTop()) break;
      Value* magnitude = code.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
      Value* large = code.b.CreateFCmpOGT(magnitude, code.like(x, kSinCosLimit));
      Value* fast = sinCosPolynomial(code, x, op == Op::Cos);
      return code.conditional(code.any(large), {fast}, [&](Values) -> Values {
        Value* slow = callOutside(code, functions, op, dtype, operands);
        return {code.b.CreateSelect(large, slow, fast)};
      })[0];
    }
    default:
      break;
  }
  return callOutside(code, functions, op, dtype, operands);
}

}  // namespace saker::codegen
