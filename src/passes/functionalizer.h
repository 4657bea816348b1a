// Internal to the pass that makes programs functional: one walk over the graph, in three files. functionalize.cpp has
// operators that write nothing and the end, functionalize_writes.cpp those that write, functionalize_bodies.cpp
// branches and loops.
#pragma once

#include <span>
#include <vector>

#include "ops/effects.h"
#include "ops/functional_form.h"
#include "passes/functionalize_memory.h"
#include "support/arena.h"
#include "support/small_vec.h"

namespace saker::passes {

class Functionalizer {
 public:
  Functionalizer(ir::Graph& graph, bool unknownReadOnly)
      : graph_(graph), memory_(graph), unknownReadOnly_(unknownReadOnly) {}

  void run();
  // The node being visited, for the reason of a failure.
  const ir::Node* at() const { return at_; }

 private:
  using Arg = ir::Arg;
  using Node = ir::Node;
  using Value = ir::Value;

  bool findWork(ir::Region* top);
  void visitAll(ir::Region* region);
  void visit(Node* node);
  void replace(Node* node, size_t result, Value* by) { graph_.replaceAllUses(node->result(result), by); }

  // Operators that write nothing.
  void updateOperands(Node* node);
  void markRead();
  void visitUnknown(Node* node);
  void visitValue(Node* node);
  void visitInStorage(Node* node);

  // Operators that write.
  struct Target {  // a tensor that is written, and the result that is the same tensor afterwards
    Value* tensor;
    Value* result = nullptr;
    bool resized() const { return result && !sameMemory(*result->tensor(), *tensor->tensor()); }
  };
  bool keep(Node* node);
  void visitMetadata(Node* node, const ops::Operator& view);
  void becomeView(Node* node, const ops::Operator& op, SmallVec<Arg, 8>& args);
  bool tryBecomeView(Node* node, const ops::Operator& op, SmallVec<Arg, 8>& args);
  void visitStorage(Node* node, const ops::Operator& op);
  void requireEmpty(Value* value);
  Value* uninitialized(Node* position, const ir::TensorType& type);
  void becomeRoot(Node* node);
  std::span<Value* const> recordedIn(const Node& node, size_t argument) const;
  void findTargets(const Node& node, const ops::Operator& op);
  void visitWrite(Node* node, const ops::Operator& op);
  bool shareMemory();
  Arg nowOf(const Arg& arg, Node* position);
  bool writeByValue(Node* node, const ops::Operator& op);
  void discard(Node* functional, const Node* end);
  bool fitsTargets(const ops::Operator& op, std::span<const ir::Type* const> results) const;
  void adopt(Value* result, Value* updated, Node* position);
  void aliasResults();
  void writeInPlace(Node* node);

  // Branches and loops.
  void visitBodies(Node* node);
  void visitUnknownBodies(Node* node);
  bool visitUnknownBody(ir::Region* body, Node* owner);
  struct Sharing {  // of a result with memory that is known by another name
    bool frozen = false, lost = false;
  };
  void visitKnownBodies(Node* node);
  void visitBody(ir::Region* body, const std::vector<Value*>& written, std::vector<Sharing>& results);
  std::vector<Value*> writtenAround(const Node& node);
  Node* passContents(Node* node, const std::vector<Value*>& written);
  void freeze(const Value* value);
  bool isLost(const Value* value);
  void requireOwn(const Value* value);

  // The end.
  void finish(Node* end);

  ir::Graph& graph_;
  ProgramMemory memory_;
  Arena scratch_;
  const Node* at_ = nullptr;
  bool unknownReadOnly_;
  Node* epilogue_ = nullptr;
  bool inEpilogue_ = false;
  std::vector<Value*> recorded_;  // the operands of the node being visited, as recorded
  std::vector<Target> targets_;   // what it writes, in the order of the arguments
  std::vector<Value*> fresh_;     // its results that are no arguments
  std::vector<Node*> geometryWrites_;
  uint32_t mark_ = 0;
};

}  // namespace saker::passes
