// Cuts a backward where results depend on each other: eager mode has nodes of its own on both sides of such a result,
// and the caller can see them (gradients with respect to it, hooks on it, which buffers a backward frees).
#pragma once

#include <torch/csrc/autograd/function.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace saker::aot {

// A tensor that the caller gets, with the edge that others reach it by.
struct CutPoint {
  torch::autograd::Edge edge;
  std::optional<size_t> root;  // the result it is, or is a view of; nothing: it is a view of what the caller has
};

// A part of the backward: what eager mode runs between two points in time.
struct BackwardStage {
  std::vector<size_t> roots;  // results whose gradients it is given
  std::vector<size_t> inner;  // inner values whose gradients it is given
  struct Gradient {
    enum class For : uint8_t { Wanted, Cut, Inner } what;
    torch::autograd::Edge edge;  // where it arrives
    size_t number;               // of what is wanted, of the cut point, of the inner value
  };
  std::vector<Gradient> gradients;  // in the order in which eager mode adds them up
};

struct BackwardStages {
  std::vector<BackwardStage> stages;  // each before those that it gives gradients to
  // Intermediate values whose gradients pass from one stage to another: edges that lead to them.
  std::vector<torch::autograd::Edge> inner;
};

struct StageRules {
  bool plain = true;     // results may depend on each other
  bool summands = true;  // gradients that are sums are given summand by summand, if these are few
  // May the gradient of such an intermediate value pass from one stage to another?
  std::function<bool(const torch::autograd::Edge&)> mayPass;
};

// No stages: no result depends on another one, and no gradient is a sum that must be given summand by summand.
// Otherwise edges end at cut points and inner values afterwards. Throws NotAheadOfTime where no stages do what eager
// mode does, or the rules do not allow them.
BackwardStages cutAtResults(std::span<const torch::autograd::Edge> roots, std::span<const CutPoint> cuts,
                            std::span<const torch::autograd::Edge> wanted, const StageRules& rules);

}  // namespace saker::aot
