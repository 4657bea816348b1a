#include "runtime/geometry.h"

#include <c10/core/TensorOptions.h>

#include "aten/enums.h"

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
