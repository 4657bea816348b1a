#include <gtest/gtest.h>

#include "ir/clone.h"
#include "ir/parameter_names.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"

namespace saker::ir {
namespace {

// Operators with schemas of every shape, without the table.
const OpDef* lookup(std::string_view name) {
  struct Entry : OpDef {
    explicit Entry(std::string_view text) : parsed(*parseSchema(text)) {
      qualified = parsed.qualified();
      schema = &parsed;
    }
    Schema parsed;
  };
  static const Entry kEntries[] = {
      Entry("t::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"),
      Entry("t::conv(Tensor x, Tensor w, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=[0, 0], "
            "int groups=1, *, str mode=\"zeros\", ScalarType? dtype=None, float eps=1e-05) -> Tensor"),
      Entry("t::split(Tensor(a -> *) self, SymInt size, int dim=0) -> Tensor(a)[]"),
      Entry("t::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)"),
      Entry("t::index(Tensor self, Tensor?[] indices) -> Tensor"),
      Entry("t::any(...) -> ..."),
  };
  for (const Entry& entry : kEntries) {
    if (entry.qualified == name) return &entry;
  }
  return nullptr;
}

std::string body(std::string_view statements) {
  return "symbol s0 in [2, inf]\ngraph @main(%x: f32[s0, 4], %w: f32[4]) {\n" + std::string(statements) +
         "  return\n}\n";
}

// Reads one statement, verifies it and prints it again.
std::string reprint(std::string_view statement) {
  Parsed parsed = parse(body("  " + std::string(statement) + "\n"), std::make_shared<Context>(lookup));
  if (!parsed.ok()) return parsed.error->message;
  if (std::vector<Diagnostic> found = verify(*parsed.graph); !found.empty()) return found[0].message;
  std::string text = print(*parsed.graph);
  size_t start = text.find("{\n") + 4;
  return text.substr(start, text.find("\n  return") - start);
}

TEST(Text, DefaultsOfEveryKind) {
  EXPECT_EQ(reprint("%0: f32[4] = t::conv(%x, %w)"), "%0: f32[4] = t::conv(%x, %w)");
  EXPECT_EQ(reprint("%0: f32[4] = t::conv(%x, %w, None, [1, 1], [0, 0], 1, mode=\"zeros\", dtype=None, eps=1e-05)"),
            "%0: f32[4] = t::conv(%x, %w)");
  EXPECT_EQ(reprint("%0: f32[4] = t::conv(%x, %w, %w, groups=4, eps=0.5)"),
            "%0: f32[4] = t::conv(%x, %w, %w, [1, 1], [0, 0], 4, eps=0.5)");
  EXPECT_EQ(reprint("%0: f32[4] = t::conv(%x, %w, padding=[s0, 0], dtype=bf16)"),
            "%0: f32[4] = t::conv(%x, %w, None, [1, 1], [s0, 0], dtype=bf16)");
  EXPECT_EQ(reprint("t::any(%x, 3)"), "t::any(%x, 3)");
}

TEST(Text, ArgumentsAndResultsFitTheSchema) {
  EXPECT_EQ(reprint("%0: f32[4] = t::view(%x, [s0, -1])"), "%0: f32[4] = t::view(%x, [s0, -1])");
  EXPECT_EQ(reprint("%0: f32[4] = t::view(%x, 4)"),
            "%0 = t::view: argument size: expected a list with elements each an int, found an int");
  EXPECT_EQ(reprint("%0: f32[4] = t::view(%x, [1.5])"),
            "%0 = t::view: argument size: expected a list with elements each an int, found a float");
  EXPECT_EQ(reprint("%0: f32[4] = t::conv(%x, %w, None, 2)"), "%0: f32[4] = t::conv(%x, %w, None, 2)");
  EXPECT_EQ(reprint("%0: f32[4], %1: f32[4], %2: f32[4] = t::split(%x, 2)"),
            "%0: f32[4], %1: f32[4], %2: f32[4] = t::split(%x, 2)");
  EXPECT_EQ(reprint("t::split(%x, 2)"), "t::split(%x, 2)");
  EXPECT_EQ(reprint("%0: f32[4] = t::topk(%x, 2)"), "%0 = t::topk: expected 2 results, found 1");
  EXPECT_EQ(reprint("%0: f32[4], %1: none = t::topk(%x, 2)"), "%0: f32[4], %1: none = t::topk(%x, 2)");
  EXPECT_EQ(reprint("%0: f32[4] = t::index(%x, [None, %w])"), "%0: f32[4] = t::index(%x, [None, %w])");
  EXPECT_EQ(reprint("%0: f32[4] = t::index(%x, [None, 3])"),
            "%0 = t::index: argument indices: expected a list with elements each a tensor, found an int");
}

TEST(Text, TypesReadBackInTheirContext) {
  Context context;
  context.symbols().symbol("s0");
  for (std::string_view text :
       {"f32[]", "bool", "bool[2]", "int(s0 + 1)", "list<optional<f32[s0, 4]{strides: [1, s0]}>>"}) {
    ParsedType parsed = parseType(text, context);
    ASSERT_TRUE(parsed.type) << parsed.error->message;
    EXPECT_EQ(toString(parsed.type), text);
    EXPECT_EQ(parseType(text, context).type, parsed.type);
  }
  EXPECT_FALSE(parseType("f32[] x", context).type);
  EXPECT_FALSE(parseType("f32[s1]", context).type);
}

TEST(Text, ASharedContextKeepsItsSymbols) {
  auto context = std::make_shared<Context>(lookup);
  Parsed first = parse("symbol s0 in [2, 9]\nfact s0 % 2 == 0\ngraph @a(%x: f32[s0]) { return }", context);
  Parsed second = parse("symbol s0 in [2, 9]\nfact s0 % 2 == 0\ngraph @b(%x: f32[s0]) { return }", context);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.graph->top()->parameters()[0]->type(), second.graph->top()->parameters()[0]->type());
  EXPECT_EQ(parse("symbol s0 in [2, 8]\ngraph @c() { return }", context).error->message,
            "symbol s0 exists with another range or kind");
}

TEST(Text, NamesOfParametersAreKeptAndToldApart) {
  auto context = std::make_shared<Context>(&lookup);
  Parsed parsed = parse(
      "graph @main(%0: f32[4], %1: f32[4], %2: f32[4], %taken: f32[4]) {\n"
      "  %3: f32[4] = t::any(%0, %1)\n"
      "  return %3\n"
      "}\n",
      context);
  ASSERT_TRUE(parsed.ok());
  std::vector<std::string> names = {"layer.0.weight", "taken", "", ""};
  nameParameters(*parsed.graph, names);
  std::string text = print(*parsed.graph);
  EXPECT_NE(text.find("%layer.0.weight: f32[4], %\"taken#2\": f32[4], %0: f32[4], %taken: f32[4]"), text.npos) << text;
  EXPECT_NE(text.find("%1: f32[4] = t::any(%layer.0.weight, %\"taken#2\")"), text.npos) << text;
  EXPECT_EQ(print(*clone(*parsed.graph)), text);
  EXPECT_EQ(print(*parse(text, std::make_shared<Context>(&lookup)).graph), text);
  nameParameters(*parsed.graph, names);  // the names are there: nothing changes
  EXPECT_EQ(print(*parsed.graph), text);
}

TEST(Text, GuardsAreGuardsAgain) {
  auto context = std::make_shared<Context>(&lookup);
  Parsed parsed =
      parse("symbol s0 in [2, inf] example 8\nfact s0 % 2 == 0\ngraph @main(%x: f32[s0]) {\n  return %x\n}\n", context);
  ASSERT_TRUE(parsed.ok());
  sym::Context& symbols = context->symbols();
  EXPECT_TRUE(symbols.decide(symbols.le(symbols.intConst(6), symbols.find("s0")->node)));
  ASSERT_EQ(symbols.guards().size(), 1u);
  std::string text = print(*parsed.graph, {.guards = true});
  EXPECT_NE(text.find("\nguard "), text.npos) << text;
  EXPECT_NE(text.find("\nfact s0 % 2 == 0\n"), text.npos) << text;
  EXPECT_EQ(print(*parsed.graph).find("guard"), text.npos);
  auto other = std::make_shared<Context>(&lookup);
  Parsed again = parse(text, other);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(other->symbols().guardsText(), symbols.guardsText());
  EXPECT_EQ(print(*again.graph, {.guards = true}), text);
  // A guard that the example does not meet is refused.
  text.replace(text.find("example 8"), 9, "example 4");
  EXPECT_FALSE(parse(text, std::make_shared<Context>(&lookup)).ok());
}

TEST(Text, UnnamedValuesAreNumberedInOrder) {
  auto context = std::make_shared<Context>();
  Graph graph(context);
  const Type* type = context->types().plain(TypeKind::Int);
  graph.addParameter(graph.top(), type);
  Node* late = graph.create(context->op("late"), {}, std::span(&type, 1));
  Node* early = graph.create(context->op("early"), {}, std::span(&type, 1));
  graph.append(graph.top(), early);
  graph.append(graph.top(), late);
  Arg returned[] = {Arg::value(late->result())};
  graph.appendReturn(graph.top(), returned);
  EXPECT_EQ(print(graph), "graph @main(%0: int) {\n  %1: int = early()\n  %2: int = late()\n  return %2\n}\n");
}

}  // namespace
}  // namespace saker::ir
