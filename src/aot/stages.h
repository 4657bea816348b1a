// Cuts a backward where results depend on each other: eager mode has nodes of its own on both sides of such a result,
// and the caller can see them (gradients with respect to it, hooks on it, which buffers a backward frees).
#pragma once

#include <torch/csrc/autograd/function.h>

#include <optional>
#include <span>
#include <vector>

namespace saker::aot {

// A tensor that the caller gets, with the edge that others reach it by.
struct CutPoint {
  torch::autograd::Edge edge;
  std::optional<size_t> root;  // the result it is, or is a view of; nothing: it is a view of what the caller has
};

// A part of the backward between results, and from them to what is wanted.
struct BackwardStage {
  std::vector<size_t> roots;
  struct Gradient {
    torch::autograd::Edge edge;  // where it arrives
    bool isCut;
    size_t number;  // of the cut point, or of what is wanted
  };
  std::vector<Gradient> gradients;  // in the order in which eager mode adds them up
};

// The stages, each before those that it gives gradients to. None: no result depends on another one, and no gradient is
// a sum that must be given summand by summand. Otherwise edges end at cut points afterwards. Throws NotAheadOfTime
// where no stages do what eager mode does, or where results depend on each other and the program is not `plain`.
std::vector<BackwardStage> cutAtResults(std::span<const torch::autograd::Edge> roots, std::span<const CutPoint> cuts,
                                        std::span<const torch::autograd::Edge> wanted, bool plain);

}  // namespace saker::aot
