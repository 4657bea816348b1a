// How functionalize scales with the number of writes and views: milliseconds and nanoseconds per recorded node.
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>

#include "ops/builder.h"
#include "passes/pass.h"
#include "support/check.h"

namespace {

using namespace saker;
using ir::Arg;
using ir::Value;

// Of this thread's processor time: other programs on the machine do not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

using Body = std::function<void(ops::Builder& build, Value* input, size_t nodes)>;

// One root, written through a fresh view each time, and read.
void viewsAndWrites(ops::Builder& build, Value* x, size_t nodes) {
  for (size_t i = 0; i < nodes / 3; ++i) {
    Value* row = build.call("aten::select.int", {Arg::value(x), Arg::integer(0), Arg::integer(int64_t(i % 8))});
    build.call("aten::add_.Tensor", {Arg::value(row), Arg::integer(1), Arg::integer(1)});
    build.call("aten::exp", {Arg::value(row)});
  }
}

// Rows of one tensor, all made at once, each written and read.
void rows(ops::Builder& build, Value*, size_t nodes) {
  Arg sizes[] = {Arg::integer(int64_t(nodes / 2)), Arg::integer(4)};
  Value* x = build.call("aten::zeros", {Arg::list(sizes), Arg(), Arg(), Arg(), Arg()});
  Value* first = build.call("aten::unbind.int", {Arg::value(x), Arg::integer(0)});
  for (size_t i = 0; i < nodes / 2; ++i) {
    Value* row = first->def()->result(i);
    build.call("aten::add_.Tensor", {Arg::value(row), Arg::integer(1), Arg::integer(1)});
    build.call("aten::exp", {Arg::value(row)});
  }
}

// Many views of one root, a write to it, all of them read.
void manyViews(ops::Builder& build, Value* x, size_t nodes) {
  std::vector<Value*> views;
  for (size_t i = 0; i < nodes / 2; ++i) {
    views.push_back(build.call("aten::select.int", {Arg::value(x), Arg::integer(0), Arg::integer(int64_t(i % 8))}));
  }
  build.call("aten::add_.Tensor", {Arg::value(x), Arg::integer(1), Arg::integer(1)});
  for (Value* view : views) build.call("aten::exp", {Arg::value(view)});
}

// Nothing is written but at the start: what a model's forward looks like.
void values(ops::Builder& build, Value* x, size_t nodes) {
  build.call("aten::add_.Tensor", {Arg::value(x), Arg::integer(1), Arg::integer(1)});
  for (size_t i = 1; i < nodes; ++i) x = build.call("aten::exp", {Arg::value(x)});
}

void measure(const char* name, const Body& body) {
  std::printf("%-34s", name);
  for (size_t nodes : {1000, 10000, 100000}) {
    auto context = std::make_shared<ir::Context>(ops::lookup);
    ir::Graph graph(context);
    ir::TensorSpec spec;
    spec.sizes = {8, 4};
    spec.strides = {4, 1};
    Value* x = graph.addParameter(graph.top(), context->types().tensor(spec));
    ops::Builder build(graph, graph.top(), nullptr);
    body(build, x, nodes);
    Arg returned[] = {Arg::value(x)};
    graph.appendReturn(graph.top(), returned);
    size_t recorded = graph.liveNodes();
    double start = now();
    passes::Failure failure = passes::functionalize(graph);
    double time = now() - start;
    SAKER_CHECK(!failure, "a benchmark's program can be made functional");
    std::printf("  %7zu nodes %8.2f ms %5.0f ns", recorded, time, time * 1e6 / static_cast<double>(recorded));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  saker::ops::find("aten::add_.Tensor");  // the table is made once, not here
  std::printf("functionalize\n");
  measure("  once, to fill caches", values);
  measure("  values only", values);
  measure("  a view, a write to it, a read", viewsAndWrites);
  measure("  rows of one tensor, each written", rows);
  measure("  many views, one write", manyViews);
}
