#include "runtime/sizes.h"

#include <algorithm>
#include <stdexcept>

#include "ops/operator.h"
#include "symbolic/context.h"

namespace saker::runtime {

SizePlan::SizePlan(const ir::Graph& graph) : graph_(graph) {
  const sym::Context& context = graph.context().symbols();
  for (const sym::Symbol& symbol : context.symbols()) {
    symbols_.push_back(flat.add(symbol.node));
    if (symbol.node->kind == sym::Kind::Symbol) declared_.emplace_back(symbols_.back(), symbol.node);
  }
  std::span<ir::Value* const> parameters = graph.top()->parameters();
  for (uint32_t i = 0; i < parameters.size(); ++i) {
    const ir::TensorType* type = parameters[i]->tensor();
    told_.push_back(type ? tell(*type) : Told());
    for (uint32_t d = 0; type && type->symbolic && d < type->rank; ++d) {
      const sym::Node* size = type->size(d).node();
      if (size && size->kind == sym::Kind::Symbol) bound_.push_back({i, d, *flat.find(size)});
    }
  }
  if (symbols_.empty()) return;
  for (const sym::Guard& guard : context.guards()) guards_.emplace_back(flat.add(guard.condition), guard.condition);
  if (!guards_.empty()) bindFloats();
}

// Numbers that came as inputs: nobody else has their tensors, so they hold in the beginning what is read later.
void SizePlan::bindFloats() {
  static const ops::Operator* read = ops::find("aten::_local_scalar_dense");
  for (const ir::Node* node = graph_.top()->first(); node && !node->isReturn(); node = node->next()) {
    if (node->op() != read) continue;
    const sym::Node* symbol = ir::asScalar(node->result()->type())->expression;
    if (!symbol || symbol->kind != sym::Kind::FloatSymbol) continue;
    const ir::Arg& from = node->arg(0);
    const ir::TensorType* type = from.isValue() && from.toValue()->isParameter() ? from.toValue()->tensor() : nullptr;
    bool isInput = type && type->rank == 0 && type->flags.wrappedNumber && type->dtype == ir::DType::Float64;
    if (isInput) floats_.push_back({static_cast<uint32_t>(from.toValue()->index()), *flat.find(symbol)});
  }
}

Told SizePlan::tell(const ir::TensorType& type) {
  Told told;
  any_ |= type.symbolic;
  auto add = [&](sym::Int number) {
    if (type.symbolic) told.cells.push_back(number.isConst() ? kNone : flat.add(number.node()));
    return number.isConst() ? number.constant() : 0;
  };
  for (sym::Int size : type.sizes()) told.numbers.sizes.push_back(add(size));
  for (sym::Int stride : type.strides()) told.numbers.strides.push_back(add(stride));
  told.numbers.offset = add(type.offset);
  return told;
}

bool SizePlan::isBound(uint32_t cell) const {
  return std::any_of(bound_.begin(), bound_.end(), [&](const Bound& each) { return each.cell == cell; });
}

void Sizes::bind(std::span<const at::Tensor> inputs) {
  for (const SizePlan::Bound& each : plan_.bound_) {
    if (each.input >= inputs.size() || !inputs[each.input].defined()) continue;
    const at::Tensor& input = inputs[each.input];
    if (static_cast<size_t>(input.dim()) != plan_.told_[each.input].numbers.sizes.size()) {
      throw std::runtime_error("input " + std::to_string(each.input) +
                               " has another number of dimensions than the graph's");
    }
    int64_t size = input.sizes()[each.dimension];
    sym::Cell& cell = cells_[each.cell];
    if (cell.known && cell.whole != size) {
      const ir::TensorType& type = *plan_.graph_.top()->parameters()[each.input]->tensor();
      throw std::runtime_error("the size " + sym::toString(type.size(each.dimension)) + " is " +
                               std::to_string(*cell.integer()) + " in one input and " + std::to_string(size) +
                               " in another");
    }
    cell.set(size);
  }
  bindFloats(inputs);
}

void Sizes::bindFloats(std::span<const at::Tensor> inputs) {
  for (const SizePlan::BoundFloat& each : plan_.floats_) {
    if (each.input >= inputs.size() || !inputs[each.input].defined()) continue;
    cells_[each.cell].setReal(*static_cast<const double*>(inputs[each.input].const_data_ptr()));
  }
}

void Sizes::assume(const sym::Assignment& symbols) {
  for (size_t i = 0; i < plan_.symbols_.size() && i < symbols.ints.size(); ++i) {
    sym::Cell& cell = cells_[plan_.symbols_[i]];
    if (symbols.ints[i]) cell.set(*symbols.ints[i]);
    if (symbols.floats[i]) cell.setReal(*symbols.floats[i]);
  }
}

std::string Sizes::unmet(bool guards) {
  for (const auto& [index, symbol] : plan_.declared_) {
    const sym::Cell& cell = cells_[index];
    const sym::Range& range = symbol->range;
    if (!cell.known || range.contains(static_cast<int64_t>(cell.whole))) continue;
    std::string low = range.low == sym::Range::kNegInf ? "-inf" : std::to_string(range.low);
    std::string high = range.high == sym::Range::kInf ? "inf" : std::to_string(range.high);
    return "the size " + sym::toString(symbol) + " is " + std::to_string(*cell.integer()) + ", and must be in [" + low +
           ", " + high + "]: sizes of 0 and 1 mean other things in PyTorch; capture the function again for them";
  }
  for (const auto& [cell, condition] : plan_.guards_) {
    if (!guards || value(cell).boolean().value_or(false)) continue;
    return "the graph was captured for sizes with " + sym::toString(condition) +
           ", which does not hold for these: capture the function again for them";
  }
  return {};
}

bool Sizes::fit(std::span<const at::Tensor> inputs) {
  for (const SizePlan::Bound& each : plan_.bound_) {
    const at::Tensor& input = inputs[each.input];
    sym::Cell& cell = cells_[each.cell];
    if (each.dimension >= static_cast<size_t>(input.dim())) return false;
    int64_t size = input.sizes()[each.dimension];
    if (cell.known && cell.whole != size) return false;
    cell.set(size);
  }
  bindFloats(inputs);
  for (const auto& [cell, condition] : plan_.guards_) {
    if (!value(cell).boolean().value_or(false)) return false;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!plan_.told_[i].cells.empty() && !same(plan_.told_[i], inputs[i])) return false;
  }
  return true;
}

bool Sizes::same(const Told& told, const at::Tensor& tensor) {
  size_t rank = told.numbers.sizes.size();
  if (static_cast<size_t>(tensor.dim()) != rank) return false;
  auto is = [&](size_t i, int64_t number, int64_t found) {
    return told.cells[i] == kNone ? number == found : value(told.cells[i]).integer() == found;
  };
  for (size_t i = 0; i < rank; ++i) {
    if (!is(i, told.numbers.sizes[i], tensor.sizes()[i])) return false;
    if (!is(rank + i, told.numbers.strides[i], tensor.strides()[i])) return false;
  }
  return true;
}

bool Sizes::sameStrides(const Told& told, const at::Tensor& tensor) {
  size_t rank = told.numbers.sizes.size();
  if (static_cast<size_t>(tensor.dim()) != rank) return false;
  c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  for (size_t i = 0; i < rank; ++i) {
    if (sizes[i] <= 1) continue;
    bool number = told.cells.empty() || told.cells[rank + i] == kNone;
    if (strides[i] != (number ? told.numbers.strides[i] : integer(told.cells[rank + i]))) return false;
  }
  return true;
}

int64_t Sizes::integer(uint32_t cell) {
  std::optional<int64_t> number = value(cell).integer();
  if (!number) throw std::runtime_error("a size has no value here");
  return *number;
}

Geometry Sizes::geometry(const Told& told) {
  Geometry out = told.numbers;
  if (told.cells.empty()) return out;
  size_t rank = out.sizes.size();
  auto fill = [&](int64_t& number, size_t i) {
    if (told.cells[i] != kNone) number = integer(told.cells[i]);
  };
  for (size_t i = 0; i < rank; ++i) fill(out.sizes[i], i);
  for (size_t i = 0; i < rank; ++i) fill(out.strides[i], rank + i);
  fill(out.offset, 2 * rank);
  return out;
}

}  // namespace saker::runtime
