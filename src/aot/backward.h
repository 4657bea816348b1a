// The compiled backward as a node of autograd's graph.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <exception>
#include <map>
#include <mutex>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aot/plan.h"
#include "aot/version_checks.h"
#include "aten/torch_version/autograd_node.h"

namespace saker::aot {

// As PyTorch calls it, for programs that look.
inline constexpr const char* kBackwardName = "CompiledFunctionBackward";

// What a call keeps for its backward. All stages share it.
struct Saved {
  std::mutex lock;
  std::vector<torch::autograd::SavedVariable> tensors;  // by saved tensor; of a primal, an empty one
  std::vector<int64_t> numbers;
  std::vector<torch::autograd::SavedVariable> primals;  // by primal, as they were before the call
  sym::Assignment symbols;
  at::Tensor generator;
  Versions versions;
  std::vector<at::Tensor> written;  // by backwardWrites of the joint graph: the caller's tensors
  bool writesDifferentiable = false;
  std::vector<std::vector<int64_t>> sparseSizes;  // by sparse gradient
  std::vector<bool> freed;                        // by buffers of the joint graph; none: all are there
  std::vector<bool> rootFreed;                    // by tangent: of the node of its result alone; none: no
  std::vector<uint32_t> readers;                  // by saved tensor: stages that may still read it
  std::vector<bool> done;                         // by stage: it needs nothing any more
};

// The types of the nodes around it (exits.h).
const std::type_info& entryType();
const std::type_info& exitType();

class Backward final : public torch::autograd::Node {
 public:
  Backward(std::shared_ptr<const Plan> plan, size_t stage, std::shared_ptr<Saved> saved)
      : plan_(std::move(plan)), stage_(stage), saved_(std::move(saved)) {}
  ~Backward() override;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  void release_variables() override {}  // what a backward used is let go when it has been read
  std::string name() const override { return kBackwardName; }
  // Makes tensors its results, by tangent of the stage: those that eager mode computes by nodes of their own have one
  // of their own here too. `edges`, by gradient, tell which leaves have hooks.
  void give(const std::vector<at::Tensor>& results, const sym::Assignment& symbols,
            const torch::autograd::edge_list& edges);
  // Where gradients go; afterwards.
  void link(torch::autograd::edge_list edges);
  // All stages are linked: from now on only autograd's graph keeps the nodes.
  void linked() { made_.clear(); }
  // By tangent: where its gradient arrives; of a result it is what hooks on that belong to.
  std::vector<torch::autograd::Edge> resultEdges();

  // Where it has exits: gradients of an entry's results have arrived; the gradients of an exit.
  void arrive(size_t entry, torch::autograd::variable_list tangents);
  torch::autograd::variable_list leave(size_t exit);
  // The node of this result runs, and nothing it leads to: in eager mode it frees what it keeps.
  void ranAlone(size_t tangent);

 private:
  // One run of a backward through a stage that has exits.
  struct Pass {
    torch::autograd::variable_list tangents, gradients;
    std::vector<bool> arrived;      // by entry
    std::vector<bool> runs, given;  // by exit: will it run? has it its gradients?
    std::vector<bool> freedBefore;  // by buffers
    bool last = false;              // nothing is computed afterwards
    size_t left = 0;                // exits that have yet to run
  };

  void giveAround(const std::vector<at::Tensor>& results, const sym::Assignment& symbols);
  Pass& pass();
  void compute(Pass& pass);
  torch::autograd::variable_list gradientsOf(torch::autograd::variable_list tangents, const std::vector<bool>& given,
                                             std::vector<bool> wanted);
  torch::autograd::Edge edge(size_t gradient) const;
  void addInner(size_t tangent, const std::unordered_map<size_t, aten::NodePtr>& entries,
                const sym::Assignment& symbols);
  const Joint::Stage& stage() const { return plan_->stages[stage_]; }
  torch::autograd::variable_list compiled(torch::autograd::variable_list tangents, const std::vector<bool>& given,
                                          const std::vector<bool>& wanted);
  torch::autograd::variable_list followed(const torch::autograd::variable_list& tangents,
                                          const std::vector<bool>& given, const std::vector<bool>& wanted);
  std::vector<at::Tensor> primalsFor(const std::vector<bool>& given, const std::vector<bool>& wanted,
                                     std::exception_ptr& gone);
  at::Tensor inPlaceOfPrimal(size_t primal) const;
  void check(const std::vector<bool>& given, const std::vector<bool>& wanted) const;
  void ranAloneLocked(size_t tangent);
  bool isUsed(const Joint::Buffers& buffers, const std::vector<bool>& given, const std::vector<bool>& wanted) const;
  void letGo(const std::vector<bool>& given, const std::vector<bool>& wanted);
  void finish();
  std::optional<size_t> placeOf(size_t gradient) const;
  void leadTo(torch::autograd::edge_list ran);
  void write(const torch::autograd::variable_list& contents) const;
  void makeSparse(torch::autograd::variable_list& gradients) const;
  at::Tensor layoutOf(size_t parameter) const;
  const ir::TensorType& toldFor(size_t tangent) const;
  at::Tensor asTold(size_t tangent, at::Tensor given) const;
  torch::autograd::variable_list run(const Plan::Backward& part, std::vector<at::Tensor> inputs,
                                     const std::vector<bool>& given) const;

  std::shared_ptr<const Plan> plan_;
  const size_t stage_;
  std::shared_ptr<Saved> saved_;
  bool leads_ = false;                                           // see leadTo
  std::vector<std::pair<aten::WeakNodePtr, uint32_t>> entries_;  // by result; none: all arrive here
  const Delivery* delivery_ = nullptr;                           // none: it has no exits
  std::vector<aten::WeakNodePtr> around_;                        // entries, then exits
  std::vector<aten::NodePtr> made_;                              // the same, until all stages are linked
  std::map<int, Pass> passes_;                                   // by graph task
  Pass* pass_ = nullptr;                                         // that is computed
};

}  // namespace saker::aot
