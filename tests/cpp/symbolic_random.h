// Random expressions for property tests. A tree is kept as it was drawn and evaluated directly, without the library.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "symbolic/context.h"

namespace saker::sym::testing {

inline int iterations(int standard) {
  const char* scale = std::getenv("SAKER_FUZZ_ITERATIONS");
  return scale ? static_cast<int>(standard * std::atof(scale)) : standard;
}

struct Tree {
  enum Op {
    Number,
    Symbol,
    Add,
    Sub,
    Mul,
    Neg,
    FloorDiv,
    Mod,
    Min,
    Max,  // integers
    Eq,
    Ne,
    Le,
    Lt,
    And,
    Or,
    Not,
    BoolSymbol,
    BoolNumber,  // booleans
  };
  Op op;
  int64_t value = 0;
  std::vector<Tree> kids;
};

using Big = __int128;

struct Values {
  std::vector<int64_t> numbers;  // by symbol index; booleans too
};

inline std::optional<Big> evaluate(const Tree& tree, const Values& values) {
  std::vector<Big> k;
  for (const Tree& kid : tree.kids) {
    std::optional<Big> value = evaluate(kid, values);
    if (!value) return std::nullopt;
    k.push_back(*value);
  }
  auto big = [](Big v) { return v > (Big{1} << 60) || v < -(Big{1} << 60) ? std::optional<Big>() : v; };
  switch (tree.op) {
    case Tree::Number:
    case Tree::BoolNumber:
      return tree.value;
    case Tree::Symbol:
    case Tree::BoolSymbol:
      return values.numbers[static_cast<size_t>(tree.value)];
    case Tree::Add:
      return big(k[0] + k[1]);
    case Tree::Sub:
      return big(k[0] - k[1]);
    case Tree::Mul:
      return big(k[0] * k[1]);
    case Tree::Neg:
      return -k[0];
    case Tree::FloorDiv:
    case Tree::Mod: {
      if (k[1] == 0) return std::nullopt;
      // By counting down to the remainder with the divisor's sign.
      Big quotient = k[0] / k[1];
      while (quotient * k[1] > k[0] && k[1] > 0) --quotient;
      while (quotient * k[1] < k[0] && k[1] < 0) --quotient;
      return tree.op == Tree::Mod ? k[0] - quotient * k[1] : quotient;
    }
    case Tree::Min:
      return k[0] < k[1] ? k[0] : k[1];
    case Tree::Max:
      return k[0] > k[1] ? k[0] : k[1];
    case Tree::Eq:
      return k[0] == k[1];
    case Tree::Ne:
      return k[0] != k[1];
    case Tree::Le:
      return k[0] <= k[1];
    case Tree::Lt:
      return k[0] < k[1];
    case Tree::And:
      return k[0] && k[1];
    case Tree::Or:
      return k[0] || k[1];
    case Tree::Not:
      return !k[0];
  }
  return std::nullopt;
}

inline bool commutes(Tree::Op op) {
  return op == Tree::Add || op == Tree::Mul || op == Tree::Min || op == Tree::Max || op == Tree::Eq || op == Tree::Ne ||
         op == Tree::And || op == Tree::Or;
}

inline const Node* build(Context& c, const Tree& tree, bool swapped = false) {
  std::vector<const Node*> k;
  for (const Tree& kid : tree.kids) k.push_back(build(c, kid, swapped));
  if (swapped && commutes(tree.op)) std::swap(k[0], k[1]);
  switch (tree.op) {
    case Tree::Number:
      return c.intConst(tree.value);
    case Tree::BoolNumber:
      return c.boolConst(tree.value != 0);
    case Tree::Symbol:
    case Tree::BoolSymbol:
      return c.symbols()[static_cast<size_t>(tree.value)].node;
    case Tree::Add:
      return c.add(k[0], k[1]);
    case Tree::Sub:
      return c.sub(k[0], k[1]);
    case Tree::Mul:
      return c.mul(k[0], k[1]);
    case Tree::Neg:
      return c.neg(k[0]);
    case Tree::FloorDiv:
      return c.floorDiv(k[0], k[1]);
    case Tree::Mod:
      return c.mod(k[0], k[1]);
    case Tree::Min:
      return c.minMax(Kind::Min, k[0], k[1]);
    case Tree::Max:
      return c.minMax(Kind::Max, k[0], k[1]);
    case Tree::Eq:
      return c.eq(k[0], k[1]);
    case Tree::Ne:
      return c.ne(k[0], k[1]);
    case Tree::Le:
      return c.le(k[0], k[1]);
    case Tree::Lt:
      return c.lt(k[0], k[1]);
    case Tree::And:
      return c.logical(Kind::And, k[0], k[1]);
    case Tree::Or:
      return c.logical(Kind::Or, k[0], k[1]);
    case Tree::Not:
      return c.logicalNot(k[0]);
  }
  return nullptr;
}

// As a program would be written, for messages.
inline std::string text(const Context& c, const Tree& tree) {
  static const char* const kNames[] = {"",   "",   "+",  "-", "*",   "-",  "//",   "%", "min", "max",
                                       "==", "!=", "<=", "<", "and", "or", "not ", "",  ""};
  if (tree.op == Tree::Number || tree.op == Tree::BoolNumber) return std::to_string(tree.value);
  if (tree.op == Tree::Symbol || tree.op == Tree::BoolSymbol) return c.symbols()[static_cast<size_t>(tree.value)].name;
  std::string name = kNames[tree.op];
  if (tree.kids.size() == 1) return name + "(" + text(c, tree.kids[0]) + ")";
  std::string a = text(c, tree.kids[0]), b = text(c, tree.kids[1]);
  if (tree.op == Tree::Min || tree.op == Tree::Max) return name + "(" + a + ", " + b + ")";
  return "(" + a + " " + name + " " + b + ")";
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }

  // Declares symbols: integers with ranges of all kinds, then booleans.
  void symbols(Context& c, int integers, int booleans) {
    integers_ = integers;
    booleans_ = booleans;
    for (int i = 0; i < integers; ++i) {
      Range ranges[] = {Range::size(), Range::size(),     Range::atLeast(0), Range::all(),
                        Range{-5, 5},  Range::atMost(-1), Range{1, 16},      Range::atLeast(1)};
      c.symbol("s" + std::to_string(i), ranges[between(0, 7)]);
    }
    for (int i = 0; i < booleans; ++i) c.boolSymbol("b" + std::to_string(i));
  }

  Values values(const Context& c, int64_t spread) {
    Values v;
    for (const Symbol& symbol : c.symbols()) {
      Range r = symbol.node->range;
      if (symbol.node->kind == Kind::BoolSymbol) r = {0, 1};
      int64_t low = r.low == Range::kNegInf ? (r.high == Range::kInf ? -spread : r.high - spread) : r.low;
      int64_t high = r.high == Range::kInf ? low + 2 * spread : r.high;
      v.numbers.push_back(between(low, high));
    }
    return v;
  }

  Tree integer(int depth) {
    if (depth == 0 || chance(15)) {
      if (chance(35)) return {Tree::Number, number(), {}};
      return {Tree::Symbol, between(0, integers_ - 1), {}};
    }
    static constexpr Tree::Op kOps[] = {Tree::Add, Tree::Add, Tree::Sub,      Tree::Mul, Tree::Mul,      Tree::Neg,
                                        Tree::Min, Tree::Max, Tree::FloorDiv, Tree::Mod, Tree::FloorDiv, Tree::Mod};
    Tree tree{kOps[between(0, 11)], 0, {}};
    if (tree.op == Tree::Neg) return {tree.op, 0, {integer(depth - 1)}};
    tree.kids.push_back(integer(depth - 1));
    bool divides = tree.op == Tree::FloorDiv || tree.op == Tree::Mod;
    if (divides && chance(60)) {
      tree.kids.push_back({Tree::Number, chance(80) ? between(1, 12) : -between(1, 6), {}});
    } else {
      tree.kids.push_back(integer(depth - 1));
    }
    return tree;
  }

  Tree condition(int depth) {
    int64_t kind = between(0, depth > 1 ? 9 : 5);
    if (kind >= 7) return {kind == 7 ? Tree::And : Tree::Or, 0, {condition(depth - 1), condition(depth - 1)}};
    if (kind == 6) return {Tree::Not, 0, {condition(depth - 1)}};
    if (kind == 5 && booleans_ > 0) return {Tree::BoolSymbol, integers_ + between(0, booleans_ - 1), {}};
    static constexpr Tree::Op kOps[] = {Tree::Eq, Tree::Ne, Tree::Le, Tree::Lt, Tree::Le, Tree::Eq};
    return {kOps[kind], 0, {integer(depth - 1), integer(depth - 1)}};
  }

 private:
  int64_t number() { return chance(80) ? between(-9, 9) : between(-64, 64); }

  std::mt19937 random_;
  int integers_ = 0;
  int booleans_ = 0;
};

inline Assignment assignment(const Values& values) {
  Assignment a;
  for (int64_t value : values.numbers) a.ints.push_back(value);
  return a;
}

inline std::string text(const Context& c, const Values& values) {
  std::string out;
  for (size_t i = 0; i < values.numbers.size(); ++i) {
    out += c.symbols()[i].name + "=" + std::to_string(values.numbers[i]) + " ";
  }
  return out;
}

}  // namespace saker::sym::testing
