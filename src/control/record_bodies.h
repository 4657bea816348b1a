// Records the bodies of an operator that a program calls: each function runs once, on stand-ins. What is around (a
// tape, a trace, nothing) lends the tensors that they find elsewhere, which become operands of the call.
//
//   BodyRecorder recorder(host, ClosedBodies::Kind::If, 2);
//   for (auto& function : functions) {
//     recorder.end(function(recorder.begin(operands, {})));
//   }
//   results = tracing::callBodies(all operands, recorder.close(closed));
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/body.h"
#include "capture/closed_bodies.h"
#include "control/sketch.h"

namespace saker::control {

using tracing::ClosedBodies;

class BodyRecorder {
 public:
  BodyRecorder(tracing::Host host, ClosedBodies::Kind kind, size_t bodies);
  ~BodyRecorder();
  BodyRecorder(const BodyRecorder&) = delete;
  BodyRecorder& operator=(const BodyRecorder&) = delete;

  // Begins the next body: stand-ins for tensors like these, or for slices of them along the first dimension. From here
  // on operators are recorded in it. The first parameters are called by `names`.
  std::vector<at::Tensor> begin(const std::vector<at::Tensor>& operands, const std::vector<bool>& sliced,
                                const std::vector<std::string>& names = {});
  // Ends it: it returns these tensors. Throws what was refused inside. True: the gradients of these tensors call code
  // of the user (a torch.autograd.Function, a hook).
  bool end(std::vector<at::Tensor> results);
  // All of them, closed. `closed` are the tensors that they found elsewhere: operands behind those they were given.
  // Throws std::runtime_error where a body does what it may not, OnlyAsPython where it may.
  c10::intrusive_ptr<ClosedBodies> close(std::vector<at::Tensor>& closed, ClosedBodies::Shape shape);
  // Is nothing recorded around it?
  bool alone() const { return scratch_ != nullptr; }
  // Has what was recorded around it been given up while a body ran? Nothing watches what that does from there on.
  bool left() const;
  // Takes back what was recorded and not closed. Whatever is around is still there.
  void cancel();

 private:
  tracing::Recording& outer() { return outer_; }
  at::Tensor tensorOf(const ir::Value* value);

  ClosedBodies::Kind kind_;
  std::unique_ptr<tracing::Tape> scratch_;  // where nothing is recorded around
  tracing::Tape* tape_;                     // around it
  tracing::Recording& outer_;
  std::optional<tracing::OpenNode> node_;
  std::optional<WithoutHooks> unhooked_;
  std::optional<tracing::Body> body_;
  std::vector<at::Tensor> parameters_;
  size_t next_ = 0;
  uint64_t firstNode_ = 0;  // of autograd, that the body makes
  std::vector<std::pair<ir::Value*, at::Tensor>> lent_;
};

}  // namespace saker::control
