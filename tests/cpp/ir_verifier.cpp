#include "ir/verifier.h"

#include <gtest/gtest.h>

#include "graph_breaker.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "random_graph.h"

namespace saker::ir {
namespace {

class VerifierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Parsed parsed = parse(R"(
symbol s0 in [2, inf]
graph @main(%x: f32[s0], %p: bool) {
  %a: f32[s0] = f(%x, [%x, 2], s0)
  %b: f32[s0], %c: f32[s0] = g(%a, %x)
  %r: f32[s0] = cond(%p) {
    (%q: f32[s0]) {
      %d: f32[s0] = f(%b)
      %e: f32[s0] = f(%d)
      return %e
    }
  }
  return %r
})",
                          std::make_shared<Context>());
    ASSERT_TRUE(parsed.ok()) << parsed.error->message;
    graph = std::move(parsed.graph);
    a = graph->top()->first();
    b = a->next();
    cond = b->next();
    body = cond->regions()[0];
    d = body->first();
    e = d->next();
    x = graph->top()->parameters()[0];
    ASSERT_TRUE(verify(*graph).empty());
  }

  void expect(std::string_view message) {
    std::vector<Diagnostic> found = verify(*graph, 10);
    ASSERT_FALSE(found.empty()) << "nothing was found";
    EXPECT_NE(found[0].message.find(message), std::string::npos) << found[0].message;
  }
  Arg value(Value* v) { return Arg::value(v); }

  std::unique_ptr<Graph> graph;
  Node *a, *b, *cond, *d, *e;
  Region* body;
  Value* x;
};

TEST_F(VerifierTest, LinksOfNodes) {
  GraphBreaker::prev(b) = cond;
  expect("wrong link");
}
TEST_F(VerifierTest, CircleOfNodes) {
  GraphBreaker::next(cond) = a;
  expect("wrong link");
}
TEST_F(VerifierTest, LastNode) {
  GraphBreaker::last(body) = d;
  expect("not the end of its list");
}
TEST_F(VerifierTest, NodeOfAnotherRegion) {
  GraphBreaker::region(d) = graph->top();
  expect("a region that it is not in");
}
TEST_F(VerifierTest, OwnerOfARegion) {
  GraphBreaker::owner(body) = a;
  expect("belongs to another node");
}
TEST_F(VerifierTest, RegionOfAnotherGraph) {
  Graph other(graph->sharedContext());
  GraphBreaker::graph(body) = &other;
  expect("belongs to another graph");
}
TEST_F(VerifierTest, ResultOfAnotherNode) {
  GraphBreaker::def(b->result(1)) = a;
  expect("result 1 does not belong to it");
}
TEST_F(VerifierTest, IndexOfAResult) {
  GraphBreaker::index(b->result(1)) = 0;
  expect("result 1 does not belong to it");
}
TEST_F(VerifierTest, IndexOfAParameter) {
  GraphBreaker::index(x) = 1;
  expect("parameter 0");
}
TEST_F(VerifierTest, NumbersOfValues) {
  GraphBreaker::id(b->result(1)) = b->result(0)->id();
  expect("the same number");
}
TEST_F(VerifierTest, NumberPastTheEnd) {
  GraphBreaker::id(b->result(1)) = 1000;
  expect("past the end");
}
TEST_F(VerifierTest, UseOfAnotherValue) {
  GraphBreaker::use(b, 0).value = x;
  expect("");
}
TEST_F(VerifierTest, ArgumentWithoutItsUse) {
  GraphBreaker::arg(b, 0) = value(x);
  expect("disagree");
}
TEST_F(VerifierTest, ArgumentThatIsNoValueAnyMore) {
  GraphBreaker::arg(b, 1) = Arg::integer(2);
  expect("no argument stands for");
}
TEST_F(VerifierTest, FewerUsesThanArguments) {
  GraphBreaker::useCount(b) = 1;
  expect("arguments without a use");
}
TEST_F(VerifierTest, UserOfAUse) {
  GraphBreaker::use(b, 0).user = a;
  expect("disagree");
}
TEST_F(VerifierTest, UseOutOfItsList) {
  GraphBreaker::uses(b->result(0)) = nullptr;
  expect("");
}
TEST_F(VerifierTest, CircleOfUses) {
  GraphBreaker::use(d, 0).next = &GraphBreaker::use(d, 0);
  expect("list of uses of a value is broken");
}
TEST_F(VerifierTest, LongerCircleOfUses) {
  Use* first = GraphBreaker::uses(x);
  Use* last = first;
  while (last->next) last = last->next;
  last->next = first;
  first->link = &last->next;
  expect("list of uses of a value is broken");
}
TEST_F(VerifierTest, UsedBeforeDefined) {
  graph->moveBefore(b, a);
  expect("uses %a before it is defined");
}
TEST_F(VerifierTest, UsedAfterTheRegionEnded) {
  Arg args[] = {value(d->result())};
  graph->setArgs(graph->top()->last(), args);
  expect("uses %d, which is defined in a region that has ended");
}
TEST_F(VerifierTest, UsedByTheBodyOfItsOwnNode) {
  Arg args[] = {value(cond->result())};
  graph->setArgs(d, args);
  expect("uses %r before it is defined");
}
TEST_F(VerifierTest, ValueOfANodeTakenOut) {
  graph->unlink(a);
  expect("not in the graph");
}
TEST_F(VerifierTest, UserTakenOut) {
  graph->unlink(e);
  graph->setArgs(body->last(), {});
  expect("outside of the graph uses a value");
}
TEST_F(VerifierTest, ValueOfAnotherGraph) {
  Graph other(graph->sharedContext());
  for (int i = 0; i < 3; ++i) other.addParameter(other.top(), x->type());
  Arg args[] = {value(other.top()->parameters()[2])};
  graph->setArgs(d, args);
  expect("another graph");
}
TEST_F(VerifierTest, ReturnInTheMiddle) {
  graph->insertBefore(graph->top(), b, graph->create(returnOp(), {}, {}));
  expect("return is not the last node");
}
TEST_F(VerifierTest, ReturnWithResults) {
  graph->erase(graph->top()->last());
  const Type* results[] = {x->type()};
  graph->append(graph->top(), graph->create(returnOp(), {}, results));
  expect("return has results");
}
TEST_F(VerifierTest, NoReturn) {
  graph->erase(body->last());
  expect("cond: a region does not end in return");
}
TEST_F(VerifierTest, NoReturnAtTheTop) {
  graph->erase(graph->top()->last());
  expect("the graph does not end in return");
}
TEST_F(VerifierTest, NameTwice) {
  graph->setName(d->result(), "x");
  expect("two values are called %x");
}
TEST_F(VerifierTest, ExpressionOfAnotherContext) {
  Context other;
  Int s = other.symbols().symbol("s9");
  graph->setArg(a, 2, Arg::symInt(s));
  expect("expression belongs to another context");
}
TEST_F(VerifierTest, TypeOfAnotherContext) {
  Context other;
  TensorSpec spec;
  spec.sizes = {other.symbols().symbol("s9")};
  graph->setType(x, other.types().tensor(spec));
  expect("expression belongs to another context");
}
TEST_F(VerifierTest, SymbolThatWasRolledBack) {
  sym::Context& symbols = graph->context().symbols();
  auto checkpoint = symbols.checkpoint();
  Int s = symbols.symbol("s9");
  graph->setArg(a, 2, Arg::symInt(s + Int(1)));
  symbols.rollback(checkpoint);
  expect("a symbol is not one of the context");
}
TEST_F(VerifierTest, SymbolWithAWordForAName) {
  graph->context().symbols().symbol("None");
  expect("symbol None");
}
TEST_F(VerifierTest, FindsSeveralAndStopsAtTheLimit) {
  graph->setName(d->result(), "x");
  graph->erase(graph->top()->last());
  EXPECT_EQ(verify(*graph, 10).size(), 2u);
  EXPECT_EQ(verify(*graph, 1).size(), 1u);
}
TEST_F(VerifierTest, TellsNodeAndLocation) {
  const Location* at = graph->context().location("model.py", 3, "forward");
  graph->setLocation(b, at);
  graph->moveBefore(b, a);
  std::vector<Diagnostic> found = verify(*graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].node, b);
  EXPECT_EQ(found[0].location, at);
}
TEST_F(VerifierTest, TypesAreNoArguments) {
  Arg args[] = {Arg::type(x->type())};
  EXPECT_DEATH(graph->setArgs(d, args), "never part of a graph");
  GraphBreaker::arg(a, 2) = Arg::type(x->type());
  expect("a type for an argument");
}

// Any one of these, anywhere in any graph, is found (and verifying ends).
TEST(FuzzVerifier, DamagedGraphsAreFound) {
  using testing::Random;
  size_t damaged = 0;
  for (uint64_t seed = 0; seed < 2000 * testing::fuzzFactor(); ++seed) {
    testing::RandomGraph generator(seed, 4 + seed % 16);
    std::unique_ptr<Graph> graph = generator.make();
    Random random(seed);
    std::vector<Node*> nodes;
    std::vector<Value*> values(graph->top()->parameters().begin(), graph->top()->parameters().end());
    auto collect = [&](auto&& self, Region* region) -> void {
      for (Node* node = region->first(); node; node = node->next()) {
        nodes.push_back(node);
        for (size_t i = 0; i < node->resultCount(); ++i) values.push_back(node->result(i));
        for (Region* inner : node->regions()) self(self, inner);
      }
    };
    collect(collect, graph->top());
    Node* node = random.pick(nodes);
    Value* value = values.empty() ? nullptr : random.pick(values);
    switch (seed % 10) {
      case 0:
        GraphBreaker::prev(node) = node;
        break;
      case 1:
        GraphBreaker::next(node) = node;
        break;
      case 2:
        GraphBreaker::region(node) = nullptr;
        break;
      case 3:
        if (!node->operandCount()) continue;
        GraphBreaker::use(node, random.below(node->operandCount())).user = nullptr;
        break;
      case 4:
        if (!node->operandCount()) continue;
        GraphBreaker::use(node, 0).next = &GraphBreaker::use(node, 0);
        break;
      case 5:
        if (!value) continue;
        GraphBreaker::index(value) += 1;
        break;
      case 6:
        if (!value || values.size() < 2) continue;
        GraphBreaker::id(value) = GraphBreaker::id(value == values[0] ? values[1] : values[0]);
        break;
      case 7:
        if (!value || !value->hasUses()) continue;
        GraphBreaker::uses(value) = nullptr;
        break;
      case 8:
        if (!node->next()) continue;
        graph->insertBefore(node->region(), node, graph->create(returnOp(), {}, {}));
        break;
      case 9:
        if (!value || value->isParameter() || !value->hasUses()) continue;
        graph->unlink(value->def());
        break;
    }
    ++damaged;
    ASSERT_FALSE(verify(*graph, 3).empty()) << "seed " << seed;
  }
  EXPECT_GT(damaged, 1000u);
}

}  // namespace
}  // namespace saker::ir
