#include "control/loop_as_scans.h"

#include <ATen/ops/repeat_interleave.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "ir/clone.h"

namespace saker::control {

namespace {

using tracing::ClosedBodies;
using Bodies = c10::intrusive_ptr<ClosedBodies>;
using Kind = ClosedBodies::Kind;
using Tensors = std::vector<at::Tensor>;

// In the keys of what is derived from bodies: other numbers than those of derivatives.
constexpr int64_t kForth = 16, kBack = 17;

const ir::TensorType* scalarOf(ir::Context& context, ir::DType dtype) {
  ir::TensorSpec spec;
  spec.dtype = dtype;
  tracing::makeRowMajor(spec);
  return context.types().tensor(spec);
}

Bodies scanOf(const ClosedBodies& bodies, std::unique_ptr<ir::Graph> graph, size_t carried, size_t sliced,
              bool reverse) {
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  graphs.push_back(std::move(graph));
  ClosedBodies::Shape shape;
  shape.carried = carried;
  shape.sliced = sliced;
  shape.reverse = reverse;
  return c10::make_intrusive<ClosedBodies>(Kind::Scan, std::move(graphs), bodies.objects(), shape);
}

// (carried..., a slice that nothing reads, closed...) -> (carried..., what steps keep..., what they were given...)
Bodies forth(const ClosedBodies& bodies) {
  return bodies.derived(std::vector<int64_t>{kForth}, [&]() -> Bodies {
    const ir::Graph& step = *bodies.graphs()[1];
    size_t carried = bodies.carried();
    auto made = std::make_unique<ir::Graph>(bodies.context(), "step");
    std::vector<ir::Value*> values(step.valueLimit());
    std::vector<ir::Arg> given;
    std::span<ir::Value* const> parameters = step.top()->parameters();
    auto countRow = [&] { made->addParameter(made->top(), scalarOf(*bodies.context(), ir::DType::Int64)); };
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (i == carried) countRow();
      ir::Value* parameter = made->addParameter(made->top(), parameters[i]->type(), parameters[i]->name());
      values[parameters[i]->id()] = parameter;
      if (i < carried) given.push_back(ir::Arg::value(parameter));
    }
    if (parameters.size() == carried) countRow();
    ir::copyNodes(step, *step.top(), *made, made->top(), std::move(values));
    ir::Node* end = made->top()->terminator();
    std::vector<ir::Arg> returned(end->args().begin(), end->args().end());
    returned.insert(returned.end(), given.begin(), given.end());
    made->setArgs(end, returned);
    return scanOf(bodies, std::move(made), carried, 1, /*reverse=*/false);
  });
}

// (flowing..., slices of what was kept and carried..., closed...) -> flowing...
Bodies back(const ClosedBodies& bodies) {
  return bodies.derived(std::vector<int64_t>{kBack}, [&]() -> Bodies {
    size_t kept = bodies.shape().kept, flowing = bodies.shape().flowing;
    std::vector<size_t> order(bodies.main().top()->parameters().size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept),
                order.begin() + static_cast<std::ptrdiff_t>(kept + flowing));
    return scanOf(bodies, ir::clone(bodies.main(), order), flowing, kept + bodies.carried(), /*reverse=*/true);
  });
}

void add(Tensors& to, std::span<const at::Tensor> tensors) { to.insert(to.end(), tensors.begin(), tensors.end()); }

// The loop again, as a scan that gives besides what it carried into each step.
Tensors runForth(const ClosedBodies& bodies, std::span<const at::Tensor> carried, std::span<const at::Tensor> closed,
                 const at::Tensor& history) {
  Tensors given;
  add(given, carried);
  given.push_back(at::repeat_interleave(history));  // as many numbers as the loop took steps: they are not read
  add(given, closed);
  return tracing::callBodies(given, forth(bodies));
}

}  // namespace

Tensors loopAsScan(const ClosedBodies& bodies, const Tensors& operands, const at::Tensor& history) {
  std::span<const at::Tensor> all(operands);
  Tensors found = runForth(bodies, all.first(bodies.carried()), all.subspan(bodies.carried()), history);
  found.resize(bodies.carried());
  return found;
}

Tensors wayBackAsScans(const ClosedBodies& bodies, const Tensors& operands) {
  size_t carried = bodies.carried(), flowing = bodies.shape().flowing;
  std::span<const at::Tensor> all(operands);
  std::span<const at::Tensor> closed = all.subspan(carried, all.size() - carried - flowing - 1);
  Tensors found = runForth(bodies, all.first(carried), closed, all.back()), given;
  add(given, all.subspan(all.size() - flowing - 1, flowing));
  add(given, std::span(found).subspan(carried));
  add(given, closed);
  return tracing::callBodies(given, back(bodies));
}

}  // namespace saker::control
