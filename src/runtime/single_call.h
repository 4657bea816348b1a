// A program of one small operator, called as eager mode calls it: on the tensors themselves, autograd above it. What
// longer programs gain by (slots, memory that is kept, a run below autograd) costs more than such an operator takes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "aten/kept_call.h"
#include "runtime/geometry.h"
#include "runtime/program.h"

namespace saker::runtime {

// An operator of few numbers of the CPU, or that makes a view: as fast by itself as in any graph.
bool isSmallOperator(const ir::Node& node);

// Does nothing but one operator run, on few numbers of the CPU, or to make a view? Then compiling its gradients gains
// nothing either: autograd calls one operator for it.
bool isSingle(const Program& program);

// One thread at a time may run it: it is for callers who hold a lock, and the operator is too small to let go of it.
class SingleCall {
 public:
  // Nothing: the program is another one. It lives as long as this does.
  static std::shared_ptr<const SingleCall> of(const Program& program);
  // By argument of the program, which are such as it was recorded for. They are alive until this returns.
  at::Tensor run(std::span<const at::Tensor* const> arguments) const;

 private:
  struct From {
    uint32_t argument;  // of the operator
    size_t number;      // of the program's arguments
    at::Tensor closed;  // in place of that
    const at::Tensor& in(std::span<const at::Tensor* const> given) const {
      return closed.defined() ? closed : *given[number];
    }
  };
  SingleCall(const ir::Node& node, c10::OperatorHandle handle);
  bool takeArguments(const Program& program, const ir::Node& node);
  void findType();
  void findKernel(const Program& program, const ir::Node& node);
  bool isFollowed(std::span<const at::Tensor* const> arguments) const;
  bool runKernel(std::span<const at::Tensor* const> arguments, at::Tensor& result) const;
  at::Tensor call(std::span<const at::Tensor* const> arguments) const;

  using Unary = c10::TypedOperatorHandle<at::Tensor(const at::Tensor&)>;
  using UnaryInPlace = c10::TypedOperatorHandle<at::Tensor&(at::Tensor&)>;

  const c10::OperatorHandle handle_;
  // The same with its type, where it takes one tensor and nothing else.
  std::optional<Unary> unary_;
  std::optional<UnaryInPlace> inPlace_;
  std::vector<c10::IValue> constants_;  // by argument of the operator, with gaps for tensors
  std::vector<From> from_;
  const bool noGrad_;
  mutable torch::jit::Stack stack_;
  // Where the kernel may be entered directly: what it computes on, which is borrowed while it runs, and into.
  const aten::KeptKernel* kernel_ = nullptr;
  std::vector<c10::IValue> kernelConstants_;
  Geometry told_;
  at::ScalarType dtype_{};
  mutable std::vector<at::Tensor> lent_;
  mutable at::Tensor result_;
  mutable std::unique_ptr<aten::KeptCall> prepared_;
  mutable bool tried_ = false;
};

}  // namespace saker::runtime
