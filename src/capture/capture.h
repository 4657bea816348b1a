// Capturing a program whole: it is called once with trace tensors in place of its arguments, and nothing runs. What it
// would have changed is taken back at the end; what it made and kept elsewhere raises a typed error when used.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/trace.h"
#include "runtime/program.h"

namespace saker::tracing {

// A size of an argument that may change between runs. Sizes of one name are equal; an empty name is one of its own.
struct DynamicSize {
  size_t argument;
  size_t dim;
  std::string name;
};

class Capture {
 public:
  // Puts the trace on for this thread. Throws CaptureError (or the host's error) for arguments that cannot be traced,
  // and leaves nothing behind then. Arguments of one storage see each other's writes; where the caller knows better
  // which of them do, `memories` has a number for each argument. A `context` that is given has the symbols that sizes
  // of the same names are.
  Capture(Host host, std::span<const at::Tensor> arguments, std::span<const DynamicSize> dynamic = {},
          std::span<const size_t> memories = {}, std::shared_ptr<ir::Context> context = nullptr);
  // Takes it off; what was recorded is forgotten unless finish() was called.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // What stands for the arguments.
  const std::vector<at::Tensor>& arguments() const { return wrapped_; }
  Trace& trace() { return *trace_; }
  // From here on the program finds the .grad that its arguments have. Otherwise they are without.
  void takeGradients(std::span<const at::Tensor> arguments);
  // The program is said to clear the .grad of this tensor, or of what stands for it, before it uses it.
  void expectCleared(const at::Tensor& tensor);
  // The float that an argument holds, as a symbol: the program reads it. `example`: what it is now.
  sym::Float numberIn(size_t argument, double example);
  // One more parameter of the graph, as an argument after those there are, and what stands for it.
  at::Tensor addArgument(const ir::TensorType* type);
  // Ends the capture. Outputs are tensors, numbers of ours, or constants.
  std::unique_ptr<runtime::Program> finish(std::span<const c10::IValue> outputs);
  const TraceStats& stats() const { return trace_->stats(); }

 private:
  void wrap(std::span<const at::Tensor> arguments, std::span<const DynamicSize> dynamic,
            std::span<const size_t> memories);
  void wrapAlone(size_t index, const at::Tensor& argument, std::span<const DynamicSize> dynamic);
  void wrapGroup(const std::vector<size_t>& group, std::span<const at::Tensor> arguments);
  void checkArgument(size_t index, const at::Tensor& argument, std::span<const DynamicSize> dynamic) const;
  const ir::TensorType* argumentType(size_t index, const at::Tensor& argument, std::span<const DynamicSize> dynamic);
  sym::Int dynamicSize(const DynamicSize& dynamic, int64_t example);
  void noteStorages(std::span<const at::Tensor> arguments);
  void addSource(const ir::Value* parameter, runtime::Source source);
  void noteUserWrites();
  void collectGradients(std::vector<ir::Arg>& returned);
  void noteInputs();
  void leave();

  std::shared_ptr<Trace> trace_;
  std::unique_ptr<TraceScope> scope_;
  std::unique_ptr<runtime::Program> program_;
  std::vector<at::Tensor> wrapped_;
  std::vector<std::optional<runtime::Source>> sources_;   // by parameter: those that are arguments
  std::vector<std::pair<size_t, at::Tensor>> gradients_;  // .grad of arguments: their parameters, what stands for them
};

// The functional form of a program; throws std::runtime_error with the reason where there is none.
std::unique_ptr<runtime::Program> makeFunctional(std::shared_ptr<const runtime::Program> recorded);

}  // namespace saker::tracing
