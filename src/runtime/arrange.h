// Gives blocks of memory that are needed at different times their places in one arena: blocks whose times meet lie
// apart, others may lie in the same place.
#pragma once

#include <cstddef>
#include <span>

namespace saker::runtime {

struct Block {
  size_t bytes;
  size_t first, last;  // the steps at which it is needed, both included
  size_t offset = 0;
};

// How many bytes they need together. Offsets are multiples of a cache line.
size_t arrange(std::span<Block> blocks);

}  // namespace saker::runtime
