// One call of an operator on its way into a trace.
#pragma once

#include <span>
#include <vector>

#include "capture/trace.h"
#include "ops/infer.h"

namespace saker::tracing {

class CallRecorder {
 public:
  CallRecorder(Trace& trace, const Call& call);

  // False: the operator is to be taken apart by its composite kernel, which records its parts.
  bool record();

 private:
  const c10::OperatorHandle& operatorOf() const;
  void settleStrangers();
  void settleForeign(Trace& owner);
  void recordConverted();
  void recordLiteral();
  bool isMetadataWrite() const;
  void giveGeometry(std::span<const ir::Arg> args, const ops::Inferred& inferred);
  bool setsMemory() const;
  bool setMemory();
  bool mustRun(const ops::Inferred& inferred) const;
  void recordUnknown();
  ops::Inferred inferByKernel();
  void recordBodies();
  void noteReads();
  void onlyEager(const std::string& why);
  void noteHidden(const at::Tensor& written);
  std::span<const ir::Arg> resolved(std::span<const ir::Arg> args, const ops::Inferred& inferred);

  ir::Node* insert(const ir::OpDef* def, std::span<const ir::Arg> args, std::span<const ir::Type* const> types);
  void append(const ir::OpDef* def, std::span<const ir::Arg> args, std::span<const ir::Type* const> types);
  void pushResults(const ir::Node& node, const ops::Operator* op);
  at::Tensor result(const ir::Node& node, size_t index, int alias, bool written);

  // An operator of the user's that writes (record_user_write.cpp).
  void recordUserWrite();
  std::vector<const ir::Type*> freshResults();
  void copyBack(const UserWrite& write, size_t target, ir::Value* contents);
  void pushBesideTargets(const ir::Node& node, size_t fresh);
  at::Tensor writtenAs(const c10::AliasInfo& alias) const;

  Trace& trace_;
  const Call& call_;
  const Entry* entry_;
};

}  // namespace saker::tracing
