// The loops of a kernel, and places as sums of their indices. A loop runs along one dimension of the space, or along a
// part of one: a view that sees 768 numbers as 12 by 64 asks that the loop over 768 be two loops.
#pragma once

#include <optional>
#include <vector>

#include "lower/space.h"

namespace saker::lower {

// A loop is to be two loops. Thrown while a kernel is built; it is built again then, with axes that are split.
struct Split {
  uint32_t axis;
  Int inner;
};

class Axes {
 public:
  explicit Axes(const Space& space);

  const Space& space() const { return space_; }
  size_t count() const { return extents_.size(); }
  Int extent(uint32_t axis) const { return extents_[axis]; }
  const std::vector<bool>& reduced() const { return reduced_; }
  bool hasReduced() const;
  bool isOrdered(uint32_t axis) const { return space_.ordered >> dim_[axis] & 1; }

  // Along each dimension of the space.
  ops::Places places() const;
  // As one number: of all elements, of rows, of what is reduced.
  ops::Place linear() const { return linear(std::nullopt); }
  ops::Place linearRow() const { return linear(false); }
  ops::Place linearReduced() const { return linear(true); }
  bool dependsOnReduced(const ops::Place& place) const;

  // Quotient and remainder as places, where both are. Throws Split where they would be once an axis is split.
  std::optional<std::pair<ops::Place, ops::Place>> divide(const ops::Place& place, Int by) const;
  void split(const Split& split);

 private:
  ops::Place linear(std::optional<bool> reduced) const;

  Space space_;
  std::vector<size_t> dim_;    // by axis: the dimension of the space that it runs along, outer parts first
  std::vector<Int> extents_;   // by axis
  std::vector<bool> reduced_;  // by axis
};

}  // namespace saker::lower
