// Properties that must hold for any expression and any facts, on random ones with fixed seeds. The environment
// variable SAKER_FUZZ_ITERATIONS multiplies their number.
#include <gtest/gtest.h>

#include "symbolic/parse.h"
#include "symbolic_random.h"

namespace saker::sym {
namespace {

using testing::assignment;
using testing::Big;
using testing::build;
using testing::Draw;
using testing::evaluate;
using testing::iterations;
using testing::text;
using testing::Tree;
using testing::Values;

// Nothing where construction refuses: a literal zero divisor or an expression that grows too large.
const Node* tryBuild(Context& c, const Tree& tree, bool swapped = false) {
  try {
    return build(c, tree, swapped);
  } catch (const Overflow&) {
  } catch (const Undecided&) {
  }
  return nullptr;
}

const Node* parse(Context& c, const std::string& written) {
  size_t position = 0;
  std::string error;
  const Node* node = parseExpression(c, written, position, error);
  EXPECT_NE(node, nullptr) << written << ": " << error << " at " << position;
  EXPECT_EQ(position, node ? written.size() : position) << written;
  return node;
}

std::optional<Big> value(const Node* node, const Values& values) {
  Assignment a = assignment(values);
  if (node->isBool()) {
    std::optional<bool> b = evaluateBool(node, a);
    return b ? std::optional<Big>(*b) : std::nullopt;
  }
  std::optional<int64_t> i = evaluateInt(node, a);
  return i ? std::optional<Big>(*i) : std::nullopt;
}

TEST(SymbolicProperty, CanonicalFormKeepsTheValue) {
  Draw draw(1);
  int built = 0;
  for (int round = 0; round < iterations(6000); ++round) {
    Context c;
    draw.symbols(c, 3, 1);
    int depth = static_cast<int>(draw.between(1, 5));
    Tree tree = draw.chance(70) ? draw.integer(depth) : draw.condition(depth);
    const Node* node = tryBuild(c, tree);
    if (!node) continue;
    ++built;
    ASSERT_EQ(node, tryBuild(c, tree, true)) << text(c, tree) << ": operands in the other order give another form";
    ASSERT_EQ(node, parse(c, toString(node))) << toString(node) << " is read back as something else";
    for (int i = 0; i < 8; ++i) {
      Values values = draw.values(c, i < 6 ? 12 : 100);
      std::optional<Big> expected = evaluate(tree, values);
      if (!expected) continue;
      std::optional<Big> found = value(node, values);
      ASSERT_TRUE(found.has_value()) << text(c, tree) << " became " << toString(node) << " at " << text(c, values);
      ASSERT_EQ(*expected, *found) << text(c, tree) << " became " << toString(node) << " at " << text(c, values);
      if (node->isInt()) {
        ASSERT_TRUE(node->range.contains(static_cast<int64_t>(*found))) << toString(node);
      }
    }
  }
  EXPECT_GT(built, iterations(6000) / 2);
}

TEST(SymbolicProperty, NegationIsExactAndItsOwnInverse) {
  Draw draw(2);
  for (int round = 0; round < iterations(4000); ++round) {
    Context c;
    draw.symbols(c, 3, 2);
    Tree tree = draw.condition(static_cast<int>(draw.between(1, 4)));
    const Node* node = tryBuild(c, tree);
    if (!node) continue;
    const Node* opposite = c.logicalNot(node);
    for (int i = 0; i < 6; ++i) {
      Values values = draw.values(c, 10);
      std::optional<Big> expected = evaluate(tree, values);
      if (!expected) continue;
      ASSERT_EQ(value(opposite, values), std::optional<Big>(!*expected))
          << toString(node) << " / " << toString(opposite);
    }
    bool simple = node->kind != Kind::And && node->kind != Kind::Or;
    if (simple) {
      ASSERT_EQ(c.logicalNot(opposite), node) << toString(node);
    }
  }
}

TEST(SymbolicProperty, SubstitutionKeepsTheValue) {
  Draw draw(3);
  for (int round = 0; round < iterations(3000); ++round) {
    Context c;
    draw.symbols(c, 3, 0);
    Tree tree = draw.integer(static_cast<int>(draw.between(1, 4)));
    const Node* node = tryBuild(c, tree);
    if (!node) continue;
    Values values = draw.values(c, 10);
    // s0 is replaced by an expression with the same value.
    Tree other = draw.integer(2);
    std::optional<Big> expected = evaluate(tree, values), offset = evaluate(other, values);
    const Node* made = tryBuild(c, other);
    if (!expected || !offset || !made) continue;
    const Node* s0 = c.symbols()[0].node;
    try {
      int64_t shift = values.numbers[0] - static_cast<int64_t>(*offset);
      const Node* replaced = substitute(node, {c.add(made, c.intConst(shift))});
      ASSERT_EQ(value(replaced, values), expected) << toString(node) << " with " << toString(s0) << " replaced";
    } catch (const std::runtime_error&) {
    }
  }
}

// Facts that hold for one assignment are accepted, and no conclusion contradicts it, nor any other for which they hold.
TEST(SymbolicProperty, ConclusionsHoldWhereverTheFactsDo) {
  Draw draw(4);
  int proven = 0, asked = 0, otherModels = 0;
  for (int round = 0; round < iterations(500); ++round) {
    Context c;
    draw.symbols(c, 3, 1);
    int64_t spread = draw.chance(70) ? 6 : 30;
    Values truth = draw.values(c, spread);
    std::vector<Values> others;
    for (int i = 0; i < 150; ++i) others.push_back(draw.values(c, spread));
    std::vector<Tree> assumed;
    int64_t facts = draw.between(1, 5);
    for (int i = 0; i < facts; ++i) {
      Tree tree = draw.condition(static_cast<int>(draw.between(1, 3)));
      std::optional<Big> holds = evaluate(tree, truth);
      if (!holds) continue;
      if (!*holds) tree = {Tree::Not, 0, {tree}};
      const Node* node = tryBuild(c, tree);
      if (!node) continue;
      ASSERT_TRUE(c.facts().assume(node)) << toString(node) << " was refused at " << text(c, truth);
      ASSERT_EQ(c.facts().prove(node), true) << toString(node) << " is not known after it was assumed";
      assumed.push_back(tree);
      std::erase_if(others, [&](const Values& v) { return evaluate(tree, v) != std::optional<Big>(1); });
    }
    otherModels += static_cast<int>(others.size());
    others.push_back(truth);
    std::string known;
    for (const Node* fact : c.facts().assumed()) known += toString(fact) + "; ";

    for (int i = 0; i < 12; ++i) {
      Tree tree = draw.condition(static_cast<int>(draw.between(1, 3)));
      const Node* node = tryBuild(c, tree);
      if (!node) continue;
      ++asked;
      std::optional<bool> answer = c.facts().prove(node);
      if (answer) {
        ++proven;
        for (const Values& v : others) {
          std::optional<Big> expected = evaluate(tree, v);
          if (expected) {
            ASSERT_EQ(*answer, *expected != 0) << text(c, tree) << " from " << known << " at " << text(c, v);
          }
        }
        // Its opposite is refused, and that changes nothing.
        size_t before = c.facts().assumed().size();
        ASSERT_FALSE(c.facts().assume(*answer ? c.logicalNot(node) : node)) << toString(node) << " from " << known;
        ASSERT_EQ(before, c.facts().assumed().size());
      }
      Tree number = draw.integer(3);
      const Node* plain = tryBuild(c, number);
      if (!plain) continue;
      const Node* simple = c.facts().simplify(plain);
      ASSERT_EQ(simple, parse(c, toString(simple)));
      ASSERT_EQ(simple, c.facts().simplify(simple)) << toString(simple) << " from " << known;
      Range range = c.facts().rangeOf(plain);
      for (const Values& v : others) {
        std::optional<Big> expected = evaluate(number, v);
        if (!expected) continue;
        ASSERT_EQ(value(simple, v), expected)
            << text(c, number) << " became " << toString(simple) << " under " << known << " at " << text(c, v);
        ASSERT_TRUE(range.contains(static_cast<int64_t>(*expected)))
            << toString(plain) << " in " << range.low << ".." << range.high << " under " << known << " at "
            << text(c, v);
      }
    }
  }
  // The test would be empty if nothing was ever concluded or only one assignment was left.
  EXPECT_GT(proven, asked / 20);
  EXPECT_GT(otherModels, iterations(500));
}

// Questions decided by examples: the listed guards hold for the examples and give the same answers again.
TEST(SymbolicProperty, GuardsImplyAllAnswers) {
  Draw draw(5);
  for (int round = 0; round < iterations(100); ++round) {
    Context declared;
    draw.symbols(declared, 3, 0);
    Values examples = draw.values(declared, 10);
    Context c;
    for (const Symbol& s : declared.symbols()) {
      c.symbol(s.name, s.node->range, examples.numbers[static_cast<size_t>(s.node->value)]);
    }
    std::vector<std::pair<Tree, bool>> answers;
    for (int i = 0; i < 8; ++i) {
      Tree tree = draw.condition(2);
      const Node* node = tryBuild(c, tree);
      std::optional<Big> expected = evaluate(tree, examples);
      if (!node || !expected) continue;
      bool answer = c.decide(node);
      ASSERT_EQ(answer, *expected != 0) << text(c, tree) << " at " << text(c, examples);
      answers.push_back({tree, answer});
    }
    Assignment a = assignment(examples);
    for (const Guard& guard : c.guards()) ASSERT_EQ(evaluateBool(guard.condition, a), std::optional<bool>(true));
    for (int i = 0; i < 60; ++i) {
      Values v = draw.values(c, 10);
      bool guarded = true;
      for (const Guard& guard : c.guards()) guarded &= evaluateBool(guard.condition, assignment(v)).value_or(false);
      if (!guarded) continue;
      for (const auto& [tree, answer] : answers) {
        std::optional<Big> again = evaluate(tree, v);
        if (again) {
          ASSERT_EQ(*again != 0, answer) << text(c, tree) << " at " << text(c, v) << "\n" << c.guardsText();
        }
      }
    }
  }
}

// Floats are computed in the order they were written, so the same operations give the same bits.
TEST(SymbolicProperty, FloatsKeepTheirBits) {
  Draw draw(7);
  for (int round = 0; round < iterations(3000); ++round) {
    Context c;
    Float f = c.floatSymbol("f0"), g = c.floatSymbol("f1");
    Int s = c.symbol("s0", Range::all());
    Assignment a;
    a.ints = {std::nullopt, std::nullopt, draw.between(-20, 20)};
    a.floats = {static_cast<double>(draw.between(-40, 40)) / 8, static_cast<double>(draw.between(-9, 9)) / 3,
                std::nullopt};
    std::vector<std::pair<const Node*, double>> pool = {
        {f.node(), *a.floats[0]}, {g.node(), *a.floats[1]}, {c.floatConst(0.1), 0.1}, {c.floatConst(-3.0), -3.0}};
    const Node* whole[] = {s.node()};
    pool.push_back({c.floatOp(FloatOp::FromInt, whole), static_cast<double>(*a.ints[2])});
    for (int step = 0; step < 8; ++step) {
      auto pick = [&] { return pool[static_cast<size_t>(draw.between(0, static_cast<int64_t>(pool.size()) - 1))]; };
      auto [x, xv] = pick();
      auto [y, yv] = pick();
      const Node* operands[] = {x, y};
      FloatOp op;
      double expected;
      switch (draw.between(0, 5)) {
        case 0:
          op = FloatOp::Add, expected = xv + yv;
          break;
        case 1:
          op = FloatOp::Sub, expected = xv - yv;
          break;
        case 2:
          op = FloatOp::Mul, expected = xv * yv;
          break;
        case 3:
          op = FloatOp::Neg, expected = -xv;
          break;
        case 4:
          op = FloatOp::Max, expected = yv > xv ? yv : xv;
          break;
        default:
          if (yv == 0) continue;
          op = FloatOp::Div, expected = xv / yv;
      }
      const Node* made = c.floatOp(op, std::span<const Node* const>(operands).first(arityOf(op)));
      pool.push_back({made, expected});
      std::optional<double> found = evaluateFloat(made, a);
      ASSERT_TRUE(found.has_value()) << toString(made);
      ASSERT_TRUE(*found == expected || (*found != *found && expected != expected)) << toString(made);
      ASSERT_EQ(made, parse(c, toString(made)));
      Kind kinds[] = {Kind::Eq, Kind::Ne, Kind::Le, Kind::Lt};
      const Node* compared = c.floatCompare(kinds[draw.between(0, 3)], made, x);
      if (draw.chance(50)) compared = c.logicalNot(compared);
      ASSERT_EQ(compared, parse(c, toString(compared)));
    }
  }
}

TEST(SymbolicProperty, ParserSurvivesDamagedText) {
  Draw draw(6);
  for (int round = 0; round < iterations(6000); ++round) {
    Context c;
    draw.symbols(c, 3, 1);
    c.floatSymbol("f0");
    Tree tree = draw.chance(50) ? draw.integer(4) : draw.condition(4);
    const Node* node = tryBuild(c, tree);
    if (!node) continue;
    std::string written = toString(node);
    static constexpr std::string_view kPieces = "()+-*/%<>=!,. s0b9f0minmaxandornot1e\"\0\xff";
    int64_t edits = draw.between(1, 4);
    for (int i = 0; i < edits && !written.empty(); ++i) {
      size_t at = static_cast<size_t>(draw.between(0, static_cast<int64_t>(written.size()) - 1));
      size_t from = static_cast<size_t>(draw.between(0, static_cast<int64_t>(kPieces.size()) - 1));
      switch (draw.between(0, 2)) {
        case 0:
          written[at] = kPieces[from];
          break;
        case 1:
          written.erase(at, static_cast<size_t>(draw.between(1, 4)));
          break;
        default:
          written.insert(at, kPieces.substr(from, static_cast<size_t>(draw.between(1, 5))));
      }
    }
    size_t position = 0;
    std::string error;
    const Node* again = parseExpression(c, written, position, error);
    ASSERT_LE(position, written.size());
    if (again) {
      ASSERT_EQ(again, parse(c, toString(again))) << written;
    } else {
      ASSERT_FALSE(error.empty());
    }
  }
}

}  // namespace
}  // namespace saker::sym
