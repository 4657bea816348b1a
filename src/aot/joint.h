// Forward and backward in one trace: the function is called on stand-ins, then its results are differentiated in the
// same recording. What outputs and arguments are to each other (views, writes) is read off that recording; nothing runs
// twice.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "capture/reasons.h"
#include "runtime/program.h"

namespace saker::aot {

// The function cannot be compiled so that every call is as in eager mode: it is to be called as it is.
struct NotAheadOfTime : std::runtime_error {
  template <typename... Operands>
  explicit NotAheadOfTime(Why reason, Operands&&... operands)
      : NotAheadOfTime(Stop(reason, std::forward<Operands>(operands)...)) {}
  explicit NotAheadOfTime(Stop reason) : std::runtime_error(reason.text()), why(std::move(reason)) {}
  Stop why;
};

// The same, but to be told: what it does to an argument is captured, and no compiled function can do it.
struct Refused : NotAheadOfTime {
  using NotAheadOfTime::NotAheadOfTime;
};

// The function raised an error on stand-ins. Where it had written before, eager mode would have written too.
struct CallFailed : std::runtime_error {
  CallFailed(std::exception_ptr error, bool hadWritten)
      : std::runtime_error("the function raised an error"), cause(std::move(error)), written(hadWritten) {}
  std::exception_ptr cause;
  bool written;
};

// Something done to a tensor that the caller sees, or to make one, after the graph has run. Tensors are numbered: those
// the caller has, the results of the graph, then what steps make.
struct Step {
  enum class Kind : uint8_t {
    View,      // the operator of `node` on tensor `source` gives tensors from `target` on
    Geometry,  // the operator of `node` gives tensor `source` other sizes or strides
    Data,      // `target` is `source` without history and with a version counter of its own, as x.data is
    Memory,    // `target`, which the caller has, comes to see the memory of `source`, as by set_
    Leaf,      // `source` is a leaf that requires grad
  };
  Kind kind;
  const ir::Node* node = nullptr;
  size_t source = 0;
  size_t target = 0;
  bool gradMode = true;
  bool ownNode = false;  // of View: the views get a node of the compiled function (view_node.h)
};

// New contents of a tensor of the caller's.
struct Write {
  size_t caller = 0;
  size_t result = 0;     // the contents, among the results of the graph
  bool visible = false;  // autograd sees it: they have the sizes that the tensor has in the end
  bool flat = false;     // of all of its memory
};

// A result of the graph.
struct Result {
  bool differentiable = false;  // has a tangent
  bool isInput = false;         // the graph gives memory of an input: it is copied
  uint32_t versions = 0;        // where its version counter stands
};

// A tensor that eager mode's backward would have saved, and that the caller can write to after the call.
struct VersionCheck {
  struct Counter {
    bool isResult;  // of a result of the graph; else of a tensor of the caller's
    size_t number;
    auto operator<=>(const Counter&) const = default;
  };
  Counter counter;             // that writes to it move
  const ir::TensorType* type;  // of what was saved
  std::string maker;           // the node that it comes from, as errors call it; empty for a leaf
  uint32_t output = 0;         // which result of that
  bool isArgument = false;     // it is the tensor of the caller's itself
  // It is read where one of these tangents is given and one of these gradients wanted.
  std::vector<bool> tangents, gradients;
};

struct Joint {
  // Functional: (primals, then tangents) -> (results, then gradients)
  std::shared_ptr<runtime::Program> program;
  size_t primals = 0;
  std::vector<Result> results;
  bool training = false;

  // Tensors of the caller: arguments, bases that arguments are views of (by an argument that is one), tensors that the
  // function closes over.
  size_t arguments = 0;
  std::vector<size_t> bases;
  std::vector<at::Tensor> closed;
  size_t callers() const { return arguments + bases.size() + closed.size(); }
  struct Primal {
    size_t caller = 0;
    bool flat = false;  // all of its memory, as a row
  };
  std::vector<Primal> sources;  // by primal
  // Arguments that share memory, and where they lie in it.
  struct Member {
    size_t argument;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
  };
  std::vector<Member> members;

  std::vector<size_t> tangentOf;   // by tangent: the result, or inner value, that it belongs to
  std::vector<size_t> gradientOf;  // by gradient: the tensor it is for, one of the caller's or a cut; inner values
  std::vector<std::vector<bool>> reaches;  // by tangent, by gradient: does one lead to the other?
  std::vector<size_t> nodeOf;              // by tangent: the first one whose result eager mode's same node gives
  // When eager mode made the nodes: that of a result, by tangent; by gradient the last one to run that adds to it, and
  // among how many gradients of that node it stands. A backward takes the node that was made last.
  std::vector<uint64_t> rootAt;
  struct Given {
    uint64_t node = 0;
    uint64_t inner = 0;  // in the body of a call: its own node there
    size_t place = 0;
    auto when() const { return std::pair(node, inner); }
  };
  std::vector<Given> givenAt;
  // Where results depend on each other, the backward is cut at them into stages, each of which has a node (stages.h).
  // Each stands before those it gives gradients to. None: there is one node for everything.
  struct Stage {
    std::vector<size_t> tangents, gradients;
  };
  std::vector<Stage> stages;
  // Intermediate values whose gradients pass from stage to stage, and that the caller does not get: from kInner on,
  // among what tangents and gradients are for.
  struct Inner {
    const ir::Value* value;  // in the recording
    const ir::TensorType* type;
  };
  std::vector<Inner> inner;
  static constexpr size_t kInner = size_t{1} << 40;
  static bool isInner(size_t number) { return number >= kInner; }
  bool isCut(size_t gradient) const { return gradientOf[gradient] >= callers(); }
  // What eager mode's nodes keep for their backward: together they are used, and freed, where one of these tangents is
  // given and one of these gradients wanted.
  struct Buffers {
    std::vector<bool> tangents, gradients;
    auto operator<=>(const Buffers&) const = default;
  };
  std::vector<Buffers> buffers;
  std::vector<std::optional<size_t>> rootBuffers;  // by tangent: those that the node of its result keeps, among these
  // Gradients that are sparse are given as two, of which the second ones come last.
  struct Sparse {
    size_t values, indices;  // among gradients
    bool coalesced;
  };
  std::vector<Sparse> sparse;
  bool isIndices(size_t gradient) const { return gradient >= gradientOf.size() - sparse.size(); }
  // Tensors of the caller's that the backward writes; it gives their new contents behind the gradients.
  struct BackwardWrite {
    size_t caller;
    uint32_t versions;  // how far the version counter moves
  };
  std::vector<BackwardWrite> backwardWrites;

  // Calls of operators of the user's that write (aten/on_copies.h): how far they move version counters is known when
  // they have run. By tensor that is written, the tensors that the caller sees and that count with it.
  struct UserWrite {
    uint32_t counted;  // of it, in versions
    std::vector<std::vector<VersionCheck::Counter>> counters;
  };
  std::vector<UserWrite> userWrites;

  std::vector<VersionCheck> checks;  // in a backward, in the order in which eager mode makes them
  // In training, by tensor of the caller and by result that the caller gets: the first one that counts writes with it.
  std::vector<VersionCheck::Counter> callerCounters, resultCounters;

  // After a run, in this order: writes that autograd does not see, `early` steps, writes it sees, version counters,
  // `late` steps.
  std::vector<Write> writes;
  std::vector<Step> early, late;
  // Memory of the caller's that the function gives another length, before `late` steps.
  struct Resize {
    size_t caller;
    int64_t bytes;
  };
  std::vector<Resize> resizes;
  std::vector<uint32_t> versions;              // by caller: how far its version counter moves
  std::vector<std::optional<size_t>> outputs;  // by output of the function: a tensor, or None
  std::vector<ir::Arg> numbers;                // results that are numbers: of sizes
  std::vector<bool> historyOf;                 // by caller: autograd follows what is done to it
  size_t tensors = 0;

  // There are subclasses around. What they do where autograd is to follow only they know: then the function itself is
  // called again, and these are what is differentiated.
  struct Root {
    enum class Kind : uint8_t { Output, BaseOfOutput, Argument } kind;
    size_t number;
  };
  std::vector<Root> roots;  // by tangent

  // The program as it was recorded; its parameters are primals, in another order, and tangents.
  std::shared_ptr<const runtime::Program> recording;
  std::vector<size_t> recordedPlace;  // by primal
  uint32_t forwardNodes = 0;          // nodes of smaller number are the forward's
  bool random = false;                // some draw random numbers
};

// What a function gives: tensors, and numbers that change with sizes.
struct Returned {
  std::vector<at::Tensor> tensors;
  std::vector<c10::IValue> numbers = {};
};
using Callee = std::function<Returned(const std::vector<at::Tensor>& standIns)>;
// Runs something so that PyTorch's formulas ask no tensor for its data, where they have another way.
using Leniently = std::function<void(const std::function<void()>& run)>;

struct JointOptions {
  std::vector<tracing::DynamicSize> dynamic = {};
  std::vector<std::string> names = {};             // by argument, for the text of graphs; empty: it has a number
  std::shared_ptr<ir::Context> context = nullptr;  // that has symbols of these names already
  Leniently leniently = nullptr;
  bool inStages = true;  // the backward may be cut into stages
  runtime::NativeCode native = {};
  bool writesNone = false;  // the function writes to no argument: none sees what is written through another
};

class JointCapture;

// Two stages of the pipeline (aot/pipeline.h). Both throw NotAheadOfTime where what the function does to the caller's
// tensors has no such form.
class Differentiation {
 public:
  // What is given lives as long as this does.
  Differentiation(const tracing::Host& host, std::span<const at::Tensor> arguments, const JointOptions& options);
  ~Differentiation();
  Differentiation(const Differentiation&) = delete;
  Differentiation& operator=(const Differentiation&) = delete;

  // Calls the function and differentiates it: the recording of both. Throws CallFailed where it cannot be captured or
  // raises.
  const ir::Graph& run(const Callee& callee);
  // The joint graph, in which nothing is written.
  const ir::Graph& makeFunctional();
  Joint take();

 private:
  std::unique_ptr<JointCapture> capture_;
};

}  // namespace saker::aot
