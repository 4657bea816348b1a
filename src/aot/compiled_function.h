// A function compiled ahead of time: its forward and backward graphs run inside of PyTorch's autograd, so that results,
// gradients, writes and aliases are those of eager mode.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "aot/plan.h"

namespace saker::aot {

// A write to an argument that the forward graph could do itself.
struct GraphWrite {
  size_t primal;
  size_t result;  // the new contents
  bool needed;    // the result is also something else
};

class CompiledFunction {
 public:
  // Made by the pipeline (aot/pipeline.h). Our own executor runs the graphs until a back end is set.
  explicit CompiledFunction(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}

  // Nothing: this call must be made in eager mode, and nothing was done yet. Throws runtime::RunError for arguments
  // that the function was not compiled for; that autograd is in the state of the first call is for the caller to know.
  // `numbers`, if given, gets the results that are such.
  std::optional<std::vector<at::Tensor>> operator()(std::vector<at::Tensor> arguments,
                                                    std::vector<c10::IValue>* numbers = nullptr) const;

  // May a call be one for eager mode?
  bool mayNeedEager() const;

  // By argument: does it have to begin where it began in its memory?
  std::vector<bool> exactOffsets() const;

  size_t results() const { return plan_->joint.results.size(); }
  bool training() const { return plan_->joint.training; }
  const Joint& joint() const { return plan_->joint; }
  const ir::Graph& forwardGraph() const { return plan_->forwardGraph(); }
  const ir::Graph& backwardGraph() const { return *plan_->cut.backward; }
  // What the forward keeps for the backward, by example sizes.
  struct Saved {
    size_t tensors = 0;  // that the forward computes
    uint64_t bytes = 0;  // of their memory
    size_t inputs = 0;   // tensors that the caller has anyway
  };
  Saved saved() const;
  const std::vector<c10::IValue>& objects() const { return plan_->joint.program->objects; }
  // Does a backward need the function itself? It is called on tensors that autograd follows.
  bool needsFunction() const { return !plan_->joint.roots.empty(); }
  void setFunction(Callee function);
  void setBackwardHolds(std::function<bool()> holds);  // see Plan
  const ir::Graph& jointGraph() const { return *plan_->joint.program->graph; }
  // See Plan.
  void setHalves(size_t saved, Executable forward, Executable backward);
  // By write: how the graph can do it, where nothing is differentiated; nothing where only the caller can.
  std::vector<std::optional<GraphWrite>> writesForGraph() const;
  // From now on the forward that is set does all of them.
  void leaveWritesToGraph();
  void setExecutables(Executable forward, Executable backward, Maker backwardMaker = nullptr);

 private:
  std::shared_ptr<Plan> plan_;
};

}  // namespace saker::aot
