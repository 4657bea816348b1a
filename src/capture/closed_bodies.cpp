#include "capture/closed_bodies.h"

#include <ATen/ops/copy.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "aten/convert.h"
#include "aten/trace_key.h"
#include "ir/clone.h"
#include "ops/control_flow.h"
#include "ops/effects.h"
#include "ops/operator.h"
#include "passes/bodies.h"
#include "passes/stages.h"
#include "support/check.h"

namespace saker::tracing {

namespace {

using Kind = ClosedBodies::Kind;

// One more dimension in front, and nothing between the elements.
const ir::TensorType* stacked(ir::Context& context, const ir::TensorType& row, sym::Int rows) {
  ir::TensorSpec spec(row);
  spec.sizes.insert(0, rows);
  spec.strides.insert(0, sym::Int(1));
  makeRowMajor(spec);
  return context.types().tensor(spec);
}

std::vector<ir::Value*> valuesIn(const ir::Arg& list) {
  std::vector<ir::Value*> out;
  for (const ir::Arg& item : list.toList()) out.push_back(item.toValue());
  return out;
}

void addAll(std::vector<ir::Value*>& to, const ir::Arg& list) {
  for (ir::Value* value : valuesIn(list)) to.push_back(value);
}

}  // namespace

const ir::OpDef* ClosedBodies::operatorOf(Kind kind) {
  static const ops::Operator* const rows[] = {ops::find("saker::if"), ops::find("saker::while"),
                                              ops::find("saker::scan")};
  return rows[static_cast<size_t>(kind)];
}

void makeRowMajor(ir::TensorSpec& spec) {
  spec.strides = ir::contiguousStrides(spec.sizes);
  spec.offset = sym::Int(0);
}

ClosedBodies::ClosedBodies(Kind kind, std::vector<std::unique_ptr<ir::Graph>> graphs, std::vector<c10::IValue> objects,
                           size_t carried, size_t sliced, bool reverse)
    : kind_(kind),
      graphs_(std::move(graphs)),
      objects_(std::move(objects)),
      carried_(carried),
      sliced_(sliced),
      reverse_(reverse) {}

c10::intrusive_ptr<ClosedBodies> ClosedBodies::ofNode(const ir::Node& node, const std::vector<c10::IValue>& objects,
                                                      std::vector<ir::Value*>& operands) {
  Kind kind = ops::isIf(node) ? Kind::If : ops::isWhile(node) ? Kind::While : Kind::Scan;
  SAKER_CHECK(kind != Kind::Scan || ops::isScan(node), "bodies of an operator that no program calls");
  operands.clear();
  size_t carried = 0, sliced = 0;
  if (kind == Kind::If) {
    for (const ir::Arg& arg : node.args()) operands.push_back(arg.toValue());
  } else if (kind == Kind::While) {
    carried = node.arg(ops::kWhileCarried).toList().size();
    for (const ir::Arg& list : node.args()) addAll(operands, list);
  } else {
    carried = node.arg(ops::kScanCarried).toList().size();
    sliced = node.arg(ops::kScanSliced).toList().size();
    for (size_t i = ops::kScanCarried; i <= ops::kScanClosed; ++i) addAll(operands, node.arg(i));
  }
  std::vector<ir::Value*> outer;
  std::vector<std::unique_ptr<ir::Graph>> graphs = passes::closed(node, *node.regions()[0]->graph(), outer);
  operands.insert(operands.end(), outer.begin(), outer.end());
  bool reverse = kind == Kind::Scan && node.arg(ops::kScanReverse).toBool();
  return c10::make_intrusive<ClosedBodies>(kind, std::move(graphs), objects, carried, sliced, reverse);
}

bool ClosedBodies::isRandom() const {
  for (const std::unique_ptr<ir::Graph>& graph : graphs_) {
    for (const ir::Node* node = graph->top()->first(); node && !node->isReturn(); node = node->next()) {
      ops::Effects effects = ops::effectsOf(*node);
      if (effects.unknown || (effects.traits & ops::kRandom)) return true;
    }
  }
  return false;
}

std::vector<const ir::Type*> ClosedBodies::resultTypes(std::span<ir::Value* const> operands) const {
  std::vector<const ir::Type*> types;
  for (const ir::Arg& arg : main().top()->terminator()->args()) {
    const ir::TensorType& type = *arg.toValue()->tensor();
    bool row = kind_ == Kind::Scan && types.size() >= carried_;
    types.push_back(row ? stacked(*context(), type, operands[carried_]->tensor()->size(0)) : &type);
  }
  return types;
}

ir::Node* ClosedBodies::append(ir::Graph& graph, ir::Region* region, std::span<ir::Value* const> operands,
                               ir::Origin origin) const {
  SAKER_CHECK(graph.sharedContext() == context(), "bodies of another context");
  std::vector<ir::Arg> items, args;
  for (ir::Value* operand : operands) items.push_back(ir::Arg::value(operand));
  std::span<const ir::Arg> all(items);
  if (kind_ == Kind::If) {
    args = items;
  } else if (kind_ == Kind::While) {
    args = {ir::Arg::list(all.first(carried_)), ir::Arg::list(all.subspan(carried_))};
  } else {
    args = {ir::Arg::boolean(reverse_), ir::Arg::list(all.first(carried_)),
            ir::Arg::list(all.subspan(carried_, sliced_)), ir::Arg::list(all.subspan(carried_ + sliced_))};
  }
  std::vector<const ir::Type*> types = resultTypes(operands);
  ir::Node* node = graph.create(operatorOf(kind_), args, types, graphs_.size(), origin);
  for (size_t i = 0; i < graphs_.size(); ++i) {
    const ir::Graph& from = *graphs_[i];
    ir::Region* body = node->regions()[i];
    std::vector<ir::Value*> values(from.valueLimit());
    for (const ir::Value* parameter : from.top()->parameters()) {
      values[parameter->id()] = graph.addParameter(body, parameter->type(), parameter->name());
    }
    ir::copyNodes(from, *from.top(), graph, body, std::move(values));
  }
  graph.append(region, node);
  return node;
}

// A graph with this node alone.
const runtime::Executable& ClosedBodies::executable(const std::vector<at::Tensor>& operands) const {
  int64_t trips = kind_ == Kind::Scan ? operands[carried_].size(0) : 0;
  std::lock_guard held(lock_);
  Runnable& found = runnable_[trips];
  if (found.executable) return *found.executable;
  found.graph = std::make_unique<ir::Graph>(context(), "bodies");
  ir::Graph& graph = *found.graph;
  Arena scratch;
  aten::Converter converter(*context(), scratch, {});
  std::vector<ir::Value*> values;
  for (const at::Tensor& operand : operands) {
    ir::TensorSpec spec(*converter.tensor(operand));
    spec.flags.requiresGrad = spec.flags.wrappedNumber = false;
    values.push_back(graph.addParameter(graph.top(), context()->types().tensor(spec)));
  }
  ir::Node* node = append(graph, graph.top(), values);
  std::vector<ir::Arg> returned;
  for (size_t i = 0; i < node->resultCount(); ++i) returned.push_back(ir::Arg::value(node->result(i)));
  graph.appendReturn(graph.top(), returned);
  passes::Stages().run(passes::Stage::Simplify, "bodies", graph, passes::kSimplifyKeepingCopies);
  found.executable = std::make_unique<runtime::Executable>(graph, objects_, runtime::Executable::Views::Direct);
  return *found.executable;
}

// Bodies were recorded for parameters of one layout each.
static at::Tensor inLayout(const at::Tensor& tensor, const ir::TensorType& type, size_t skipped) {
  std::vector<int64_t> strides(tensor.strides().begin(),
                               tensor.strides().begin() + static_cast<std::ptrdiff_t>(skipped));
  bool same = true;
  for (size_t i = 0; i < type.rank; ++i) {
    if (!type.stride(i).isConst()) return tensor;
    strides.push_back(type.stride(i).constant());
    auto d = static_cast<int64_t>(i + skipped);
    same &= tensor.size(d) <= 1 || tensor.stride(d) == strides.back();
  }
  if (same) return tensor;
  if (skipped) {  // rows, one behind the other
    int64_t row = 1;
    for (size_t i = 0; i < type.rank; ++i) row += (tensor.size(static_cast<int64_t>(i + 1)) - 1) * strides[i + 1];
    strides[0] = std::max<int64_t>(row, 1);
  }
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

std::vector<at::Tensor> ClosedBodies::run(const std::vector<at::Tensor>& operands) const {
  std::vector<at::Tensor> given = operands;
  std::span<ir::Value* const> parameters = main().top()->parameters();
  size_t first = kind_ == Kind::If ? 1 : 0;
  for (size_t i = first; i < given.size(); ++i) {
    bool slices = kind_ == Kind::Scan && i >= carried_ && i < carried_ + sliced_;
    given[i] = inLayout(given[i], *parameters[i - first]->tensor(), slices);
  }
  return executable(given).run(std::move(given));
}

c10::intrusive_ptr<ClosedBodies> ClosedBodies::derived(
    const std::vector<int64_t>& key, const std::function<c10::intrusive_ptr<ClosedBodies>()>& make) const {
  {
    std::lock_guard held(lock_);
    auto found = derived_.find(key);
    if (found != derived_.end()) return found->second;
  }
  c10::intrusive_ptr<ClosedBodies> made = make();
  std::lock_guard held(lock_);
  return derived_.emplace(key, std::move(made)).first->second;
}

static const c10::OperatorHandle& bodiesOperator() {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("saker::bodies", "");
  return op;
}

c10::intrusive_ptr<ClosedBodies> bodiesOf(const Call& call) {
  if (call.op != bodiesOperator()) return {};
  return call.values[1].toCustomClass<ClosedBodies>();
}

std::vector<at::Tensor> callBodies(const std::vector<at::Tensor>& operands,
                                   const c10::intrusive_ptr<ClosedBodies>& bodies) {
  torch::jit::Stack stack{c10::IValue(operands), c10::IValue(bodies)};
  bodiesOperator().callBoxed(&stack);
  return stack[0].toTensorVector();
}

static std::vector<at::Tensor> runBodies(const std::vector<at::Tensor>& operands,
                                         const c10::intrusive_ptr<ClosedBodies>& bodies) {
  aten::RunForReal real;
  return bodies->run(operands);
}

TORCH_LIBRARY_FRAGMENT(saker, library) {
  library.class_<ClosedBodies>("ClosedBodies");
  library.def("bodies(Tensor[] operands, __torch__.torch.classes.saker.ClosedBodies bodies) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(saker, CompositeExplicitAutograd, library) { library.impl("bodies", &runBodies); }

}  // namespace saker::tracing
