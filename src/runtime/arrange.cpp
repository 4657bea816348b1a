#include "runtime/arrange.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace saker::runtime {

namespace {

constexpr size_t kLine = 64;

size_t whole(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

// The largest first, each at the lowest place that is free all the time: what comes later fits into the gaps.
size_t arrange(std::span<Block> blocks) {
  size_t steps = 0, total = 0;
  for (const Block& block : blocks) steps = std::max(steps, block.last + 1);
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<std::vector<const Block*>> placed(steps);  // by step
  std::vector<const Block*> met;
  for (size_t number : order) {
    Block& block = blocks[number];
    met.clear();
    for (size_t step = block.first; step <= block.last; ++step) {
      for (const Block* other : placed[step]) {
        if (other->first == step || step == block.first) met.push_back(other);  // each once
      }
    }
    std::sort(met.begin(), met.end(), [](const Block* a, const Block* b) { return a->offset < b->offset; });
    for (const Block* other : met) {
      if (block.offset + block.bytes <= other->offset) break;
      block.offset = std::max(block.offset, other->offset + whole(other->bytes));
    }
    for (size_t step = block.first; step <= block.last; ++step) placed[step].push_back(&block);
    total = std::max(total, block.offset + whole(block.bytes));
  }
  return total;
}

}  // namespace saker::runtime
