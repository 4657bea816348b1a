#include "runtime/interpreter.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorOptions.h>

#include "aten/enums.h"
#include "ops/operator.h"
#include "runtime/failure.h"
#include "support/check.h"

namespace saker::runtime {

namespace {

int64_t concrete(sym::Int value, const sym::Assignment& symbols) {
  if (value.isConst()) return value.constant();
  std::optional<int64_t> number = sym::evaluateInt(value.node(), symbols);
  if (!number) throw std::runtime_error("the size " + sym::toString(value) + " has no value here");
  return *number;
}

}  // namespace

Geometry geometryOf(const ir::TensorType& type, const sym::Assignment& symbols) {
  Geometry out;
  for (sym::Int size : type.sizes()) out.sizes.push_back(concrete(size, symbols));
  for (sym::Int stride : type.strides()) out.strides.push_back(concrete(stride, symbols));
  out.offset = concrete(type.offset, symbols);
  return out;
}

at::Tensor tensorOver(const c10::Storage& storage, const ir::TensorType& type, const Geometry& geometry) {
  c10::ScalarType dtype = aten::fromDType(type.dtype);
  c10::DispatchKeySet keys(c10::computeDispatchKey(dtype, c10::kStrided, aten::fromDevice(type.device)));
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, c10::scalarTypeToTypeMeta(dtype));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  if (type.flags.conj) impl._set_conj(true);
  if (type.flags.neg) impl._set_neg(true);
  return tensor;
}

Interpreter::Interpreter(const ir::Graph& graph, sym::Assignment symbols)
    : graph_(graph), symbols_(std::move(symbols)), values_(graph.valueLimit()), lastUse_(graph.valueLimit()) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    for (const ir::Use& use : node->operands()) lastUse_[use.value->id()] = node->id();
  }
}

void Interpreter::run() {
  for (const ir::Node* node = graph_.top()->first(); node && !node->isReturn(); node = node->next()) {
    running_ = node;
    runNode(*node);
    for (const ir::Use& use : node->operands()) {
      if (lastUse_[use.value->id()] == node->id()) values_[use.value->id()].reset();
    }
  }
}

void Interpreter::runNode(const ir::Node& node) {
  SAKER_CHECK(node.regions().empty(), "operators with bodies are not run here");
  const c10::OperatorHandle& handle = handles_.find(node.op());
  stack_.clear();
  aten::pushArguments(node, handle.schema(), *this, stack_);
  call(node, handle, stack_);
  size_t result = 0;
  for (size_t i = 0; i < stack_.size(); ++i) {
    bool aliases = handle.schema().returns()[i].alias_info() != nullptr;
    // The stack lets go of each result before it is taken, so that a fresh one has one owner.
    c10::IValue value = std::move(stack_[i]);
    if (value.isTensor()) {
      take(*node.result(result++), std::move(value).toTensor(), aliases);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list = std::move(value).toTensorList();
      // How many there are may depend on data where nothing is known of the operator.
      size_t others = stack_.size() - 1 - i;
      if (!ops::of(&node) && result + list.size() + others != node.resultCount()) failForSizes(node.op()->qualified);
      for (size_t k = 0; k < list.size(); ++k) take(*node.result(result++), list.extract(k), aliases);
    } else {
      ++result;
    }
  }
}

void Interpreter::call(const ir::Node&, const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  handle.callBoxed(&stack);
}

void Interpreter::take(const ir::Value& value, at::Tensor real, bool aliases) {
  if (!value.tensor() || !real.defined()) return;
  if (!aliases) {
    checkPlain(value.def()->op()->qualified, real);
    real = fresh(value, std::move(real));
  } else if (!ops::of(value.def()) && !value.tensor()->symbolic &&
             real.sizes() != c10::IntArrayRef(geometryOf(*value.tensor(), symbols_).sizes)) {
    failForSizes(value.def()->op()->qualified);
  }
  if (value.hasUses()) values_[value.id()] = std::move(real);
}

at::Tensor Interpreter::fresh(const ir::Value& value, at::Tensor real) {
  bool moved = false;
  return inToldLayout(value, std::move(real), moved);
}

void Interpreter::bindOwnSizes(const ir::TensorType& type, const at::Tensor& real) {
  for (size_t i = 0; i < type.rank && i < static_cast<size_t>(real.dim()); ++i) {
    const sym::Node* node = type.size(i).node();
    if (!node || node->kind != sym::Kind::Symbol) continue;
    std::optional<int64_t>& known = symbols_.ints.at(static_cast<size_t>(node->value));
    if (!known) known = real.sizes()[i];
  }
}

at::Tensor Interpreter::inToldLayout(const ir::Value& value, at::Tensor real, bool& moved) {
  if (value.tensor()->symbolic) bindOwnSizes(*value.tensor(), real);
  Geometry told = geometryOf(*value.tensor(), symbols_);
  if (real.sizes() != c10::IntArrayRef(told.sizes)) {
    failForSizes(value.def()->op()->qualified);
  }
  if (real.strides() == c10::IntArrayRef(told.strides) && real.storage_offset() == told.offset) return real;
  moved = true;
  at::Tensor copy = at::empty_strided(told.sizes, told.strides, real.options());
  copy.copy_(real);
  return copy;
}

c10::IValue Interpreter::number(const ir::Value* value) {
  const ir::ScalarType* type = ir::asScalar(value->type());
  if (type && type->kind == ir::TypeKind::Int && type->expression) {
    if (std::optional<int64_t> number = sym::evaluateInt(type->expression, symbols_)) return *number;
  }
  throw std::runtime_error("a graph was run with a value that is no tensor and has no expression");
}

c10::IValue Interpreter::opaque(const ir::OpaqueRef& reference) {
  throw std::runtime_error("nobody knows the object " + std::string(reference.className) + " #" +
                           std::to_string(reference.number));
}

c10::IValue Interpreter::returned(const ir::Arg& arg) {
  if (arg.isValue() && arg.toValue()->tensor()) return values_[arg.toValue()->id()];
  return aten::constantArgument(arg, *this);
}

sym::Assignment bindSymbols(const ir::Graph& graph, std::span<const at::Tensor> inputs) {
  sym::Context& context = graph.context().symbols();
  sym::Assignment out;
  out.ints.resize(context.symbols().size());
  out.floats.resize(context.symbols().size());
  for (size_t i = 0; i < inputs.size() && i < graph.top()->parameters().size(); ++i) {
    const ir::TensorType* type = graph.top()->parameters()[i]->tensor();
    if (!type || !type->symbolic || !inputs[i].defined()) continue;
    if (static_cast<size_t>(inputs[i].dim()) != type->rank) {
      throw std::runtime_error("input " + std::to_string(i) + " has another number of dimensions than the graph's");
    }
    for (size_t d = 0; d < type->rank; ++d) {
      const sym::Node* node = type->size(d).node();
      if (!node || node->kind != sym::Kind::Symbol) continue;
      auto& slot = out.ints[static_cast<size_t>(node->value)];
      int64_t size = inputs[i].sizes()[d];
      if (slot && *slot != size) {
        throw std::runtime_error("the size " + sym::toString(node) + " is " + std::to_string(*slot) +
                                 " in one input and " + std::to_string(size) + " in another");
      }
      slot = size;
    }
  }
  return out;
}

std::string outOfRange(const sym::Context& context, const sym::Assignment& symbols) {
  for (const sym::Symbol& symbol : context.symbols()) {
    const std::optional<int64_t>& value = symbols.ints[static_cast<size_t>(symbol.node->value)];
    const sym::Range& range = symbol.node->range;
    if (symbol.node->kind != sym::Kind::Symbol || !value || range.contains(*value)) continue;
    std::string low = range.low == sym::Range::kNegInf ? "-inf" : std::to_string(range.low);
    std::string high = range.high == sym::Range::kInf ? "inf" : std::to_string(range.high);
    return "the size " + symbol.name + " is " + std::to_string(*value) + ", and must be in [" + low + ", " + high + "]";
  }
  return {};
}

}  // namespace saker::runtime
