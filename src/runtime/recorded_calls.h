// Operators called as they were when they were recorded: with autograd on or off, in inference mode or not.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "runtime/executable.h"
#include "runtime/program.h"

namespace saker::runtime {

// Calls an operator so that autograd can follow: a write that became a value (aten::copy) has no derivative of its own.
void callFollowed(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack);

// Made before the dispatch state is changed for the run.
class RecordedCalls final : public Conduct {
 public:
  RecordedCalls(const Program& program, bool withAutograd);

  void call(const Instruction& at, torch::jit::Stack& stack) override { call(*at.node, *at.handle, at.makes, stack); }
  bool mayLaunch() const override { return !withAutograd_; }
  // `makes`: it takes no tensor, and is of the table.
  void call(const ir::Node& node, const c10::OperatorHandle& handle, bool makes, torch::jit::Stack& stack);

 private:
  bool withAutograd_;
  c10::impl::LocalDispatchKeySet around_;
  bool mayGrad_;
};

}  // namespace saker::runtime
