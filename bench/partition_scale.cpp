// How cutting a joint graph scales with its size: milliseconds and nanoseconds per node, and the bytes that are saved.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "autograd/partition.h"
#include "ops/builder.h"
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

struct Made {
  std::unique_ptr<ir::Graph> graph;
  autograd::JointLayout layout;
};

Made start() {
  Made made{std::make_unique<ir::Graph>(std::make_shared<ir::Context>(ops::lookup)), {2, 1, 1}};
  ir::TensorSpec spec;
  spec.sizes = {64, 64};
  spec.strides = {64, 1};
  const ir::Type* type = made.graph->context().types().tensor(spec);
  for (int i = 0; i < 3; ++i) made.graph->addParameter(made.graph->top(), type);
  return made;
}

void finish(Made& made, Value* result, Value* gradient) {
  Arg returned[] = {Arg::value(result), Arg::value(gradient), Arg::none()};
  made.graph->appendReturn(made.graph->top(), returned);
}

// Layers of a residual stream: pointwise chains, products, sums; each layer 14 nodes, 9 of them backward.
Made residual(size_t nodes) {
  Made made = start();
  ops::Builder build(*made.graph, made.graph->top(), nullptr);
  Value* x = made.graph->top()->parameters()[0];
  Arg w = Arg::value(made.graph->top()->parameters()[1]);
  Value* d = made.graph->top()->parameters()[2];
  struct Layer {
    Value *in, *a, *b, *m, *t;
  };
  std::vector<Layer> layers;
  for (size_t i = 0; i < nodes / 14; ++i) {
    Layer layer{.in = x, .a = nullptr, .b = nullptr, .m = nullptr, .t = nullptr};
    layer.a = build.call("aten::sin", {Arg::value(x)});
    layer.b = build.call("aten::exp", {Arg::value(layer.a)});
    layer.m = build.call("aten::mm", {Arg::value(layer.b), w});
    layer.t = build.call("aten::tanh", {Arg::value(layer.m)});
    x = build.call("aten::add.Tensor", {Arg::value(x), Arg::value(layer.t), Arg::integer(1)});
    layers.push_back(layer);
  }
  for (size_t i = layers.size(); i-- > 0;) {
    const Layer& layer = layers[i];
    Value* dm = build.call("aten::tanh_backward", {Arg::value(d), Arg::value(layer.t)});
    Value* wt = build.call("aten::t", {w});
    Value* db = build.call("aten::mm", {Arg::value(dm), Arg::value(wt)});
    Value* bt = build.call("aten::t", {Arg::value(layer.b)});
    Value* dw = build.call("aten::mm", {Arg::value(bt), Arg::value(dm)});
    Value* da = build.call("aten::mul.Tensor", {Arg::value(db), Arg::value(layer.b)});
    Value* c = build.call("aten::cos", {Arg::value(layer.in)});
    Value* dx = build.call("aten::mul.Tensor", {Arg::value(da), Arg::value(c)});
    d = build.call("aten::add.Tensor", {Arg::value(dw), Arg::value(dx), Arg::integer(1)});
  }
  finish(made, x, d);
  return made;
}

// Pointwise operators only, on what was computed recently, and a backward that reads all of it: the network is one
// piece.
Made tangled(size_t nodes) {
  Made made = start();
  ops::Builder build(*made.graph, made.graph->top(), nullptr);
  std::vector<Value*> forward = {made.graph->top()->parameters()[0], made.graph->top()->parameters()[1]};
  Value* d = made.graph->top()->parameters()[2];
  uint64_t state = 1;
  auto recent = [&] {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return Arg::value(forward[forward.size() - 1 - (state >> 33) % std::min<size_t>(forward.size(), 64)]);
  };
  for (size_t i = 0; i < nodes / 2; ++i) {
    Arg a = recent(), b = recent();
    forward.push_back(i % 16 == 0 ? build.call("aten::mm", {a, b}) : build.call("aten::mul.Tensor", {a, b}));
  }
  for (size_t i = forward.size(); i-- > 2;) {
    d = build.call("aten::mul.Tensor", {Arg::value(d), Arg::value(forward[i])});
  }
  finish(made, forward.back(), d);
  return made;
}

void measure(const char* name, Made (*make)(size_t)) {
  for (size_t nodes : {5000, 50000}) {
    Made made = make(nodes);
    std::printf("cut, %-10s %6zu nodes", name, made.graph->liveNodes());
    struct Way {
      const char* name;
      autograd::PartitionOptions options;
    };
    const Way ways[] = {
        {"default", {.strategy = autograd::Strategy::Default}}, {"min-cut", {}}, {"budget 0.5", {.memoryBudget = 0.5}}};
    for (const Way& way : ways) {
      std::vector<double> times;
      uint64_t bytes = 0;
      for (int run = 0; run < 5; ++run) {
        double before = now();
        auto cut = autograd::partition(*made.graph, made.layout, way.options);
        times.push_back(now() - before);
        SAKER_CHECK(std::holds_alternative<autograd::Cut>(cut), "the joint graph is cut");
        bytes = std::get<autograd::Cut>(cut).savedBytes;
      }
      std::sort(times.begin(), times.end());
      std::printf("   %s %.1f ms, %.0f ns a node, %.1f MB", way.name, times[2],
                  times[2] * 1e6 / static_cast<double>(made.graph->liveNodes()), static_cast<double>(bytes) * 1e-6);
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  measure("residual", residual);
  measure("tangled", tangled);
  return 0;
}
