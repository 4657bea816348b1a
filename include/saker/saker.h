// Saker for C++ programs: compile a LibTorch function or module, forward and backward; capture what one does, as a
// graph that prints and runs; or record a block of code and run it later. docs/cpp.md describes all of it.
//
//   auto loss = saker::compile([&](const at::Tensor& x, const at::Tensor& y) { return mse_loss(net->forward(x), y); },
//                              {.state = saker::stateOf(net)});
//   loss(x, y).backward();  // the first call compiles, later ones run what was compiled
//
//   saker::Graph graph = saker::capture(step, {weights, batch});
//   std::cout << graph;
//
// In CMake: find_package(Saker REQUIRED) and target_link_libraries(program Saker::saker).
#pragma once

#include <ATen/core/Tensor.h>
#include <saker/callable.h>

#include <cstdint>
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
namespace api {
class CompiledCalls;
}

const char* version();

// The function cannot be captured: it looks at data, or does what cannot be recorded. The message says what and why.
struct CaptureError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A graph, or a compiled function that must not run eagerly, was given what it was not captured for. The message names
// the input, what was expected and what was found.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// --- compiling ---

// What a compiled function reads beside its inputs. C++ objects cannot be watched: what is named here is compared
// before each call, and where it differs from every call before, the function is compiled again.
struct State {
  Tensors tensors = {};               // compared by identity: is it still the same tensor object?
  std::vector<int64_t> numbers = {};  // compared by value: flags, counts, sizes
};

// Parameters and buffers of a module, and which of its modules are in training mode.
template <detail::PointsToModule Pointer>
std::function<State()> stateOf(const Pointer& module) {
  return [module] {
    State state{module->parameters()};
    for (const at::Tensor& buffer : module->buffers()) state.tensors.push_back(buffer);
    for (const auto& each : module->modules()) state.numbers.push_back(each->is_training());
    return state;
  };
}

struct CompileOptions {
  // Throw CaptureError where the function cannot be compiled, and RunError beyond the limit. Otherwise such calls call
  // the function as it is, and report() says why.
  bool fullgraph = false;
  enum class Sizes : uint8_t {
    Automatic,  // the first call's sizes are fixed; sizes that change become symbols where possible
    Fixed,      // one variant for each set of sizes
    Symbolic,   // every size but 0 and 1 is a symbol from the first call on
  };
  Sizes sizes = Sizes::Automatic;
  size_t limit = 16;                       // how many variants are kept
  double memoryBudget = 1;                 // from 0 (save little for the backward, compute more again) to 1
  std::vector<std::string> names = {};     // of inputs, for messages and report()
  std::function<State()> state = nullptr;  // stateOf(module), for a function that uses one
  // Where a call turned out to be one small operator, calls go on as they are, since no graph is faster: they are
  // counted as eager ones, and report() says so. True: they are compiled all the same. fullgraph means that too.
  bool compileSmall = false;
};

struct CompileStats {
  uint64_t calls = 0;
  uint64_t compiledCalls = 0;  // the others called the function as it is
  uint64_t eagerCalls = 0;
  uint64_t captures = 0;  // how often the function was called on stand-ins
  size_t variants = 0;
  double compileMilliseconds = 0;
};

// A function that is compiled ahead of time, with autograd. Cheap to copy: copies are the same function. Several
// threads may call it.
class Compiled {
 public:
  Compiled(Function function, CompileOptions options);

  // What the function does, on these inputs: results, gradients to inputs and to tensors that it closes over, writes
  // and aliases, random numbers, errors. A variant is compiled where dtype, device, layout, sizes, strides,
  // requires_grad, memory shared between inputs, grad mode, inference mode, autocast or the state of the options is
  // new.
  Tensors operator()(const Tensors& inputs) const;

  // Is the next call one that goes on as it is? Then it has been counted, and the caller calls the function.
  bool goesOn() const;

  CompileStats stats() const;
  // Each variant: its inputs, how large its graphs are, how often it ran; or why calls like it run eagerly.
  std::string report() const;
  // The forward graph of each compiled variant, and behind it its backward graph where it has one.
  std::string text() const;

 private:
  std::shared_ptr<api::CompiledCalls> calls_;
};

// A compiled function that is called as it was written: tensors in; a tensor, a list, a pair or a tuple out.
template <typename Callable>
class CompiledLike : public Compiled {
 public:
  CompiledLike(Callable callable, CompileOptions options)
      : CompiledLike(std::make_shared<Callable>(std::move(callable)), std::move(options)) {}

  template <typename... Inputs>
    requires(std::convertible_to<const Inputs&, const at::Tensor&> && ...)
  auto operator()(const Inputs&... inputs) const {
    using Result = std::decay_t<decltype(std::declval<Callable&>()(static_cast<const at::Tensor&>(inputs)...))>;
    if (goesOn()) return static_cast<Result>((*callable_)(static_cast<const at::Tensor&>(inputs)...));
    return detail::resultOf<Result>(Compiled::operator()(Tensors{static_cast<const at::Tensor&>(inputs)...}));
  }

 private:
  CompiledLike(std::shared_ptr<Callable> callable, CompileOptions options)
      : Compiled([callable](const Tensors& inputs) { return detail::callWith<0>(*callable, inputs); },
                 std::move(options)),
        callable_(std::move(callable)) {}
  std::shared_ptr<Callable> callable_;
};

// The function of a list of tensors, or of single ones. Nothing happens before the first call. What the function closes
// over is used as it is at each call; which tensors these are is looked up when it is captured (see State).
template <detail::TakesList Callable>
Compiled compile(Callable function, CompileOptions options = {}) {
  return Compiled(std::move(function), std::move(options));
}
template <detail::TakesTensors Callable>
CompiledLike<Callable> compile(Callable function, CompileOptions options = {}) {
  return CompiledLike<Callable>(std::move(function), std::move(options));
}
// A module's forward, with the state of the module: parameters that are replaced, train() and eval() are noticed.
template <detail::PointsToModule Pointer>
CompiledLike<detail::Forward<Pointer>> compile(const Pointer& module, CompileOptions options = {}) {
  if (!options.state) options.state = stateOf(module);
  return CompiledLike<detail::Forward<Pointer>>({module}, std::move(options));
}

// --- capturing ---

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
