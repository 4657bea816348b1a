// Expressions compiled to a list of steps give what evaluating them gives.
#include "symbolic/flat.h"

#include <gtest/gtest.h>

#include "symbolic/context.h"
#include "symbolic_random.h"

namespace saker::sym {
namespace {

using testing::assignment;
using testing::build;
using testing::Draw;
using testing::iterations;
using testing::Tree;
using testing::Values;

const Node* tryBuild(Context& c, const Tree& tree) {
  try {
    return build(c, tree, false);
  } catch (const Overflow&) {
  } catch (const Undecided&) {
  }
  return nullptr;
}

TEST(Flat, RandomExpressionsGiveWhatEvaluatingGives) {
  Draw draw(7);
  int compared = 0;
  for (int round = 0; round < iterations(1500); ++round) {
    Context c;
    draw.symbols(c, 3, 1);
    Flat flat;
    std::vector<std::pair<const Node*, uint32_t>> expressions;  // several in one list, so that they share parts
    for (int i = 0; i < 4; ++i) {
      int depth = static_cast<int>(draw.between(1, 5));
      const Node* node = tryBuild(c, draw.chance(60) ? draw.integer(depth) : draw.condition(depth));
      if (node) expressions.emplace_back(node, flat.add(node));
    }
    std::vector<uint32_t> symbols;
    for (const Symbol& symbol : c.symbols()) symbols.push_back(flat.add(symbol.node));
    for (int i = 0; i < 6; ++i) {
      Values values = draw.values(c, i < 4 ? 12 : 1000);
      Assignment a = assignment(values);
      if (draw.chance(20)) a.ints[0].reset();  // not every symbol has a value
      std::vector<Cell> cells(flat.cellCount());
      for (size_t s = 0; s < symbols.size(); ++s) {
        if (a.ints[s]) cells[symbols[s]].set(*a.ints[s]);
      }
      for (const auto& [node, cell] : expressions) {
        const Cell& found = flat.value(cells, cell);
        if (node->isBool()) {
          ASSERT_EQ(found.boolean(), evaluateBool(node, a)) << toString(node);
        } else {
          ASSERT_EQ(found.integer(), evaluateInt(node, a)) << toString(node);
        }
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, iterations(1500));
}

TEST(Flat, EqualPartsAreOneCell) {
  Context c;
  Int s0 = c.symbol("s0", Range::size()), s1 = c.symbol("s1", Range::size());
  Flat flat;
  flat.add((s0 * s1 + 1).node());
  size_t cells = flat.cellCount();
  flat.add((s0 * s1 + 1).node());
  EXPECT_EQ(flat.cellCount(), cells);
  EXPECT_TRUE(flat.find((s0 * s1).node()).has_value());
}

TEST(Flat, WhatDependsOnASymbolIsKnown) {
  Context c;
  Int s0 = c.symbol("s0", Range::size()), s1 = c.symbol("s1", Range::size());
  Flat flat;
  uint32_t product = flat.add((s0 * s1).node()), other = flat.add((s1 + 5).node());
  std::vector<uint32_t> dependents = flat.dependents({*flat.find(s0.node())});
  auto has = [&](uint32_t cell) { return std::find(dependents.begin(), dependents.end(), cell) != dependents.end(); };
  EXPECT_TRUE(has(product));
  EXPECT_FALSE(has(other));
}

}  // namespace
}  // namespace saker::sym
