// Joint graphs made at random.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "autograd/partition.h"
#include "ops/builder.h"
#include "random_graph.h"

namespace saker::autograd::testing {

// A program of operators of all classes with symbolic sizes, then a backward that reads any of it.
class RandomJoint {
 public:
  explicit RandomJoint(uint64_t seed) : random_(seed) {}

  std::unique_ptr<ir::Graph> make(JointLayout& layout) {
    auto context = std::make_shared<ir::Context>(ops::lookup);
    auto graph = std::make_unique<ir::Graph>(context);
    ir::Int rows = random_.chance(50) ? context->symbols().symbol("s0", sym::Range::size(), 6) : ir::Int(6);
    ir::TensorSpec spec;
    spec.sizes = {rows, rows};
    spec.strides = {rows, 1};
    const ir::Type* type = context->types().tensor(spec);
    layout.primals = 1 + random_.below(3);
    layout.tangents = 1 + random_.below(2);
    std::vector<ir::Value*> primals, tangents, forward;
    for (size_t i = 0; i < layout.primals; ++i) primals.push_back(graph->addParameter(graph->top(), type));
    for (size_t i = 0; i < layout.tangents; ++i) tangents.push_back(graph->addParameter(graph->top(), type));
    forward = primals;
    ops::Builder build(*graph, graph->top(), nullptr);
    for (size_t i = 2 + random_.below(20); i > 0; --i) step(build, forward, forward);
    std::vector<ir::Arg> returned;
    layout.forwardResults = 1 + random_.below(3);
    for (size_t i = 0; i < layout.forwardResults; ++i) returned.push_back(ir::Arg::value(random_.pick(forward)));
    std::vector<ir::Value*> backward = tangents, all = forward;
    all.insert(all.end(), tangents.begin(), tangents.end());
    for (size_t i = 2 + random_.below(20); i > 0; --i) {
      // Some of it needs no tangent.
      if (random_.chance(25)) {
        step(build, forward, all);
      } else {
        step(build, all, backward);
        all.push_back(backward.back());
      }
    }
    if (random_.chance(30)) {
      ir::Value* now =
          random_.pick(std::vector<ir::Value*>(forward.begin(), forward.begin() + 1 + random_.below(forward.size())));
      build.call("aten::copy_", {ir::Arg::value(random_.pick(primals)), ir::Arg::value(now), ir::Arg::boolean(false)});
    } else if (ir::Value* primal = random_.pick(primals); random_.chance(20) && !isReturned(primal, returned)) {
      ir::Arg now = ir::Arg::value(random_.pick(backward));
      build.call("aten::copy_", {ir::Arg::value(primal), now, ir::Arg::boolean(false)});
    }
    for (size_t i = 0; i < layout.primals; ++i) {
      returned.push_back(random_.chance(10) ? ir::Arg::none() : ir::Arg::value(random_.pick(backward)));
    }
    graph->appendReturn(graph->top(), returned);
    return graph;
  }

 private:
  static bool isReturned(const ir::Value* value, const std::vector<ir::Arg>& returned) {
    return std::any_of(returned.begin(), returned.end(), [&](const ir::Arg& arg) { return arg.toValue() == value; });
  }

  // A branch or a loop; its bodies read one value as an operand, and another one from outside.
  ir::Value* withBodies(ops::Builder& build, ir::Value* a, ir::Value* b) {
    ir::Graph& graph = build.graph();
    bool loops = random_.chance(50);
    std::vector<ir::Arg> args = {ir::Arg::boolean(true), ir::Arg::value(a)};
    if (loops) args.insert(args.begin(), ir::Arg::integer(3));
    const ir::Type* type = a->type();
    ir::Node* node = build.insert(*ops::find(loops ? "saker::loop" : "saker::if"), args, {&type, 1});
    for (size_t bodies = loops ? 1 : 2; bodies > 0; --bodies) {
      ir::Region* body = graph.addRegion(node);
      if (loops) graph.addParameter(body, graph.context().types().plain(ir::TypeKind::Int));
      ir::Value* parameter = graph.addParameter(body, type);
      ops::Builder inside(graph, body, nullptr);
      ir::Value* read = random_.chance(70)
                            ? inside.tryCall("aten::mul.Tensor", {ir::Arg::value(parameter), ir::Arg::value(b)})
                            : nullptr;
      if (!read || read->type() != type) read = parameter;
      std::vector<ir::Arg> returned = {ir::Arg::value(read)};
      if (loops) returned.insert(returned.begin(), ir::Arg::boolean(true));
      graph.appendReturn(body, returned);
    }
    return node->result();
  }

  void step(ops::Builder& build, const std::vector<ir::Value*>& from, std::vector<ir::Value*>& to) {
    ir::Arg a = ir::Arg::value(random_.pick(from)), b = ir::Arg::value(random_.pick(from));
    switch (random_.below(12)) {
      case 10:
      case 11:
        return to.push_back(withBodies(build, a.toValue(), b.toValue()));
      case 0:
        return to.push_back(build.call("aten::mm", {a, b}));
      case 1:
        return to.push_back(build.call("aten::t", {a}));
      case 2: {
        ir::Arg dims[] = {ir::Arg::integer(1)};
        ir::Value* sum =
            build.call("aten::sum.dim_IntList", {a, ir::Arg::list(dims), ir::Arg::boolean(true), ir::Arg::none()});
        return to.push_back(build.call("aten::mul.Tensor", {b, ir::Arg::value(sum)}));
      }
      case 3:
        if (random_.chance(30)) {
          ir::Value* dropped = build.call("aten::native_dropout", {a, ir::Arg::number(0.5), ir::Arg::boolean(true)});
          ir::Arg mask = ir::Arg::value(dropped->def()->result(1));
          to.push_back(dropped);
          return to.push_back(build.call("aten::mul.Tensor", {b, mask}));
        }
        return to.push_back(build.call("aten::zeros_like", {a, ir::Arg(), ir::Arg(), ir::Arg(), ir::Arg(), ir::Arg()}));
      case 4:
      case 5:
        return to.push_back(build.call("aten::mul.Tensor", {a, b}));
      default:
        return to.push_back(build.call(random_.chance(50) ? "aten::sin" : "aten::exp", {a}));
    }
  }

  ir::testing::Random random_;
};

}  // namespace saker::autograd::testing
