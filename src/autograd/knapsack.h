// Which things to take so that they fit and are worth the most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saker::autograd {

struct Item {
  uint64_t size;
  double worth;
};

// By item: is it taken? Sizes are rounded up to steps of the room, so that a large problem stays quick; what is taken
// always fits.
std::vector<bool> knapsack(std::span<const Item> items, uint64_t room);

}  // namespace saker::autograd
