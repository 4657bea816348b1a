// Random graphs print and parse back; damaged texts are refused with a place, or accepted and then sound.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "random_graph.h"

namespace saker::ir::testing {
namespace {

std::shared_ptr<Context> fresh() { return std::make_shared<Context>(ops::lookup); }

std::string firstDifference(const std::string& a, const std::string& b) {
  size_t at = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  size_t from = at < 200 ? 0 : at - 200;
  return "first:\n" + a.substr(from, 400) + "\n--- second:\n" + b.substr(from, 400);
}

// Parses, and checks what must hold of any answer.
void check(const std::string& text, size_t* accepted = nullptr) {
  Parsed parsed = parse(text, fresh());
  if (accepted) *accepted += parsed.ok();
  ASSERT_NE(parsed.ok(), parsed.error.has_value());
  if (!parsed.ok()) {
    const ParseError& error = *parsed.error;
    ASSERT_GE(error.line, 1u);
    ASSERT_GE(error.column, 1u);
    ASSERT_FALSE(error.message.empty());
    size_t start = 0;
    for (size_t line = 1; line < error.line; ++line) {
      size_t end = text.find('\n', start);
      ASSERT_NE(end, text.npos) << "line " << error.line << " of\n" << text;
      start = end + 1;
    }
    size_t length = std::min(text.find('\n', start), text.size()) - start;
    ASSERT_LE(error.column, length + 1) << error.message << " in\n" << text;
    return;
  }
  verify(*parsed.graph, 10);
  std::string printed = print(*parsed.graph, {.locations = true});
  Parsed again = parse(printed, fresh());
  ASSERT_TRUE(again.ok()) << again.error->line << ':' << again.error->column << ": " << again.error->message << '\n'
                          << printed;
  std::string twice = print(*again.graph, {.locations = true});
  ASSERT_EQ(printed, twice) << firstDifference(printed, twice);
}

TEST(FuzzParser, RandomGraphsReadBack) {
  for (uint64_t seed = 0; seed < 1000 * fuzzFactor(); ++seed) {
    RandomGraph random(seed, 1 + seed % 20);
    std::unique_ptr<Graph> graph = random.make();
    std::vector<Diagnostic> found = verify(*graph);
    ASSERT_TRUE(found.empty()) << "seed " << seed << ": " << found[0].message;
    std::string text = print(*graph, {.locations = true});
    Parsed parsed = parse(text, fresh());
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << ": " << parsed.error->line << ':' << parsed.error->column << ": "
                             << parsed.error->message << '\n'
                             << text;
    found = verify(*parsed.graph);
    ASSERT_TRUE(found.empty()) << "seed " << seed << ": " << found[0].message;
    std::string twice = print(*parsed.graph, {.locations = true});
    ASSERT_EQ(text, twice) << "seed " << seed << ": " << firstDifference(text, twice);
  }
}

// Words, numbers and single characters.
std::vector<std::string> tokens(const std::string& text) {
  std::vector<std::string> out;
  for (char c : text) {
    bool wordy = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (wordy && !out.empty() &&
        (std::isalnum(static_cast<unsigned char>(out.back().back())) || out.back().back() == '_')) {
      out.back() += c;
    } else {
      out.emplace_back(1, c);
    }
  }
  return out;
}

std::string damage(Random& random, std::string text, const std::string& other) {
  static const std::vector<std::string> kPieces = {
      "(",         ")",
      "[",         "]",
      "{",         "}",
      ",",         ":",
      "=",         "%",
      "@",         "\"",
      "#",         "\n",
      "->",        "//",
      "-",         "inf",
      "nan",       "None",
      "True",      "return",
      "loc(",      "symbol ",
      "fact ",     "graph ",
      "s0",        "%0",
      "%x",        "1e999",
      "nan(0x",    "9223372036854775808",
      "\\x",       "\\",
      "\0",        "list<",
      "opaque(",   "f32[",
      "min(",      "aten::add.Tensor",
      "alpha=",    "complex(",
      "strides: ", "not ",
      " and ",     "symbol q: bool\n",
      "dtype.",    "in [",
  };
  if (text.empty()) return text;
  size_t at = random.below(text.size());
  size_t length = 1 + random.below(random.chance(80) ? 12 : 200);
  switch (random.below(10)) {
    case 0:
      text[at] = static_cast<char>(random.next());
      break;
    case 1:
      text[at] ^= static_cast<char>(1 << random.below(8));
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, text.substr(random.below(text.size()), length));
      break;
    case 4:
      text.resize(at);
      break;
    case 5:
      text.insert(at, random.pick(kPieces));
      break;
    case 6:
      text.replace(at, length, random.pick(kPieces));
      break;
    case 7:
      if (!other.empty()) text = text.substr(0, at) + other.substr(random.below(other.size()));
      break;
    case 8: {
      std::vector<std::string> parts = tokens(text);
      std::swap(parts[random.below(parts.size())], parts[random.below(parts.size())]);
      text.clear();
      for (const std::string& part : parts) text += part;
      break;
    }
    default: {
      std::string piece = random.pick(kPieces);
      for (size_t i = 1 + random.below(300); i > 0; --i) text.insert(at, piece);
      break;
    }
  }
  return text;
}

TEST(FuzzParser, DamagedTextsAreAnswered) {
  std::vector<std::string> texts;
  for (uint64_t seed = 0; seed < 60; ++seed)
    texts.push_back(print(*RandomGraph(seed, 1 + seed % 12).make(), {.locations = true}));
  Random random(7);
  size_t iterations = 12000 * fuzzFactor(), accepted = 0;
  for (size_t i = 0; i < iterations; ++i) {
    std::string text = random.pick(texts);
    for (size_t steps = 1 + random.below(4); steps > 0; --steps)
      text = damage(random, std::move(text), random.pick(texts));
    check(text, &accepted);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "iteration " << i << '\n' << text;
      return;
    }
  }
  // Both answers are met often, or the damage is of the wrong kind.
  EXPECT_GT(accepted, iterations / 50);
  EXPECT_LT(accepted, iterations * 9 / 10);
}

TEST(FuzzParser, DeepNestingIsRefused) {
  for (size_t depth : {50, 99, 100, 101, 150, 5000, 200000}) {
    auto repeat = [&](std::string_view piece) {
      std::string out;
      for (size_t i = 0; i < depth; ++i) out += piece;
      return out;
    };
    check("graph @main() { f(" + repeat("[") + repeat("]") + ") return }");
    check("graph @main(%x: " + repeat("list<") + "int" + repeat(">") + ") { return }");
    check("graph @main() { " + repeat("f() { () { ") + repeat("return } } ") + "return }");
    check("symbol s0 in [2, inf]\ngraph @main(%x: f32[" + repeat("(") + "s0" + repeat(")") + "]) { return }");
    check("symbol s0 in [2, inf]\ngraph @main(%x: f32[" + repeat("-") + "s0]) { return }");
    check("symbol s0 in [2, inf]\ngraph @main(%x: f32[" + repeat("max(3, ") + "s0" + repeat(")") + "]) { return }");
    check("symbol b in [2, inf]\nfact " + repeat("not ") + "b == 3\ngraph @main() { return }");
    check("symbol s0 in [2, inf]\ngraph @main(%x: f32[" + repeat("s0 + ") + "1]) { return }");
    check("symbol s0 in [2, inf]\ngraph @main(%x: f32[" + repeat("s0*") + "1]) { return }");
    check("graph @main() { f() loc(" + repeat("\"a\":1 from ") + "\"b\":2) return }");
    check(repeat("graph @main() {"));
    check(repeat("{"));
    check("graph @main(" + repeat("%x: f32[4], ") + "%y: int) { return }");
  }
}

}  // namespace
}  // namespace saker::ir::testing
