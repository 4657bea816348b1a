// Random edits after a checkpoint, then rollback: the graph is the same again, to the last link.
#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verifier.h"
#include "random_graph.h"

namespace saker::ir::testing {
namespace {

// Everything that can be seen of a graph: its text, and the order of uses.
std::string snapshot(const Graph& graph) {
  ValueNames names(graph);
  std::string out = print(graph, {.locations = true});
  auto uses = [&](const Value* value) {
    out += names.of(value) + ':';
    for (const Use* use = value->firstUse(); use; use = use->next) {
      out += ' ' + std::to_string(use->user->id()) + '.' + std::to_string(use - use->user->operands().data());
    }
    out += '\n';
  };
  auto visit = [&](auto&& self, const Region* region) -> void {
    for (const Value* parameter : region->parameters()) uses(parameter);
    for (const Node* node = region->first(); node; node = node->next()) {
      for (size_t i = 0; i < node->resultCount(); ++i) uses(node->result(i));
      for (const Region* body : node->regions()) self(self, body);
    }
  };
  visit(visit, graph.top());
  return out + std::to_string(graph.liveNodes()) + ' ' + std::to_string(graph.nodeLimit()) + ' ' +
         std::to_string(graph.valueLimit());
}

// Edits that keep the graph valid.
class Editor {
 public:
  Editor(Graph& graph, uint64_t seed) : graph_(graph), random_(seed), generator_(seed, 0) { generator_.attach(graph); }

  void edit() {
    collect();
    Node* node = random_.pick(nodes_);
    switch (random_.below(12)) {
      case 0:
        generator_.node(node->region(), node, visibleBefore(node));
        break;
      case 1:
        graph_.addParameter(random_.chance(50) ? graph_.top() : node->region(), generator_.type(), name());
        break;
      case 2: {
        if (node->isReturn()) break;
        for (size_t i = 0; i < node->resultCount(); ++i) replaceUses(node, node->result(i));
        if (!node->hasUsedResults()) graph_.erase(node);
        break;
      }
      case 3: {
        std::vector<Value*> visible = visibleBefore(node);
        if (node->operandCount() && !visible.empty() && !node->op()->schema) {
          graph_.setOperand(node, random_.below(node->operandCount()), random_.pick(visible));
        }
        break;
      }
      case 4: {
        if (node->isReturn() || !node->prev()) break;
        // As far up as its operands allow: over one node that defines none of them.
        bool depends = false;
        for (const Value* used : operandsOf(node)) depends |= used->def() == node->prev();
        if (!depends) graph_.moveBefore(node, node->prev());
        break;
      }
      case 5: {
        std::vector<Value*> all = valuesOf(node);
        if (!all.empty()) graph_.setName(random_.pick(all), name());
        break;
      }
      case 6: {
        // To one of the same kind, so that arguments still fit their schema.
        std::vector<Value*> all = valuesOf(node);
        const Type* type = generator_.type();
        if (!all.empty() && random_.pick(all)->type()->kind == type->kind) {
          for (Value* value : all) {
            if (value->type()->kind == type->kind) graph_.setType(value, type);
          }
        }
        break;
      }
      case 7: {
        if (node->op()->schema) break;
        std::vector<Arg> args;
        for (Value* value : visibleBefore(node)) {
          if (random_.chance(30)) args.push_back(Arg::value(value));
        }
        args.push_back(Arg::integer(static_cast<int64_t>(random_.below(100))));
        Arg nested[] = {Arg::list(args), Arg::string("text"), Arg::none()};
        graph_.setArgs(node, random_.chance(50) ? std::span<const Arg>(args) : std::span<const Arg>(nested));
        break;
      }
      case 8: {
        if (node->op()->schema || node->isReturn()) break;
        Region* body = graph_.addRegion(node);
        Value* parameter = graph_.addParameter(body, generator_.type());
        Arg returned[] = {Arg::value(parameter)};
        graph_.appendReturn(body, returned);
        break;
      }
      case 9:
        graph_.setLocation(node, graph_.context().location("edit.py", static_cast<int>(random_.below(9)), "f"));
        break;
      case 10:
        if (!node->isReturn()) graph_.setAttributes(node, generator_.attributes());
        break;
      default: {
        if (node->isReturn()) break;
        Node* next = node->next();
        Region* region = node->region();
        graph_.unlink(node);
        graph_.insertBefore(region, next, node);
        break;
      }
    }
  }

 private:
  std::string name() { return random_.chance(50) ? "" : "edit" + std::to_string(names_++); }

  void collect() {
    nodes_.clear();
    auto visit = [&](auto&& self, Region* region) -> void {
      for (Node* node = region->first(); node; node = node->next()) {
        nodes_.push_back(node);
        for (Region* body : node->regions()) self(self, body);
      }
    };
    visit(visit, graph_.top());
  }

  static std::vector<Value*> valuesOf(Node* node) {
    std::vector<Value*> out(node->region()->parameters().begin(), node->region()->parameters().end());
    for (size_t i = 0; i < node->resultCount(); ++i) out.push_back(node->result(i));
    return out;
  }

  // Of the node and of everything in its regions.
  static std::vector<Value*> operandsOf(Node* node) {
    std::vector<Value*> out;
    auto visit = [&](auto&& self, Node* at) -> void {
      for (const Use& use : at->operands()) out.push_back(use.value);
      for (Region* body : at->regions()) {
        for (Node* inner = body->first(); inner; inner = inner->next()) self(self, inner);
      }
    };
    visit(visit, node);
    return out;
  }

  static std::vector<Value*> visibleBefore(Node* node) {
    std::vector<Value*> out;
    for (Node* at = node; at; at = at->region()->owner()) {
      out.insert(out.end(), at->region()->parameters().begin(), at->region()->parameters().end());
      for (Node* before = at->prev(); before; before = before->prev()) {
        for (size_t i = 0; i < before->resultCount(); ++i) out.push_back(before->result(i));
      }
    }
    return out;
  }

  // By a value of the same kind, so that arguments still fit their schema.
  void replaceUses(Node* node, Value* value) {
    std::vector<Value*> fitting;
    for (Value* other : visibleBefore(node)) {
      if (other->type()->kind == value->type()->kind) fitting.push_back(other);
    }
    if (!fitting.empty()) graph_.replaceAllUses(value, random_.pick(fitting));
  }

  Graph& graph_;
  Random random_;
  RandomGraph generator_;
  std::vector<Node*> nodes_;
  size_t names_ = 0;
};

void expectValid(const Graph& graph, uint64_t seed) {
  std::vector<Diagnostic> found = verify(graph);
  ASSERT_TRUE(found.empty()) << "seed " << seed << ": " << found[0].message << '\n' << print(graph);
}

TEST(FuzzRollback, EditsAreUndone) {
  for (uint64_t seed = 0; seed < 400 * fuzzFactor(); ++seed) {
    std::unique_ptr<Graph> graph = RandomGraph(seed, 3 + seed % 12).make();
    std::string before = snapshot(*graph);
    auto checkpoint = graph->checkpoint();
    Editor editor(*graph, seed + 1);
    for (uint64_t i = 0; i < 5 + seed % 60; ++i) editor.edit();
    expectValid(*graph, seed);
    if (HasFatalFailure()) return;
    graph->rollback(checkpoint);
    ASSERT_EQ(snapshot(*graph), before) << "seed " << seed;
    expectValid(*graph, seed);
    if (HasFatalFailure()) return;
  }
}

// Checkpoints in checkpoints, each rolled back or committed.
TEST(FuzzRollback, CheckpointsNest) {
  for (uint64_t seed = 0; seed < 150 * fuzzFactor(); ++seed) {
    std::unique_ptr<Graph> graph = RandomGraph(seed, 3 + seed % 12).make();
    Editor editor(*graph, seed + 1);
    Random random(seed + 2);
    auto nest = [&](auto&& self, int depth) -> void {
      std::string before = snapshot(*graph);
      auto checkpoint = graph->checkpoint();
      for (size_t i = 1 + random.below(4); i > 0; --i) {
        for (size_t edits = random.below(8); edits > 0; --edits) editor.edit();
        if (depth < 4) self(self, depth + 1);
        if (HasFatalFailure()) return;
      }
      if (random.chance(50)) {
        std::string kept = snapshot(*graph);
        graph->commit(checkpoint);
        ASSERT_EQ(snapshot(*graph), kept) << "seed " << seed;
      } else {
        graph->rollback(checkpoint);
        ASSERT_EQ(snapshot(*graph), before) << "seed " << seed;
      }
    };
    nest(nest, 0);
    if (HasFatalFailure()) return;
    expectValid(*graph, seed);
    if (HasFatalFailure()) return;
  }
}

// As a body is recorded: its node gets a place, arguments and results last.
TEST(Rollback, OfANodeThatGetsItsResultsLast) {
  std::unique_ptr<Graph> graph = RandomGraph(5, 8).make();
  std::string before = snapshot(*graph);
  Node* end = graph->top()->terminator();
  const Type* number = graph->context().types().plain(TypeKind::Int);
  for (bool kept : {false, true}) {
    Graph::Checkpoint checkpoint = graph->checkpoint();
    Node* node = graph->create(graph->context().op("test::body"), {}, {}, 1);
    const Arg inner[] = {Arg::value(graph->addParameter(node->regions()[0], number))};
    graph->appendReturn(node->regions()[0], inner);
    const Arg args[] = {Arg::integer(3)};
    graph->setArgs(node, args);
    graph->addResults(node, {&number, 1});
    graph->insertBefore(graph->top(), end, node);
    EXPECT_EQ(node->result()->def(), node);
    expectValid(*graph, 5);
    if (kept) {
      graph->commit(checkpoint);
      EXPECT_DEATH(graph->addResults(node, {&number, 1}), "has results already");
    } else {
      graph->rollback(checkpoint);
      EXPECT_EQ(snapshot(*graph), before);
    }
  }
}

TEST(Rollback, AnOuterCheckpointEndsInnerOnes) {
  std::unique_ptr<Graph> graph = RandomGraph(3, 8).make();
  std::string before = snapshot(*graph);
  Editor editor(*graph, 4);
  auto outer = graph->checkpoint();
  for (int i = 0; i < 10; ++i) editor.edit();
  auto inner = graph->checkpoint();
  for (int i = 0; i < 10; ++i) editor.edit();
  graph->rollback(outer);
  EXPECT_EQ(snapshot(*graph), before);
  EXPECT_DEATH(graph->rollback(inner), "has ended already");
}

}  // namespace
}  // namespace saker::ir::testing
