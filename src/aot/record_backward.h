// The backward of a recorded forward: autograd runs it on stand-ins, in the same recording, in stages where results
// depend on each other.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <vector>

#include "aot/aliases.h"
#include "aot/callers.h"
#include "aot/edge_values.h"
#include "aot/stages.h"
#include "aot/version_checks.h"

namespace saker::aot {

class RecordedBackward {
 public:
  // What is given lives as long as this does. `results` are those of the forward, as they are in `joint`.
  RecordedBackward(const tracing::Host& host, const JointOptions& options, Callers& callers,
                   const std::vector<at::Tensor>& results, Joint& joint)
      : host_(host),
        options_(options),
        callers_(callers),
        results_(results),
        joint_(joint),
        edgeValues_(callers.capture.trace()) {}

  // An operator of the forward is given this tensor.
  void noteForward(const at::Tensor& read) { edgeValues_.note(read); }

  // The edges of the results that are differentiable, in order.
  std::vector<torch::autograd::Edge> findRoots();
  // Runs the backward from these roots to the edges that are wanted, and notes tangents, gradients and stages in the
  // joint graph. Gives the edges at which gradients arrive. Of the results the caller gets the first `visibleResults`.
  std::vector<torch::autograd::Edge> record(const std::vector<torch::autograd::Edge>& roots,
                                            const std::vector<torch::autograd::Edge>& wanted,
                                            const std::vector<at::Tensor>& outputs, const Aliases& aliases,
                                            size_t visibleResults);
  // Where the tangent arrives that is one of this result, or inner value.
  torch::autograd::Edge edgeOfTangent(size_t of) const;
  torch::autograd::variable_list gradients;
  const std::vector<const ir::Value*>& tangents() const { return tangents_; }
  const SavedReads& reads() const { return *reads_; }
  // The tensors that cut points are, once they have numbers.
  void numberCuts();

 private:
  using Edges = std::vector<torch::autograd::Edge>;

  tracing::Trace& trace() { return callers_.capture.trace(); }
  BackwardStages findStages(const std::vector<at::Tensor>& outputs, const Aliases& aliases, const Edges& roots,
                            const Edges& wanted);
  // From here on it is the backward that reads.
  void observeReads(size_t visibleResults);
  Edges run(const Edges& roots, const Edges& wanted, const BackwardStages& found);
  void noteInner(const Edges& edges);
  // The tangents of these results and inner values, as further arguments.
  torch::autograd::variable_list makeTangents(const std::vector<size_t>& roots, const std::vector<size_t>& inner = {});
  // What arrives from another stage has these strides, and not those of the result.
  void expectTangent(const BackwardStage::Gradient& gradient, const at::Tensor& arriving);
  torch::autograd::variable_list execute(const Edges& roots, const torch::autograd::variable_list& given,
                                         const Edges& wanted);

  const tracing::Host& host_;
  const JointOptions& options_;
  Callers& callers_;
  const std::vector<at::Tensor>& results_;
  Joint& joint_;
  EdgeValues edgeValues_;  // of the forward
  std::vector<const ir::Value*> tangents_;
  std::vector<size_t> resultOf_;             // by root of the backward
  std::vector<const ir::TensorType*> told_;  // by root: what its tangent is expected to be
  std::vector<size_t> cutOutputs_;           // by cut point behind the roots: the output
  Edges innerEdges_;                         // by inner value
  std::vector<const ir::TensorType*> innerTold_;
  std::optional<SavedReads> reads_;
};

}  // namespace saker::aot
