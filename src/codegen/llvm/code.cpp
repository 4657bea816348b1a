#include "codegen/llvm/code.h"

#include <llvm/IR/InlineAsm.h>

namespace saker::codegen {

Code::Code(llvm::Module& module, const TargetInfo& target, std::string name)
    : b(module.getContext()), module(module), target(target) {
  llvm::Type* pointer = b.getPtrTy();
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, b.getInt64Ty(), b.getInt64Ty()}, false);
  function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("target-cpu", target.cpu);
  if (target.vectorBytes) {
    std::string width = std::to_string(8 * target.vectorBytes);
    function->addFnAttr("prefer-vector-width", width);
    function->addFnAttr("min-legal-vector-width", width);
  }
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
}

void Code::openLevel() {
  auto* body = llvm::BasicBlock::Create(module.getContext(), "body", function);
  levels_.push_back(b.CreateBr(body));
  b.SetInsertPoint(body);
}

Code::At::At(Code& code, int level) : code_(code), back_(code.b.saveIP()), moved_(level < code.top()) {
  if (!moved_) return;
  ++code_.away_;
  code_.b.SetInsertPoint(code_.levels_[static_cast<size_t>(level)]);
}

Code::At::~At() {
  if (!moved_) return;
  --code_.away_;
  code_.b.restoreIP(back_);
}

Values Code::loop(Value* begin, Value* end, int64_t step, Values carried, const Body& body) {
  return conditional(b.CreateICmpSLT(begin, end), std::move(carried), [&](Values before) {
    llvm::BasicBlock* from = b.GetInsertBlock();
    auto* head = llvm::BasicBlock::Create(module.getContext(), "loop", function);
    b.CreateBr(head);
    b.SetInsertPoint(head);
    llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2);
    index->addIncoming(begin, from);
    llvm::SmallVector<llvm::PHINode*, 8> nodes;
    Values inside;
    for (Value* each : before) {
      nodes.push_back(b.CreatePHI(each->getType(), 2));
      nodes.back()->addIncoming(each, from);
      inside.push_back(nodes.back());
    }
    Values after = body(index, std::move(inside));
    Value* next = b.CreateAdd(index, integer(step), "", true, true);
    llvm::BasicBlock* last = b.GetInsertBlock();
    index->addIncoming(next, last);
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->addIncoming(after[i], last);
    auto* exit = llvm::BasicBlock::Create(module.getContext(), "end", function);
    b.CreateCondBr(b.CreateICmpSLT(next, end), head, exit);
    b.SetInsertPoint(exit);
    return after;
  });
}

Values Code::conditional(Value* condition, Values carried, const std::function<Values(Values)>& body) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition))
    return known->isOne() ? body(std::move(carried)) : carried;
  llvm::BasicBlock* from = b.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(module.getContext(), "then", function);
  auto* join = llvm::BasicBlock::Create(module.getContext(), "join", function);
  b.CreateCondBr(condition, inside, join);
  b.SetInsertPoint(inside);
  Values after = body(carried);
  llvm::BasicBlock* last = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  Values joined;
  for (size_t i = 0; i < carried.size(); ++i) {
    llvm::PHINode* node = b.CreatePHI(carried[i]->getType(), 2);
    node->addIncoming(after[i], last);
    node->addIncoming(carried[i], from);
    joined.push_back(node);
  }
  return joined;
}

llvm::Type* Code::type(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return b.getInt1Ty();
    case DType::Float32:
      return b.getFloatTy();
    case DType::Float64:
      return b.getDoubleTy();
    default:
      return b.getIntNTy(static_cast<unsigned>(8 * ir::byteSize(dtype)));
  }
}

llvm::Type* Code::memoryType(DType dtype) { return dtype == DType::Bool ? b.getInt8Ty() : type(dtype); }

llvm::Type* Code::widened(llvm::Type* type, int lanes) {
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
}

int Code::lanes(const Value* value) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

llvm::Constant* Code::constant(DType dtype, uint64_t bits) {
  llvm::LLVMContext& context = module.getContext();
  if (dtype == DType::Float32) {
    return llvm::ConstantFP::get(context, llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits)));
  }
  if (dtype == DType::Float64) {
    return llvm::ConstantFP::get(context, llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
  }
  return llvm::ConstantInt::get(type(dtype), bits);
}

Value* Code::fma(Value* x, Value* y, Value* z) { return intrinsic(llvm::Intrinsic::fma, {x, y, z}); }

Value* Code::any(Value* bools) { return lanes(bools) == 1 ? bools : b.CreateOrReduce(bools); }

Value* Code::opaque(Value* integer) {
  if (!llvm::isa<llvm::Constant>(integer)) return integer;
  auto* type = llvm::FunctionType::get(integer->getType(), {integer->getType()}, false);
  return b.CreateCall(llvm::InlineAsm::get(type, "", "=r,0", false), {integer});  // no instructions
}

Value* Code::iota(llvm::Type* type, int lanes) {
  llvm::SmallVector<llvm::Constant*, 64> numbers;
  for (int i = 0; i < lanes; ++i) numbers.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(i)));
  return lanes == 1 ? numbers[0] : llvm::ConstantVector::get(numbers);
}

Value* Code::part(Value* vector, int from, int count) {
  if (count == 1) return b.CreateExtractElement(vector, static_cast<uint64_t>(from));
  llvm::SmallVector<int, 64> lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(from + i);
  return b.CreateShuffleVector(vector, lanes);
}

Value* Code::inPieces(llvm::ArrayRef<Value*> operands, int size,
                      const std::function<Value*(llvm::ArrayRef<Value*>)>& f) {
  int whole = lanes(operands[0]);
  if (whole == size) return f(operands);
  std::vector<Value*> pieces;
  for (int at = 0; at < whole; at += size) {
    Values parts;
    for (Value* each : operands) parts.push_back(part(each, at, size));
    pieces.push_back(f(parts));
  }
  if (size == 1) {
    Value* out = llvm::PoisonValue::get(widened(pieces[0]->getType(), whole));
    for (int i = 0; i < whole; ++i)
      out = b.CreateInsertElement(out, pieces[static_cast<size_t>(i)], static_cast<uint64_t>(i));
    return out;
  }
  while (pieces.size() > 1) {
    std::vector<Value*> joined;
    for (size_t i = 0; i < pieces.size(); i += 2) {
      llvm::SmallVector<int, 64> all;
      for (int k = 0; k < 2 * lanes(pieces[i]); ++k) all.push_back(k);
      joined.push_back(b.CreateShuffleVector(pieces[i], pieces[i + 1], all));
    }
    pieces = std::move(joined);
  }
  return pieces[0];
}

}  // namespace saker::codegen
