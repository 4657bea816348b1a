#include "autograd/knapsack.h"

#include <algorithm>

namespace saker::autograd {
namespace {

constexpr uint64_t kMostSteps = 10000;
constexpr uint64_t kMostCells = 20'000'000;  // of the table: items times steps

}  // namespace

std::vector<bool> knapsack(std::span<const Item> items, uint64_t room) {
  std::vector<bool> taken(items.size());
  uint64_t all = 0;
  for (const Item& item : items) all += item.size;
  if (all <= room) return std::vector<bool>(items.size(), true);
  uint64_t most = std::clamp<uint64_t>(kMostCells / items.size(), 1, kMostSteps);
  uint64_t step = room / most + (room % most != 0);
  if (step == 0) step = 1;
  size_t steps = static_cast<size_t>(room / step);
  // best[s]: the largest worth that fits in s steps, with the items so far.
  std::vector<double> best(steps + 1, 0);
  std::vector<bool> takes(items.size() * (steps + 1));
  for (size_t i = 0; i < items.size(); ++i) {
    uint64_t size = items[i].size / step + (items[i].size % step != 0);
    for (size_t s = steps + 1; s-- > size;) {
      double with = best[s - size] + items[i].worth;
      if (with <= best[s]) continue;
      best[s] = with;
      takes[i * (steps + 1) + s] = true;
    }
  }
  size_t left = steps;
  for (size_t i = items.size(); i-- > 0;) {
    if (!takes[i * (steps + 1) + left]) continue;
    taken[i] = true;
    left -= static_cast<size_t>(items[i].size / step + (items[i].size % step != 0));
  }
  return taken;
}

}  // namespace saker::autograd
