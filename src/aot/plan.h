// What is decided once about a compiled function, and shared by its calls and their backwards.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "aot/delivery.h"
#include "aot/joint.h"
#include "aot/replay.h"
#include "aot/zero_tangents.h"
#include "autograd/partition.h"
#include "runtime/prepared.h"

namespace saker::aot {

// Runs a graph: tensors for its parameters, tensors back. Where a parameter is a number the tensor is undefined and the
// next one of `numbers` stands for it.
using Executable =
    std::function<std::vector<at::Tensor>(std::vector<at::Tensor> inputs, std::span<const int64_t> numbers)>;
// A back end: makes something that runs of a graph.
using Maker = std::function<Executable(const ir::Graph& graph)>;

class Plan {
 public:
  explicit Plan(Joint given);
  // Stages of the pipeline, in this order. Both throw NotAheadOfTime.
  void cutInTwo(const autograd::PartitionOptions& options);  // in training
  void prepare();

  const Joint joint;
  autograd::Cut cut;  // in training
  bool symbolic = false;
  bool plain = false;     // see plain_call.h
  bool detaches = false;  // an operator asks its arguments whether they require grad
  size_t savedTensors = 0;
  std::vector<const sym::Node*> savedNumbers;
  // What primals are checked against: their types; where the function reads memory by absolute places, the offset too.
  std::vector<bool> exactOffset;
  std::vector<bool> isReached;    // by gradient: a tangent leads to it
  std::vector<bool> isUnreached;  // by tensor of the caller: it has a gradient, and no tangent leads to it
  Replay early, late;
  // The stages of the backward: those of the joint graph, or one with everything.
  std::vector<Joint::Stage> stages;
  bool staged() const { return !joint.stages.empty(); }
  // By stage: the nodes around it, where one does not do; those where leaves have hooks.
  std::vector<std::optional<Delivery>> together;
  std::vector<Delivery> inTurn;
  struct Place {
    size_t stage, tangent;  // among those of the stage
  };
  std::vector<Place> innerAt;  // by inner value: where its gradient arrives
  // What `late` does, where there are stages: to the caller's tensors, then by stage to its results.
  std::vector<Replay> lateOf;
  std::vector<std::vector<size_t>> savedOf;    // by stage: the saved tensors it reads
  std::vector<std::vector<size_t>> buffersOf;  // by stage, among the buffers of the joint graph
  bool autocastMatters = false;                // to the backward
  bool deterministic = false;                  // did the function ask for deterministic algorithms?
  bool foreign = false;                        // does a back end run it that is not ours?
  runtime::NativeCode native;
  bool cutByUser = false;    // a partitioner of the user's has made the halves, which are run as they are
  bool graphWrites = false;  // the graph itself writes to the caller's tensors

  const ir::Graph& forwardGraph() const { return joint.training ? *cut.forward : *joint.program->graph; }
  Executable forward;
  Callee function;  // the function itself, where a backward needs it
  // Does what the user's own backwards read hold, with which they were written down? Unset: there are none.
  std::function<bool()> backwardHolds;
  void setBackward(Executable whole, Maker maker);
  // Halves that somebody else has cut: the forward gives the results and then `saved` tensors, which the backward takes
  // before the tangents.
  void setHalves(size_t saved, Executable forwardHalf, Executable backwardHalf);
  // A backward for some of the tangents and gradients.
  struct Backward {
    std::shared_ptr<const ir::Graph> graph;  // if it is not the whole one
    Executable run;
    Executable runFreely;  // on tangents of other strides than told, as eager mode does; it may refuse them
    mutable std::atomic<bool> refused = false;  // it has
    // By parameter: is its data read? If not, is it needed for its layout?
    std::vector<bool> reads, imitates;
    // A tangent that is given leads to these gradients by autograd's graph, and only missing ones by its formulas:
    // whether they are zeros or nothing, a formula of autograd's decides that was not seen. It is asked once; each time
    // where the branch that is taken may decide it.
    std::vector<size_t> lost;
    bool differsByBranch = false;
    mutable std::atomic<bool> unsure = false;
  };
  // Of a stage; bits are for the tangents and gradients of that stage, and so are its results.
  const Backward& backward(size_t stage, const std::vector<bool>& given, const std::vector<bool>& wanted) const;
  // By primal: does it compute with what that holds, or with what the forward has computed of it?
  std::vector<bool> readPrimals(const Backward& part) const;

 private:
  void findStages();
  void findInner();
  Part stageGraph(size_t stage, const std::vector<bool>& given, const std::vector<bool>& wanted) const;
  Executable interpreted(const ir::Graph& graph, Executable* freely = nullptr) const;
  void noteReads(Backward& part, const ir::Graph& graph) const;
  std::vector<size_t> lostGradients(const ir::Graph& part, size_t stage, const std::vector<bool>& given,
                                    const std::vector<bool>& wanted) const;

  Maker maker_;
  mutable std::mutex lock_;
  // By stage: for everything that is given and wanted, once it is there.
  mutable std::vector<std::atomic<const Backward*>> whole_;
  using Key = std::tuple<size_t, std::vector<bool>, std::vector<bool>>;  // stage, what is given, what is wanted
  mutable std::map<Key, Backward> backwards_;
};

}  // namespace saker::aot
