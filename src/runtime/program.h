// A captured program: a graph, where its parameters come from, and what a run does besides giving results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/native_code.h"

namespace saker::runtime {

// Where a parameter of the graph comes from.
struct Source {
  enum class Kind : uint8_t {
    Argument,  // an argument of the call
    Flat,      // all of the memory of an argument, for arguments that share it
    Closed,    // a tensor that the program found elsewhere: a parameter of a module, a constant
    Gradient,  // the .grad of an argument, or of the tensor that is named
  };
  Kind kind = Kind::Closed;
  size_t argument = 0;
  at::Tensor tensor;  // of Closed and Gradient
  bool literal = false;
};

class Prepared;

struct Program {
  std::shared_ptr<ir::Context> context;
  std::unique_ptr<ir::Graph> graph;
  std::vector<Source> sources;       // one for each parameter
  std::vector<c10::IValue> objects;  // what opaque arguments refer to
  size_t arguments = 0;
  // How often each argument is written, which is how much its version counter grows.
  std::vector<uint32_t> argumentWrites;
  // The operators are the ones that ran, writes and all, so arguments may share memory in any way.
  bool asRecorded = false;
  bool userWrote = false;  // one of them is the user's, and writes
  // Per argument the earlier one that it is, or itself.
  std::vector<size_t> sameAs;
  std::vector<uint32_t> closedWrites;  // by parameter
  // Calls of operators of the user's that write (aten/on_copies.h): how far they move version counters is known when
  // they have run. By tensor that is written, the parameters that count with it.
  struct UserWrite {
    uint32_t counted;  // of it, in argumentWrites and closedWrites
    std::vector<std::vector<size_t>> parameters;
  };
  std::vector<UserWrite> userWrites;

  size_t results = 0;                    // arguments of `return` that the caller gets
  std::vector<bool> resultRequiresGrad;  // as in the run that was captured
  bool differentiable = false;           // some result does
  NativeCode native;                     // set before it is first run
  bool gradAround = true;                // was autograd on around the call? Modes of nodes are their attributes
  bool showsGradients = false;  // the caller sees a view or a write (runtime/shown.h), and autograd was on somewhere
  // Leaves whose .grad the program sets: `return` has the new gradients after the results, None where it is cleared.
  struct Gradient {
    enum class Before : uint8_t { None, Some, Any };
    size_t parameter;
    Before before;  // what there must be when the program runs
  };
  std::vector<Gradient> gradients;

  // Gradients of the results pass code of the user (Functions, hooks), which ran when the program was captured: where
  // autograd is to follow, it is the function that must be called.
  bool userGradients = false;
  std::function<std::vector<c10::IValue>(std::span<const at::Tensor> arguments)> function;
  // By argument, where some share memory through several storages: the first one that each shares memory with.
  std::vector<uint32_t> memories;

  // Of a functional program: the recording it was made from, which runs where autograd is to follow.
  std::shared_ptr<const Program> recorded;

  // The guards that must hold for the graph to be right, as text; those on sizes.
  std::vector<std::string> guards() const;

  // What runs it: the graph does not change from the first time on that this is asked for.
  const Prepared& prepared() const;

  Program();
  ~Program();

 private:
  mutable std::once_flag once_;
  mutable std::unique_ptr<Prepared> prepared_;
};

// Raised when a graph is given what it was not captured for.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Checks the arguments. True: only the function itself can do for them what it does in eager mode.
bool needsFunction(const Program& program, std::span<const at::Tensor> arguments);

// Runs the program: results, writes to arguments and to closed-over tensors, version counters, .grad. With autograd on
// and something that requires grad among the inputs, results carry autograd history as they did when captured.
// `guarded`: somebody has seen already that the arguments are such as the program was captured for.
std::vector<c10::IValue> run(const Program& program, std::span<const at::Tensor> arguments, bool guarded = false);

}  // namespace saker::runtime
