// Forward and backward in one trace: the function is called on stand-ins, then its results are differentiated in the
// same recording. What outputs and arguments are to each other (views, writes) is read off that recording; nothing runs
// twice.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "capture/capture.h"
#include "runtime/interpreter.h"
#include "runtime/program.h"

namespace saker::aot {

// One view operator of a chain, with the arguments it was recorded with; its operand is the tensor before.
struct ViewStep {
  const ir::Node* node;
  size_t result;
  bool gradMode;
};

// What an output of the function is, seen from the outside.
struct Output {
  enum class Kind : uint8_t {
    Result,    // a result of the graph, or a view of one that may itself be no output
    Argument,  // an argument or a view of it
    Closed,    // a tensor that the function closes over, or a view of it
    None,
  };
  Kind kind = Kind::None;
  size_t index = 0;                         // of the result, the argument, or the parameter
  std::vector<ViewStep> steps;              // from there; none: it is that
  const ir::TensorType* strided = nullptr;  // where no chain of views leads there: its place in that memory
};

// What the function does to an argument.
struct Change {
  size_t argument = 0;
  uint32_t versions = 0;  // how far its version counter moves
  size_t result = 0;      // its new contents, among the results of the graph
  bool visible = false;   // autograd sees the write
};

struct Joint {
  // Functional: (arguments and closed-over tensors, then tangents) -> (results, then gradients)
  std::shared_ptr<runtime::Program> program;
  size_t primals = 0;  // parameters that are no tangents
  size_t results = 0;
  std::vector<bool> differentiable;  // by result: has a tangent
  std::vector<size_t> gradientOf;    // by gradient: the parameter it is for
  bool training = false;
  std::vector<Output> outputs;  // by output of the function
  std::vector<Change> changes;
  std::shared_ptr<const runtime::Program> recording;  // owns the nodes that view steps refer to
};

using Callee = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& standIns)>;

// Throws tracing::CaptureError, or the host's error, where the function cannot be captured ahead of time.
Joint captureJoint(const tracing::Host& host, std::span<const at::Tensor> arguments,
                   std::span<const tracing::DynamicSize> dynamic, const Callee& callee);

}  // namespace saker::aot
