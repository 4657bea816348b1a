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

// Of a tensor that keeps the history of a loop.
const ir::TensorType* historyType(ir::Context& context) {
  ir::TensorSpec spec;
  spec.dtype = ir::DType::Int64;
  spec.sizes = ir::Dims{sym::Int(1)};
  makeRowMajor(spec);
  return context.types().tensor(spec);
}

// How many operands come behind those that bodies close over.
size_t behindClosed(Kind kind, const ClosedBodies::Shape& shape) {
  return kind == Kind::WhileBackward ? shape.flowing + shape.history : 0;
}

void addAll(std::vector<ir::Value*>& to, const ir::Arg& list) {
  for (const ir::Arg& item : list.toList()) to.push_back(item.toValue());
}

}  // namespace

const ir::OpDef* ClosedBodies::operatorOf(Kind kind) {
  static const ops::Operator* const rows[] = {ops::find("saker::if"), ops::find("saker::while"),
                                              ops::find("saker::while_backward"), ops::find("saker::scan"),
                                              ops::find("saker::call")};
  return rows[static_cast<size_t>(kind)];
}

void makeRowMajor(ir::TensorSpec& spec) {
  spec.strides = ir::contiguousStrides(spec.sizes);
  spec.offset = sym::Int(0);
}

ClosedBodies::ClosedBodies(Kind kind, std::vector<std::unique_ptr<ir::Graph>> graphs, std::vector<c10::IValue> objects,
                           Shape shape)
    : kind_(kind), graphs_(std::move(graphs)), objects_(std::move(objects)), shape_(shape) {}

c10::intrusive_ptr<ClosedBodies> ClosedBodies::ofNode(const ir::Node& node, const std::vector<c10::IValue>& objects,
                                                      std::vector<ir::Value*>& operands) {
  std::optional<Kind> kind = kindOf(node);
  SAKER_CHECK(kind, "bodies of an operator that no program calls");
  operands.clear();
  Shape shape;
  auto add = [&](size_t argument) {
    addAll(operands, node.arg(argument));
    return node.arg(argument).toList().size();
  };
  switch (*kind) {
    case Kind::If:
    case Kind::Call:
      for (const ir::Arg& arg : node.args()) operands.push_back(arg.toValue());
      break;
    case Kind::While:
      shape.carried = add(ops::kWhileCarried);
      add(ops::kWhileClosed);
      shape.history = node.resultCount() > shape.carried;
      break;
    case Kind::WhileBackward:
      shape.carried = add(ops::kWhileCarried);
      add(ops::kWhileClosed);
      shape.flowing = add(ops::kWhileFlowing);
      shape.history = add(ops::kWhileHistory);
      shape.kept = ops::keptParameters(node);
      break;
    case Kind::Scan:
      shape.reverse = node.arg(ops::kScanReverse).toBool();
      shape.carried = add(ops::kScanCarried);
      shape.sliced = add(ops::kScanSliced);
      add(ops::kScanClosed);
      break;
  }
  std::vector<ir::Value*> outer;
  std::vector<std::unique_ptr<ir::Graph>> graphs = passes::closed(node, *node.regions()[0]->graph(), outer);
  auto closedEnd = operands.end() - static_cast<std::ptrdiff_t>(behindClosed(*kind, shape));
  operands.insert(closedEnd, outer.begin(), outer.end());
  return keptOnce(c10::make_intrusive<ClosedBodies>(*kind, std::move(graphs), objects, shape));
}

std::optional<Kind> ClosedBodies::kindOf(const ir::Node& node) {
  if (ops::isCall(node)) return Kind::Call;
  if (ops::isIf(node)) return Kind::If;
  if (ops::isWhile(node)) return Kind::While;
  if (ops::isWhileBackward(node)) return Kind::WhileBackward;
  if (ops::isScan(node)) return Kind::Scan;
  return std::nullopt;
}

size_t ClosedBodies::resultCount() const {
  if (kind_ == Kind::While) return shape_.carried + shape_.history;
  return main().top()->terminator()->args().size();
}

c10::intrusive_ptr<ClosedBodies> ClosedBodies::reshaped(Shape shape) const {
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  for (const std::unique_ptr<ir::Graph>& graph : graphs_) graphs.push_back(ir::clone(*graph));
  return c10::make_intrusive<ClosedBodies>(kind_, std::move(graphs), objects_, shape);
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
  std::span<const ir::Arg> returned = main().top()->terminator()->args();
  for (const ir::Arg& arg : kind_ == Kind::While ? returned.first(shape_.carried) : returned) {
    const ir::TensorType& type = *arg.toValue()->tensor();
    bool row = kind_ == Kind::Scan && types.size() >= shape_.carried;
    types.push_back(row ? stacked(*context(), type, operands[shape_.carried]->tensor()->size(0)) : &type);
  }
  if (types.size() < resultCount()) types.push_back(historyType(*context()));
  return types;
}

std::vector<ir::Arg> ClosedBodies::arguments(std::span<const ir::Arg> operands) const {
  auto take = [&](size_t count) {
    ir::Arg list = ir::Arg::list(operands.first(count));
    operands = operands.subspan(count);
    return list;
  };
  if (kind_ == Kind::If || kind_ == Kind::Call) return {operands.begin(), operands.end()};
  std::vector<ir::Arg> args;
  if (kind_ == Kind::Scan) args.push_back(ir::Arg::boolean(shape_.reverse));
  args.push_back(take(shape_.carried));
  if (kind_ == Kind::Scan) args.push_back(take(shape_.sliced));
  args.push_back(take(operands.size() - behindClosed(kind_, shape_)));
  if (kind_ != Kind::WhileBackward) return args;
  args.push_back(take(shape_.flowing));
  args.push_back(take(shape_.history));
  return args;
}

ir::Node* ClosedBodies::append(ir::Graph& graph, ir::Region* region, std::span<ir::Value* const> operands,
                               ir::Origin origin) const {
  SAKER_CHECK(graph.sharedContext() == context(), "bodies of another context");
  std::vector<ir::Arg> items;
  for (ir::Value* operand : operands) items.push_back(ir::Arg::value(operand));
  std::vector<ir::Arg> args = arguments(items);
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
const runtime::Executable& ClosedBodies::executable(const std::vector<at::Tensor>& operands, bool conducted) const {
  int64_t trips = kind_ == Kind::Scan ? operands[shape_.carried].size(0) : 0;
  std::lock_guard held(lock_);
  Runnable& found = runnable_[{trips, conducted}];
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
  // Autograd, which follows operators that are conducted, tells a tensor from what it was detached to.
  const char* pipeline = conducted ? "inline-calls" : passes::kSimplifyKeepingCopies;
  passes::Stages().run(passes::Stage::Simplify, "bodies", graph, pipeline);
  using Views = runtime::Executable::Views;
  found.executable = std::make_unique<runtime::Executable>(graph, objects_, conducted ? Views::Called : Views::Direct);
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

// The layout that the bodies were recorded for, of an operand that becomes a parameter.
const ir::TensorType* ClosedBodies::parameterType(size_t operand, size_t operands) const {
  std::span<ir::Value* const> parameters = main().top()->parameters();
  if (kind_ == Kind::If) return operand == 0 ? nullptr : parameters[operand - 1]->tensor();
  if (kind_ == Kind::Call) return parameters[operand]->tensor();
  if (kind_ != Kind::WhileBackward) return parameters[operand]->tensor();
  size_t first = operands - behindClosed(kind_, shape_);  // of what flows
  if (operand < first) return parameters[shape_.kept + shape_.flowing + operand]->tensor();
  return operand - first < shape_.flowing ? parameters[shape_.kept + operand - first]->tensor() : nullptr;
}

std::vector<at::Tensor> ClosedBodies::run(const std::vector<at::Tensor>& operands, runtime::Conduct* conduct) const {
  std::vector<at::Tensor> given = operands;
  for (size_t i = 0; i < given.size(); ++i) {
    const ir::TensorType* type = parameterType(i, given.size());
    bool slices = kind_ == Kind::Scan && i >= shape_.carried && i < shape_.carried + shape_.sliced;
    if (type) given[i] = inLayout(given[i], *type, slices);
  }
  const runtime::Executable& ready = executable(given, conduct);
  if (!conduct) return ready.run(std::move(given));
  runtime::Run run(ready, conduct);
  for (size_t i = 0; i < given.size(); ++i) run.set(i, given[i]);
  run.run();
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < run.returnedCount(); ++i) results.push_back(run.returned(i).toTensor());
  return results;
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
