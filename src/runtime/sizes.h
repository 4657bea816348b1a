// Sizes that change, in the runs of a graph: what the symbols are in a call, the layouts that follow, and whether the
// graph was made for them. Expressions are compiled once for a graph (symbolic/flat.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "runtime/geometry.h"
#include "symbolic/flat.h"

namespace saker::runtime {

inline constexpr uint32_t kNone = ~0u;

// A layout, of which some numbers may be known only in a run.
struct Told {
  Geometry numbers;
  std::vector<uint32_t> cells;  // of the sizes, the strides and the offset, kNone where it is a number. Empty: all are
};

// What is known of the sizes of a graph before it runs.
class SizePlan {
 public:
  explicit SizePlan(const ir::Graph& graph);

  sym::Flat flat;
  Told tell(const ir::TensorType& type);
  const std::vector<Told>& told() const { return told_; }  // by parameter
  bool any() const { return any_; }                        // does any size change?
  bool isBound(uint32_t cell) const;                       // a size of an input tells it

 private:
  friend class Sizes;
  // A size of an input that is a symbol.
  struct Bound {
    uint32_t input;
    uint32_t dimension;
    uint32_t cell;
  };

  // A float that an input holds, which guards may ask for before the program reads it.
  struct BoundFloat {
    uint32_t input;
    uint32_t cell;
  };
  void bindFloats();

  const ir::Graph& graph_;
  bool any_ = false;
  std::vector<Bound> bound_;
  std::vector<BoundFloat> floats_;
  std::vector<Told> told_;
  std::vector<uint32_t> symbols_;                                // by symbol: its cell
  std::vector<std::pair<uint32_t, const sym::Node*>> declared_;  // symbols with the ranges they were declared with
  std::vector<std::pair<uint32_t, const sym::Node*>> guards_;
};

// The sizes of one run.
class Sizes {
 public:
  explicit Sizes(const SizePlan& plan) : plan_(plan), cells_(plan.flat.cellCount()) {}

  // Gives symbols the sizes of these inputs, one for each parameter (undefined: none). Throws where two differ.
  void bind(std::span<const at::Tensor> inputs);
  void assume(const sym::Assignment& symbols);
  // After bind: the first range or guard that does not hold, as a sentence; empty: all hold.
  std::string unmet(bool guards = true);
  // The same for a program that is guarded, with the layouts of its inputs.
  bool fit(std::span<const at::Tensor> inputs);

  // Is an element of the tensor where the layout tells? Strides of sizes up to one do not matter.
  bool sameStrides(const Told& told, const at::Tensor& tensor);
  Geometry geometry(const Told& told);
  Geometry told(size_t parameter) { return geometry(plan_.told_[parameter]); }
  const sym::Cell& value(uint32_t cell) { return plan_.flat.value(cells_, cell); }
  int64_t integer(uint32_t cell);
  sym::Cell& cell(uint32_t cell) { return cells_[cell]; }

 private:
  bool same(const Told& told, const at::Tensor& tensor);
  void bindFloats(std::span<const at::Tensor> inputs);

  const SizePlan& plan_;
  std::vector<sym::Cell> cells_;
};

}  // namespace saker::runtime
