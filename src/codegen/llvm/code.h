// The function that is being written: LLVM's builder, and the levels of loops that are open. Each level begins with a
// block to which instructions that do not depend on deeper loops are added at any time: values are hoisted when they
// are written, and no pass over the code has to find them.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/dtype.h"
#include "kernel/kernel.h"

namespace saker::codegen {

using kernel::DType;
using kernel::Op;
using llvm::Value;
using Values = llvm::SmallVector<Value*, 8>;

class Code {
 public:
  Code(llvm::Module& module, const TargetInfo& target, std::string name);

  llvm::IRBuilder<> b;
  llvm::Module& module;
  const TargetInfo& target;
  llvm::Function* function;

  // Levels are numbered from 0, the whole function. Opening one ends the current block.
  void openLevel();
  void closeLevel() { levels_.pop_back(); }
  int top() const { return static_cast<int>(levels_.size()) - 1; }

  // While this lives, instructions go to the beginning of a level; of the top one, to where the builder is.
  class At {
   public:
    At(Code& code, int level);
    ~At();
    At(const At&) = delete;

   private:
    Code& code_;
    llvm::IRBuilder<>::InsertPoint back_;
    bool moved_;
  };
  bool atTop() const { return away_ == 0; }  // blocks can be added only there

  // for (i = begin; i < end; i += step), with values that are carried from step to step.
  using Body = std::function<Values(Value* index, Values carried)>;
  Values loop(Value* begin, Value* end, int64_t step, Values carried, const Body& body);
  // Carried values pass through where the condition is false.
  Values conditional(Value* condition, Values carried, const std::function<Values(Values)>& body);

  // Types. f16 and bf16 are their bits; in memory, bools are bytes.
  llvm::Type* type(DType dtype);
  llvm::Type* memoryType(DType dtype);
  static llvm::Type* widened(llvm::Type* type, int lanes);
  static int lanes(const Value* value);  // 1: a single number

  llvm::Value* integer(int64_t number) { return b.getInt64(static_cast<uint64_t>(number)); }
  llvm::Constant* constant(DType dtype, uint64_t bits);
  // A constant of the same shape as `like`.
  Value* like(Value* value, double number) { return llvm::ConstantFP::get(value->getType(), number); }
  Value* likeInt(Value* value, int64_t number) {
    return llvm::ConstantInt::get(value->getType(), static_cast<uint64_t>(number), true);
  }
  Value* intrinsic(unsigned id, llvm::ArrayRef<Value*> operands) {
    return b.CreateIntrinsic(id, {operands[0]->getType()}, operands);
  }
  Value* fma(Value* x, Value* y, Value* z);
  Value* any(Value* bools);                  // whether one lane is true
  Value* opaque(Value* integer);             // the same, and LLVM does not know it
  Value* iota(llvm::Type* type, int lanes);  // 0, 1, 2, ...

  // Applies `f` to pieces of `size` lanes.
  Value* inPieces(llvm::ArrayRef<Value*> operands, int size, const std::function<Value*(llvm::ArrayRef<Value*>)>& f);
  Value* part(Value* vector, int from, int count);

 private:
  std::vector<llvm::Instruction*> levels_;  // what hoisted instructions stand before
  int away_ = 0;
};

}  // namespace saker::codegen
