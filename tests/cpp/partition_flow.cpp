// The parts of the minimum cut that know nothing of graphs, against trying everything.
#include <gtest/gtest.h>

#include "autograd/knapsack.h"
#include "autograd/max_flow.h"
#include "random_graph.h"

namespace saker::autograd {
namespace {

using ir::testing::fuzzFactor;
using ir::testing::Random;

struct Edge {
  uint32_t from, to;
  int64_t capacity;
};

int64_t cutOf(const std::vector<Edge>& edges, const auto& onSinkSide) {
  int64_t sum = 0;
  for (const Edge& edge : edges) {
    if (!onSinkSide(edge.from) && onSinkSide(edge.to)) sum += edge.capacity;
  }
  return sum;
}

TEST(MaxFlow, EqualsTheSmallestOfAllCuts) {
  Random random(1);
  for (size_t round = 0; round < 2000 * fuzzFactor(); ++round) {
    uint32_t vertices = 2 + static_cast<uint32_t>(random.below(8));
    MaxFlow flow(vertices);
    std::vector<Edge> edges;
    for (size_t i = random.below(24); i > 0; --i) {
      Edge edge{static_cast<uint32_t>(random.below(vertices)), static_cast<uint32_t>(random.below(vertices)),
                static_cast<int64_t>(random.below(9))};
      edges.push_back(edge);
      flow.addEdge(edge.from, edge.to, edge.capacity);
    }
    int64_t smallest = INT64_MAX;
    uint32_t nearest = 0;  // to the sink: the fewest vertices on its side
    for (uint32_t side = 0; side < 1u << vertices; ++side) {
      if (side & 1 || !(side & 2)) continue;
      int64_t sum = cutOf(edges, [&](uint32_t v) { return side >> v & 1; });
      if (sum < smallest || (sum == smallest && std::popcount(side) < std::popcount(nearest))) nearest = side;
      smallest = std::min(smallest, sum);
    }
    ASSERT_EQ(flow.run(0, 1), smallest);
    for (uint32_t v = 0; v < vertices; ++v)
      ASSERT_EQ(flow.onSinkSide()[v], bool(nearest >> v & 1)) << "round " << round;
  }
}

TEST(MaxFlow, SaysWhenNothingCanBeCut) {
  MaxFlow flow(3);
  flow.addEdge(0, 2, MaxFlow::kUnlimited);
  flow.addEdge(2, 1, MaxFlow::kUnlimited);
  EXPECT_GE(flow.run(0, 1), MaxFlow::kUnlimited);
}

TEST(MaxFlow, LongChains) {
  constexpr uint32_t kLength = 100000;
  MaxFlow flow(kLength + 2);
  flow.addEdge(0, 2, MaxFlow::kUnlimited);
  for (uint32_t v = 2; v <= kLength; ++v) flow.addEdge(v, v + 1, v == 500 ? 3 : 7);
  flow.addEdge(kLength + 1, 1, MaxFlow::kUnlimited);
  EXPECT_EQ(flow.run(0, 1), 3);
  EXPECT_FALSE(flow.onSinkSide()[500]);
  EXPECT_TRUE(flow.onSinkSide()[501]);
}

TEST(Knapsack, IsTheBestOfAllChoices) {
  Random random(2);
  for (size_t round = 0; round < 500 * fuzzFactor(); ++round) {
    std::vector<Item> items(1 + random.below(10));
    for (Item& item : items) item = {random.below(30), static_cast<double>(random.below(50))};
    uint64_t room = random.below(120);
    double best = 0;
    for (uint32_t choice = 0; choice < 1u << items.size(); ++choice) {
      uint64_t size = 0;
      double worth = 0;
      for (size_t i = 0; i < items.size(); ++i) {
        if (choice >> i & 1) size += items[i].size, worth += items[i].worth;
      }
      if (size <= room) best = std::max(best, worth);
    }
    std::vector<bool> taken = knapsack(items, room);
    uint64_t size = 0;
    double worth = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      if (taken[i]) size += items[i].size, worth += items[i].worth;
    }
    ASSERT_LE(size, room);
    ASSERT_EQ(worth, best);
  }
}

TEST(Knapsack, FitsWhereSizesAreRounded) {
  Random random(3);
  std::vector<Item> items(5000);
  for (Item& item : items) item = {random.next() >> 24, static_cast<double>(random.below(50))};
  uint64_t room = uint64_t{1} << 50;
  std::vector<bool> taken = knapsack(items, room);
  uint64_t size = 0;
  for (size_t i = 0; i < items.size(); ++i) size += taken[i] ? items[i].size : 0;
  EXPECT_LE(size, room);
  EXPECT_GT(size, room / 2);
}

}  // namespace
}  // namespace saker::autograd
