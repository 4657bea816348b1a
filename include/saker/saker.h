// Saker for C++ programs: capture what a LibTorch function does, as a graph that prints, runs and differentiates; or
// record a block of code and run it later.
//
//   saker::Graph graph = saker::capture(step, {weights, batch});
//   std::cout << graph;
//   std::vector<at::Tensor> results = graph({weights, otherBatch});
//
// In CMake: find_package(Saker REQUIRED) and target_link_libraries(program Saker::saker).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace saker {

namespace runtime {
struct Program;
}
namespace tracing {
class DeferredBlock;
}  // namespace tracing

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors& inputs)>;

const char* version();

// The function cannot be captured: it looks at data, or does what cannot be recorded. The message says what and why.
struct CaptureError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A graph was given what it was not captured for.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A captured function. Cheap to copy: copies are the same graph.
class Graph {
 public:
  explicit Graph(std::shared_ptr<const runtime::Program> program) : program_(std::move(program)) {}

  // Runs it: results, and every write that the function does to its inputs and to tensors it closes over. If inputs
  // require grad and autograd is on, results have the history that the function would give them; where that passes a
  // torch::autograd::Function or a hook, the function itself is called.
  Tensors operator()(const Tensors& inputs) const;

  // The same program without writes: what was written is a value, copied into the inputs at the end.
  Graph functional() const;

  std::string text() const;
  size_t size() const;  // the number of operators
  // What must hold of dynamic sizes for the graph to be right.
  std::vector<std::string> guards() const;

 private:
  std::shared_ptr<const runtime::Program> program_;
};

std::ostream& operator<<(std::ostream& out, const Graph& graph);

// A size of an input that may be another one in later runs. Sizes of one name are equal; an empty name is one of its
// own.
struct Dynamic {
  size_t input;
  size_t dim;
  std::string name = {};
};

// Calls the function once with stand-ins for the inputs. Nothing is computed, and nothing that it would have changed is
// changed afterwards. Backward passes inside of it are part of the graph, and .grad is set when it runs.
//
// `cleared` are the tensors whose .grad the function clears before it uses it, as an optimizer's zero_grad() does: the
// graph then runs whatever .grad they have, and capturing puts their .grad back. Of other tensors that it does not get
// as inputs, a .grad that the function clears itself is lost, since C++ does that without an operator.
Graph capture(const Function& function, const Tensors& inputs, const std::vector<Dynamic>& dynamic = {},
              const Tensors& cleared = {});

// While one lives, what this thread asks of PyTorch is recorded; it runs when data is needed through an operator
// (item(), nonzero()), at flush() and at run(). Reading data_ptr() of a recorded tensor before that throws. One that is
// made while another one lives on the same thread shares what is recorded: there is one order of operators.
class Deferred {
 public:
  Deferred();
  // Runs what is pending. Errors end the program here: call run() to see them.
  ~Deferred();
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

  void flush();
  // Leaves the mode and runs what is pending.
  void run();

 private:
  std::unique_ptr<tracing::DeferredBlock> block_;
  bool ran_ = false;
};

}  // namespace saker
