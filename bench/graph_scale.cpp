// How the steps on a graph scale with its size: milliseconds and nanoseconds per node, the median of several runs.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "ops/operator.h"
#include "passes/pass.h"
#include "support/check.h"

namespace {

using namespace saker;

// Of this thread's processor time: other programs on the machine do not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// A program as capture gives it: operators of one and two tensors on what was computed recently, some twice, some for
// nothing, with symbolic sizes and source locations.
std::unique_ptr<ir::Graph> build(size_t nodes) {
  auto context = std::make_shared<ir::Context>(ops::lookup);
  auto graph = std::make_unique<ir::Graph>(context);
  ir::Int rows = context->symbols().symbol("s0");
  const ir::Type* types[4];
  for (int i = 0; i < 4; ++i) {
    ir::TensorSpec spec;
    spec.sizes = {rows, 64 << i};
    types[i] = context->types().tensor(spec);
  }
  const ir::OpDef* binary[] = {context->op("aten::add.Tensor"), context->op("aten::mul.Tensor")};
  const ir::OpDef* unary[] = {context->op("aten::exp"), context->op("aten::sin"), context->op("aten::tanh")};
  std::vector<ir::Value*> recent;
  for (const ir::Type* type : types) recent.push_back(graph->addParameter(graph->top(), type));
  uint64_t state = 1;
  for (size_t i = 0; i + 1 < nodes; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    uint64_t bits = state >> 33;
    ir::Value* a = recent[bits % recent.size()];
    ir::Value* b = recent[(bits >> 8) % recent.size()];
    const ir::Location* location = context->location("model.py", static_cast<int>(i % 500), "forward");
    ir::Node* node;
    if (bits & 1 << 20) {
      ir::Arg args[] = {ir::Arg::value(a), ir::Arg::value(b), ir::Arg::integer(1)};
      bool isAdd = bits & 1 << 21;
      node = graph->append(graph->top(), binary[!isAdd], {args, isAdd ? 3u : 2u}, {&types[i % 4], 1}, location);
    } else {
      ir::Arg args[] = {ir::Arg::value(a)};
      node = graph->append(graph->top(), unary[(bits >> 16) % 3], args, {&types[i % 4], 1}, location);
    }
    if (recent.size() < 16) {
      recent.push_back(node->result());
    } else {
      recent[i % 16] = node->result();
    }
  }
  ir::Arg result[] = {ir::Arg::value(recent.back())};
  graph->appendReturn(graph->top(), result);
  return graph;
}

}  // namespace

int main() {
  constexpr const char* kSteps[] = {"build", "print", "parse", "verify", "dce", "cse"};
  std::printf("%-8s", "nodes");
  for (const char* step : kSteps) std::printf("%18s", step);
  std::printf("\n");
  for (size_t nodes : {1000, 10000, 100000, 1000000}) {
    std::vector<double> times[6];
    int runs = nodes >= 1000000 ? 3 : nodes >= 100000 ? 7 : 21;
    for (int run = 0; run < runs; ++run) {
      double t0 = now();
      std::unique_ptr<ir::Graph> graph = build(nodes);
      double t1 = now();
      std::string text = ir::print(*graph);
      double t2 = now();
      ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
      double t3 = now();
      SAKER_CHECK(parsed.ok(), "the text of a graph parses");
      parsed.graph.reset();
      double t4 = now();
      std::vector<ir::Diagnostic> found = ir::verify(*graph);
      double t5 = now();
      SAKER_CHECK(found.empty(), "the graph is valid");
      passes::eliminateCommonSubexpressions(*graph);
      double t6 = now();
      passes::eliminateDeadCode(*graph);
      double t7 = now();
      double steps[] = {t1 - t0, t2 - t1, t3 - t2, t5 - t4, t7 - t6, t6 - t5};
      for (int i = 0; i < 6; ++i) times[i].push_back(steps[i]);
    }
    std::printf("%-8zu", nodes);
    for (const std::vector<double>& step : times) {
      double time = median(step);
      std::printf("%8.2f ms%4.0f ns", time, time * 1e6 / static_cast<double>(nodes));
    }
    std::printf("\n");
  }
  return 0;
}
