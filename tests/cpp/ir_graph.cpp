#include "ir/graph.h"

#include <gtest/gtest.h>

#include "support/small_vec.h"

namespace saker::ir {
namespace {

class GraphTest : public testing::Test {
 protected:
  const Type* f32() {
    TensorSpec spec;
    spec.sizes = {4};
    return context->types().tensor(spec);
  }
  Node* unary(Region* region, std::string_view op, Value* x) {
    Arg args[] = {Arg::value(x)};
    const Type* results[] = {f32()};
    return graph.append(region, context->op(op), args, results);
  }
  static std::vector<Value*> users(Value* value) {
    std::vector<Value*> out;
    for (const Use* use = value->firstUse(); use; use = use->next) out.push_back(use->user->result());
    return out;
  }

  std::shared_ptr<Context> context = std::make_shared<Context>();
  Graph graph{context};
};

TEST_F(GraphTest, UsesFollowArguments) {
  Value* x = graph.addParameter(graph.top(), f32(), "x");
  Value* y = graph.addParameter(graph.top(), f32());
  Arg inner[] = {Arg::value(y), Arg::none(), Arg::value(x)};
  Arg args[] = {Arg::value(x), Arg::integer(3), Arg::list(inner)};
  const Type* results[] = {f32(), f32()};
  Node* node = graph.append(graph.top(), context->op("a::b"), args, results);
  ASSERT_EQ(node->operandCount(), 3u);
  EXPECT_EQ(node->operand(0), x);
  EXPECT_EQ(node->operand(1), y);
  EXPECT_EQ(node->operand(2), x);
  EXPECT_TRUE(y->hasOneUse());
  EXPECT_FALSE(x->hasOneUse());
  inner[0] = Arg::none();  // the graph has its own copy
  EXPECT_EQ(node->arg(2).toList()[0].toValue(), y);

  graph.setOperand(node, 1, x);
  EXPECT_FALSE(y->hasUses());
  EXPECT_EQ(node->arg(2).toList()[0].toValue(), x);
  graph.replaceAllUses(x, y);
  EXPECT_FALSE(x->hasUses());
  EXPECT_EQ(node->arg(0).toValue(), y);
  Arg fewer[] = {node->arg(2)};
  graph.setArgs(node, fewer);
  EXPECT_EQ(node->operandCount(), 2u);
  graph.setArg(node, 0, Arg::integer(1));
  EXPECT_FALSE(y->hasUses());
}

TEST_F(GraphTest, InsertMoveErase) {
  Value* x = graph.addParameter(graph.top(), f32());
  Node* a = unary(graph.top(), "a::a", x);
  Node* b = unary(graph.top(), "a::b", x);
  Arg out[] = {Arg::value(b->result())};
  Node* ret = graph.appendReturn(graph.top(), out);
  EXPECT_EQ(graph.top()->terminator(), ret);
  EXPECT_EQ(graph.liveNodes(), 3u);
  graph.moveBefore(b, a);
  EXPECT_EQ(graph.top()->first(), b);
  EXPECT_EQ(b->next(), a);
  graph.erase(a);
  EXPECT_EQ(graph.liveNodes(), 2u);
  EXPECT_TRUE(x->hasOneUse());
  EXPECT_DEATH(graph.erase(b), "in use");
}

TEST_F(GraphTest, RollbackRestoresEverything) {
  Value* x = graph.addParameter(graph.top(), f32(), "x");
  Node* a = unary(graph.top(), "a::a", x);
  Node* b = unary(graph.top(), "a::b", x);
  Node* c = graph.create(context->op("a::cond"), {}, {}, 1);
  graph.append(graph.top(), c);
  Value* p = graph.addParameter(c->regions()[0], f32(), "p");
  Node* inside = unary(c->regions()[0], "a::in", x);
  graph.appendReturn(c->regions()[0], {});
  std::vector<Value*> before = users(x);
  uint32_t values = graph.valueLimit();

  auto outer = graph.checkpoint();
  for (int i = 0; i < 10; ++i) graph.addParameter(graph.top(), f32());
  graph.setName(x, "renamed");
  graph.setType(p, context->types().plain(TypeKind::Int));
  Node* d = unary(graph.top(), "a::d", a->result());
  graph.replaceAllUses(a->result(), b->result());
  {
    auto kept = graph.checkpoint();
    graph.erase(a);
    graph.commit(kept);
  }
  {
    auto undone = graph.checkpoint();
    graph.erase(c);
    unary(graph.top(), "a::e", b->result());
    graph.rollback(undone);
  }
  EXPECT_EQ(c->region(), graph.top());
  EXPECT_EQ(d->operand(0), b->result());
  graph.erase(c);
  graph.setArgs(b, {});
  graph.rollback(outer);

  EXPECT_EQ(graph.top()->parameters().size(), 1u);
  EXPECT_EQ(graph.valueLimit(), values);
  EXPECT_EQ(graph.nodeLimit(), 5u);
  EXPECT_EQ(graph.liveNodes(), 5u);
  EXPECT_EQ(x->name(), "x");
  EXPECT_EQ(p->type(), f32());
  EXPECT_EQ(users(x), before);  // in the same order
  EXPECT_FALSE(a->hasUsedResults());
  EXPECT_EQ(graph.top()->first(), a);
  EXPECT_EQ(a->next(), b);
  EXPECT_EQ(b->next(), c);
  EXPECT_EQ(c->next(), nullptr);
  EXPECT_EQ(c->regions()[0]->first(), inside);
}

}  // namespace
}  // namespace saker::ir
