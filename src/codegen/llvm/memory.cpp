#include "codegen/llvm/emitter.h"

namespace saker::codegen {

using kernel::Extent;
using kernel::Index;
using kernel::kNone;
using kernel::Node;

namespace {

std::string keyOf(const Extent& extent) {
  return extent.isNumber() ? std::to_string(extent.number) : 's' + std::to_string(extent.argument);
}

}  // namespace

// Adds the terms of the axes one after another, each where its index is known: in the innermost loop one addition is
// left.
Emitter::Known Emitter::pointer(const Node& node) {
  llvm::Type* type = code_.memoryType(kernel_.buffers[node.at].dtype);
  Known at{buffers_[node.at], 0, false};
  std::string key = std::to_string(node.at) + ':';
  auto add = [&](Value* stride, Value* index, int level) {
    Code::At place(code_, level);
    Value* steps = index ? code_.b.CreateMul(index, stride) : stride;
    at = {code_.b.CreateGEP(type, at.value, steps), level, level == code_.top()};
  };
  auto cached = [&](const std::string& term, auto make) {
    key += '+' + term;
    auto found = pointers_.find(key);
    if (found == pointers_.end()) {
      make();
      pointers_[key] = at;
    } else {
      at = found->second;
    }
  };
  if (!node.index.offset.is(0)) cached(keyOf(node.index.offset), [&] { add(extent(node.index.offset), nullptr, 0); });
  // In the order of the axes, whatever order they are written in; several terms of one axis are added.
  for (uint32_t axis = 0; axis < axes_.size(); ++axis) {
    for (const Index::AxisTerm& term : node.index.axes) {
      if (term.axis != axis || term.stride.is(0)) continue;
      cached(keyOf(term.stride) + "*i" + std::to_string(axis),
             [&] { add(extent(term.stride), axes_[axis].index, std::max(usable(at), axes_[axis].level)); });
    }
  }
  for (const Index::ValueTerm& term : node.index.values) {
    const Known& value = known_[term.value];
    if (Code::lanes(value.value) == 1) add(extent(term.stride), value.value, std::max(usable(at), usable(value)));
  }
  return at;
}

Emitter::Address Emitter::address(const Node& node) {
  auto& b = code_.b;
  int unit = 0, others = 0;  // terms of the vector axis
  Value* apart = nullptr;    // how far lanes are from lane 0
  Value* stride = nullptr;   // where only the axis decides
  int level = 0;
  if (inVector()) {
    for (const Index::AxisTerm& term : node.index.axes) {
      if (term.axis != kernel_.vector || term.stride.is(0)) continue;
      (term.stride.is(1) ? unit : others) += 1;
      Value* own = extent(term.stride);
      stride = stride ? b.CreateAdd(stride, own) : own;
      Value* steps = b.CreateMul(code_.iota(b.getInt64Ty(), lanes_), wide(own));
      apart = apart ? b.CreateAdd(apart, steps) : steps;
    }
  }
  bool gathers = others || unit > 1;
  for (const Index::ValueTerm& term : node.index.values) {
    if (Code::lanes(known_[term.value].value) == 1) continue;
    gathers = true;
    stride = nullptr;
    level = std::max(level, usable(known_[term.value]));
    Value* steps = b.CreateMul(known_[term.value].value, wide(extent(term.stride)));
    apart = apart ? b.CreateAdd(apart, steps) : steps;
  }
  Known at = pointer(node);
  level = std::max(level, usable(at));
  if (!gathers) return {at.value, level, unit == 1, unit == 1};
  llvm::Type* type = code_.memoryType(kernel_.buffers[node.at].dtype);
  return {b.CreateGEP(type, at.value, apart), code_.top(), true, false, at.value, stride};
}

// Where the processor has no instruction for lanes that lie apart, and the pointers of all of them are not needed.
bool Emitter::oneByOne(const Address& address, DType dtype) const {
  return address.stride && (code_.target.vectorBytes < 64 || ir::byteSize(dtype) < 4);
}

Value* Emitter::lanePointer(const Address& address, llvm::Type* type, int lane) {
  Value* steps = code_.b.CreateMul(address.stride, code_.integer(lane));
  return code_.b.CreateGEP(type, address.first, steps);
}

Value* Emitter::mask(uint32_t given) {
  if (given == kNone) return laneMask_;
  Value* lanes = wide(given);
  return laneMask_ ? code_.b.CreateAnd(lanes, laneMask_) : lanes;
}

Value* Emitter::inMemory(Value* value, DType dtype) {
  if (dtype != DType::Bool) return value;
  return code_.b.CreateZExt(value, Code::widened(code_.b.getInt8Ty(), Code::lanes(value)));
}

Value* Emitter::loaded(const Node& node, const Address& address) {
  auto& b = code_.b;
  llvm::Type* element = code_.memoryType(node.dtype);
  llvm::Align align(static_cast<uint64_t>(ir::byteSize(node.dtype)));
  uint32_t given = node.operands[0];
  Value* condition = given == kNone ? nullptr : known_[given].value;
  bool single = !address.varies && (!condition || Code::lanes(condition) == 1);
  if (single && !condition) return b.CreateAlignedLoad(element, address.pointer, align);
  if (single) {
    // A vector of one lane becomes a branch around a load.
    auto* one = llvm::FixedVectorType::get(element, 1);
    Value* lane = b.CreateVectorSplat(1, condition);
    Value* vector = b.CreateMaskedLoad(one, address.pointer, align, lane, llvm::Constant::getNullValue(one));
    return b.CreateExtractElement(vector, uint64_t{0});
  }
  llvm::Type* type = Code::widened(element, lanes_);
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  Value* lanes = mask(given);
  if (address.contiguous) {
    if (!lanes) return b.CreateAlignedLoad(type, address.pointer, align);
    return b.CreateMaskedLoad(type, address.pointer, align, lanes, zero);
  }
  if (!lanes && oneByOne(address, node.dtype)) {
    Value* vector = llvm::PoisonValue::get(type);
    for (int lane = 0; lane < lanes_; ++lane) {
      Value* number = b.CreateAlignedLoad(element, lanePointer(address, element, lane), align);
      vector = b.CreateInsertElement(vector, number, static_cast<uint64_t>(lane));
    }
    return vector;
  }
  Value* pointers = wide(Known{address.pointer, code_.top(), true});
  if (!lanes) lanes = llvm::Constant::getAllOnesValue(Code::widened(b.getInt1Ty(), lanes_));
  return b.CreateMaskedGather(type, pointers, align, lanes, zero);
}

void Emitter::load(uint32_t i) {
  const Node& node = kernel_.nodes[i];
  if (tiles_.count(i)) {
    Value* value = tiled(i);
    if (node.dtype == DType::Bool) value = code_.b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
    return know(i, value, code_.top());
  }
  Address place = address(node);
  // Memory that the kernel writes is read where the line stands.
  int level = kernel_.buffers[node.at].written || place.varies ? code_.top() : std::max(place.level, levelOf(node));
  uint32_t given = node.operands[0];
  if (given != kNone && Code::lanes(known_[given].value) > 1) level = code_.top();
  Code::At at(code_, level);
  Value* value = loaded(node, place);
  if (node.dtype == DType::Bool) value = code_.b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  know(i, value, level);
}

void Emitter::store(uint32_t i) {
  auto& b = code_.b;
  const Node& node = kernel_.nodes[i];
  Address place = address(node);
  llvm::Align align(static_cast<uint64_t>(ir::byteSize(node.dtype)));
  uint32_t given = node.operands[1];
  Value* condition = given == kNone ? nullptr : known_[given].value;
  Value* value = known_[node.operands[0]].value;
  if (!place.varies && (!condition || Code::lanes(condition) == 1)) {
    // All lanes write the same; the first one has not ended.
    if (Code::lanes(value) > 1) value = code_.part(value, 0, 1);
    value = inMemory(value, node.dtype);
    if (!condition) {
      b.CreateAlignedStore(value, place.pointer, align);
    } else {
      b.CreateMaskedStore(b.CreateVectorSplat(1, value), place.pointer, align, b.CreateVectorSplat(1, condition));
    }
    return;
  }
  Value* lanes = mask(given);
  if (!place.varies && Code::lanes(value) == 1) {
    // One place for all lanes, and one value: where a lane wants it, it is written.
    Value* one = b.CreateVectorSplat(1, inMemory(value, node.dtype));
    b.CreateMaskedStore(one, place.pointer, align, b.CreateVectorSplat(1, code_.any(lanes)));
    return;
  }
  value = inMemory(wide(node.operands[0]), node.dtype);
  if (place.contiguous) {
    if (lanes) {
      b.CreateMaskedStore(value, place.pointer, align, lanes);
    } else {
      b.CreateAlignedStore(value, place.pointer, align);
    }
    return;
  }
  if (!lanes && oneByOne(place, node.dtype)) {
    for (int lane = 0; lane < lanes_; ++lane) {
      b.CreateAlignedStore(code_.part(value, lane, 1), lanePointer(place, code_.memoryType(node.dtype), lane), align);
    }
    return;
  }
  if (!lanes) lanes = llvm::Constant::getAllOnesValue(Code::widened(b.getInt1Ty(), lanes_));
  b.CreateMaskedScatter(value, wide(Known{place.pointer, code_.top(), true}), align, lanes);
}

}  // namespace saker::codegen
