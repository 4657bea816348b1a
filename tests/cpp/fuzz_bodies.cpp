// Random programs with branches and loops that write what is around them: made functional, and simplified, they compute
// what they computed before, leave the same in their inputs and return tensors that share memory as before.
#include "ir/clone.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "memory_machine.h"
#include "passes/pass.h"
#include "random_graph.h"

namespace saker::passes {
namespace {

using ir::Arg;
using ir::Value;
using saker::testing::MemoryMachine;
using Thing = MemoryMachine::Thing;

class RandomBodies {
 public:
  explicit RandomBodies(uint64_t seed) : random_(seed) {}

  std::unique_ptr<ir::Graph> make() {
    graph_ = std::make_unique<ir::Graph>(std::make_shared<ir::Context>(ops::lookup));
    full_ = type(4, 0);
    std::vector<Value*> tensors;
    for (int i = 0; i < 2; ++i) tensors.push_back(graph_->addParameter(graph_->top(), full_));
    for (ir::TypeKind kind : {ir::TypeKind::Bool, ir::TypeKind::Int}) {
      numbers_.push_back(graph_->addParameter(graph_->top(), graph_->context().types().plain(kind)));
    }
    fill(graph_->top(), tensors, 0);
    std::vector<Arg> returned;
    for (size_t i = 1 + random_.below(3); i > 0; --i) returned.push_back(Arg::value(random_.pick(tensors)));
    graph_->appendReturn(graph_->top(), returned);
    return std::move(graph_);
  }

 private:
  const ir::Type* type(int64_t size, int64_t offset) {
    ir::TensorSpec spec;
    spec.sizes = {size};
    spec.strides = {1};
    spec.offset = offset;
    return graph_->context().types().tensor(spec);
  }

  void fill(ir::Region* region, std::vector<Value*>& tensors, int depth) {
    for (size_t i = 2 + random_.below(4); i > 0; --i) {
      size_t kind = random_.below(depth < 2 ? 10 : 7);
      if (kind < 3) {
        static constexpr const char* kFresh[] = {"aten::sin", "aten::exp", "aten::clone"};
        call(region, tensors, kFresh[random_.below(3)], {pick(tensors)});
      } else if (kind < 5) {
        Value* into = random_.pick(tensors);
        Value* other = ofSize(tensors, into);
        call(region, tensors, random_.chance(50) ? "aten::add_.Tensor" : "aten::mul_.Tensor",
             {Arg::value(into), Arg::value(other)});
      } else if (kind == 5) {
        call(region, tensors, random_.chance(50) ? "aten::sin_" : "aten::exp_", {pick(tensors)});
      } else if (kind == 6) {
        slice(region, tensors);
      } else if (kind == 7) {
        loop(region, tensors, depth);
      } else {
        branch(region, tensors, depth);
      }
    }
  }

  Arg pick(const std::vector<Value*>& tensors) { return Arg::value(random_.pick(tensors)); }
  Value* ofSize(const std::vector<Value*>& tensors, const Value* like) {
    std::vector<Value*> fitting;
    for (Value* value : tensors) {
      if (value->tensor()->size(0).same(like->tensor()->size(0))) fitting.push_back(value);
    }
    return random_.pick(fitting);
  }

  void call(ir::Region* region, std::vector<Value*>& tensors, std::string_view name, std::vector<Arg> args) {
    const ops::Operator* op = ops::find(name);
    while (args.size() < op->parsed.arguments.size()) args.push_back(*op->parsed.arguments[args.size()].defaultValue);
    const ir::TensorType* like = args[0].toValue()->tensor();
    const ir::Type* result = op->writes ? like : type(like->size(0).constant(), 0);
    tensors.push_back(graph_->append(region, op, args, {&result, 1})->result());
  }

  void slice(ir::Region* region, std::vector<Value*>& tensors) {
    Value* of = random_.pick(tensors);
    int64_t size = of->tensor()->size(0).constant();
    if (size < 2) return;
    int64_t start = static_cast<int64_t>(random_.below(2)), end = start + size / 2;
    Arg args[] = {Arg::value(of), Arg::integer(0), Arg::integer(start), Arg::integer(end), Arg::integer(1)};
    const ir::Type* result = type(end - start, of->tensor()->offset.constant() + start);
    tensors.push_back(graph_->append(region, ops::find("aten::slice.Tensor"), args, {&result, 1})->result());
  }

  // Tensors of one type in a body, some of them from outside; nothing where there is none.
  Value* wholeOf(const std::vector<Value*>& tensors) {
    std::vector<Value*> whole;
    for (Value* value : tensors) {
      if (value->type() == full_) whole.push_back(value);
    }
    return random_.pick(whole);
  }

  void branch(ir::Region* region, std::vector<Value*>& tensors, int depth) {
    size_t count = random_.below(3), given = random_.below(2);
    std::vector<Arg> args = {Arg::value(numbers_[0])};
    if (random_.chance(15)) args[0] = Arg::boolean(random_.chance(50));
    for (size_t i = 0; i < given; ++i) args.push_back(Arg::value(wholeOf(tensors)));
    std::vector<const ir::Type*> results(count, full_);
    ir::Node* node = graph_->create(ops::find("saker::if"), args, results, 2);
    graph_->append(region, node);
    for (ir::Region* body : node->regions()) {
      std::vector<Value*> inside = tensors;
      for (size_t i = 0; i < given; ++i) inside.push_back(graph_->addParameter(body, full_));
      fill(body, inside, depth + 1);
      std::vector<Arg> returned;
      for (size_t i = 0; i < count; ++i) returned.push_back(Arg::value(wholeOf(inside)));
      graph_->appendReturn(body, returned);
    }
    for (size_t i = 0; i < count; ++i) tensors.push_back(node->result(i));
  }

  void loop(ir::Region* region, std::vector<Value*>& tensors, int depth) {
    size_t count = random_.below(3);
    std::vector<Arg> args = {
        random_.chance(50) ? Arg::value(numbers_[1]) : Arg::integer(static_cast<int64_t>(random_.below(3))),
        Arg::boolean(true)};
    for (size_t i = 0; i < count; ++i) args.push_back(Arg::value(wholeOf(tensors)));
    std::vector<const ir::Type*> results(count, full_);
    ir::Node* node = graph_->create(ops::find("saker::loop"), args, results, 1);
    graph_->append(region, node);
    ir::Region* body = node->regions()[0];
    graph_->addParameter(body, graph_->context().types().plain(ir::TypeKind::Int));
    std::vector<Value*> inside = tensors;
    for (size_t i = 0; i < count; ++i) inside.push_back(graph_->addParameter(body, full_));
    fill(body, inside, depth + 1);
    std::vector<Arg> returned = {Arg::boolean(!random_.chance(20))};
    for (size_t i = 0; i < count; ++i) {
      bool passesOn = random_.chance(40);
      returned.push_back(Arg::value(passesOn ? body->parameters()[i + 1] : wholeOf(inside)));
    }
    graph_->appendReturn(body, returned);
    for (size_t i = 0; i < count; ++i) tensors.push_back(node->result(i));
  }

  ir::testing::Random random_;
  std::unique_ptr<ir::Graph> graph_;
  const ir::Type* full_ = nullptr;
  std::vector<Value*> numbers_;
};

// What a run returns, and what is in the inputs afterwards.
std::string outcome(const ir::Graph& graph, bool condition, int64_t trips) {
  std::vector<Thing> inputs = {MemoryMachine::fresh(4, 10), MemoryMachine::fresh(4, 20), {{}, condition}, {{}, trips}};
  std::vector<Thing> all = MemoryMachine().run(graph, inputs);
  all.insert(all.begin(), inputs.begin(), inputs.end());
  return saker::testing::textOf(all);
}

void expectSame(const ir::Graph& before, const ir::Graph& after, uint64_t seed) {
  for (bool condition : {false, true}) {
    for (int64_t trips : {0, 1, 3}) {
      ASSERT_EQ(outcome(before, condition, trips), outcome(after, condition, trips))
          << "seed " << seed << ", condition " << condition << ", trips " << trips << "\n"
          << ir::print(before) << ir::print(after);
    }
  }
}

bool writesInBody(const ir::Region* region, bool inside) {
  for (const ir::Node* node = region->first(); node; node = node->next()) {
    if (inside && ops::of(node) && ops::of(node)->writes) return true;
    for (const ir::Region* body : node->regions()) {
      if (writesInBody(body, true)) return true;
    }
  }
  return false;
}

TEST(FuzzBodies, FunctionalProgramsDoWhatTheyDid) {
  size_t done = 0, refused = 0, wrote = 0;
  for (uint64_t seed = 0; seed < 3000 * ir::testing::fuzzFactor(); ++seed) {
    std::unique_ptr<ir::Graph> graph = RandomBodies(seed).make();
    std::vector<ir::Diagnostic> found = ir::verify(*graph);
    ASSERT_TRUE(found.empty()) << found[0].message << '\n' << ir::print(*graph);
    std::unique_ptr<ir::Graph> made = ir::clone(*graph);
    std::string text = ir::print(*made);
    bool writes = writesInBody(made->top(), false);
    RunResult result = run(*made, "functionalize", {.verify = true});
    if (!result.ok()) {
      ++refused;
      ASSERT_EQ(ir::print(*made), text) << "a refusal leaves the graph as it was";
      continue;
    }
    ++done;
    wrote += writes;
    EXPECT_FALSE(writesInBody(made->top(), false)) << ir::print(*made);
    ASSERT_NO_FATAL_FAILURE(expectSame(*graph, *made, seed));
    result = run(*made, "simplify-control-flow,cse,dce,simplify-views,remove-noops,functionalize", {.verify = true});
    ASSERT_TRUE(result.ok()) << *result.error << '\n' << text;
    ASSERT_NO_FATAL_FAILURE(expectSame(*graph, *made, seed));
  }
  EXPECT_GT(done, 500u) << refused << " were refused";
  EXPECT_GT(wrote, 200u);
}

// Passes on programs as they were recorded, writes and all.
TEST(FuzzBodies, SimplifiedProgramsDoWhatTheyDid) {
  for (uint64_t seed = 0; seed < 3000 * ir::testing::fuzzFactor(); ++seed) {
    std::unique_ptr<ir::Graph> graph = RandomBodies(seed).make();
    for (const char* passes : {"cse", "dce", "simplify-control-flow", "remove-noops", "simplify-views",
                               "simplify-control-flow,cse,dce,simplify-control-flow,dce"}) {
      std::unique_ptr<ir::Graph> made = ir::clone(*graph);
      RunResult result = run(*made, passes, {.verify = true});
      ASSERT_TRUE(result.ok()) << *result.error;
      SCOPED_TRACE(passes);
      ASSERT_NO_FATAL_FAILURE(expectSame(*graph, *made, seed));
    }
  }
}

}  // namespace
}  // namespace saker::passes
