#include "lower/builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lower/constants.h"
#include "ops/effects.h"
#include "ops/operator.h"
#include "support/intern_table.h"

namespace saker::lower {

using ir::DType;
using ir::TensorType;
using kernel::Op;
using ops::Num;
using ops::Place;
using ops::Places;

// One call of an operator, as its rule sees it.
class Call final : public ops::Element {
 public:
  // `strides`: of the result that it puts elements into, in a step.
  Call(KernelBuilder& builder, const ops::Infer& arguments, const ir::Value* value, const Places& places,
       const ir::Dims* strides = nullptr)
      : Element(arguments, *value->def(), value->index()),
        builder_(builder),
        value_(value),
        places_(places),
        strides_(strides) {}

  const Places& places() const override { return places_; }

  Num at(size_t i, const Places& places) override { return bound(builder_.valueAt(in.arg(i).toValue(), places)); }
  Num at(size_t i, size_t element, const Places& places) override {
    return bound(builder_.valueAt(in.arg(i).toList()[element].toValue(), places));
  }

  Num stored(size_t i, const Places& places) override {
    bool before = std::exchange(builder_.mustLoad_, true);
    Num number = bound(builder_.valueAt(in.arg(i).toValue(), places));
    builder_.mustLoad_ = before;
    return number;
  }
  Places running(const TensorType& tensor, size_t dim) override {
    Places outer = places_;
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(dim));
    Places all = inside(tensor, uint64_t{1} << dim, outer);
    if (!samePlace(all[dim], places_[dim])) throw NeedsMemory{value_};
    return all;
  }
  Num scan(ops::Reduction kind, Num number) override {
    if (!builder_.axes_.hasReduced()) return kind == ops::Reduction::Sum ? number + 0 : number;  // which is never -0
    kernel::Node node = line(Op::Scan, number.dtype);
    node.operands[0] = number.id;
    node.reduction = kind;
    return {this, builder_.add(node), number.dtype};
  }
  void put(Num holds, const Places& places, const std::function<Num(Num)>& make) override {
    const TensorType& into = type();
    kernel::Node load = line(Op::Load, into.dtype);
    load.operands[0] = holds.id;
    load.at = builder_.bufferOf(value_, true);
    load.index = builder_.index(places, *strides_);
    Num old{this, builder_.add(load), into.dtype};
    kernel::Node store = line(Op::Store, into.dtype);
    store.operands[0] = convert(make(convert(old, ops::computed(into.dtype))), into.dtype).id;
    store.operands[1] = holds.id;
    store.at = load.at;
    store.index = load.index;
    builder_.stores_.push_back(builder_.add(store));
  }
  void check(Num holds) override {
    // Eager mode looks at all elements, whatever is read of them.
    if (builder_.mask_ != kernel::kNone || !coversAll()) throw NeedsMemory{value_};
    builder_.check(make(Op::Not, DType::Bool, {holds}).id);
  }

  bool toTheBit() const override { return builder_.toTheBit_; }

  Num make(Op op, DType dtype, std::initializer_list<Num> operands) override {
    if (op >= Op::Exp) onlyNear("a function of which eager mode has several");
    if (op == Op::Rem && ir::isFloat(dtype)) onlyNear("remainders of subnormal numbers");
    kernel::Node node = line(op, dtype);
    size_t i = 0;
    for (const Num& operand : operands) node.operands[i++] = operand.id;
    if (op == Op::Convert && builder_.expressions_.isConstant(node.operands[0])) {
      const kernel::Node& from = builder_.expressions_[node.operands[0]].node;
      if (std::optional<uint64_t> bits = convertedConstant(from.dtype, from.bits, dtype)) {
        return {this, builder_.constant(dtype, *bits), dtype};
      }
    }
    return {this, builder_.add(node), dtype};
  }
  Num constant(DType dtype, double number) override {
    return {this, builder_.constant(dtype, constantBits(dtype, number)), dtype};
  }
  Num integer(DType dtype, int64_t number) override {
    return {this, builder_.constant(dtype, constantBits(dtype, number)), dtype};
  }
  Num number(const Place& place) override { return {this, builder_.number(place), DType::Int64}; }
  Num number(sym::Float value, DType dtype) override {
    bool single = dtype == DType::Float32;
    kernel::Node node = line(Op::Argument, DType::Int64);
    node.at = builder_.arguments_.number(value, single);
    Num bits{this, builder_.add(node), DType::Int64};
    return single ? bitcast(convert(bits, DType::Int32), dtype) : bitcast(bits, DType::Float64);
  }
  Place place(Num index) override {
    Place place;
    place.numbers.push_back({index.id, Int(1)});
    return place;
  }
  std::pair<Place, Place> divide(const Place& place, Int by) override { return builder_.divide(place, by); }

  Places inside(const TensorType& tensor, uint64_t dims, const Places& outer) override {
    const Axes& axes = builder_.axes_;
    for (const Place& place : outer) {
      if (axes.dependsOnReduced(place)) throw NeedsMemory{value_};
      // A number may hide the loop.
      for (const Place::Term& term : place.numbers) {
        if (builder_.expressions_[term.id].inLoop) throw NeedsMemory{value_};
      }
    }
    // So may a condition that is asked of the element: where the loop reduces, it would leave out elements of the row.
    uint32_t mask = builder_.mask_;
    if (mask != kernel::kNone && builder_.expressions_[mask].inLoop) throw NeedsMemory{value_};
    ir::Dims reducedSizes;
    for (size_t d = 0; d < tensor.rank; ++d) {
      if (dims >> d & 1) reducedSizes.push_back(tensor.size(d));
    }
    Places along = builder_.spread(axes.linearReduced(), reducedSizes);
    Places all;
    size_t nextReduced = 0, nextOuter = 0;
    for (size_t d = 0; d < tensor.rank; ++d) all.push_back(dims >> d & 1 ? along[nextReduced++] : outer[nextOuter++]);
    return all;
  }

  Num reduce(ops::Reduction kind, Num number) override {
    bool inOrder = kind != ops::Reduction::Sum && kind != ops::Reduction::Prod;
    if (!inOrder && ir::isFloat(number.dtype)) onlyNear("sums in another order");
    if (!builder_.axes_.hasReduced()) return number;  // over one element
    kernel::Node node = line(Op::Reduce, number.dtype);
    node.operands[0] = number.id;
    node.reduction = kind;
    return {this, builder_.add(node), number.dtype};
  }

 protected:
  uint32_t enter(Num condition) override {
    uint32_t before = builder_.mask_;
    builder_.mask_ = before == kernel::kNone
                         ? condition.id
                         : make(Op::And, DType::Bool, {Num{this, before, DType::Bool}, condition}).id;
    return before;
  }
  void leave(uint32_t before) override { builder_.mask_ = before; }

 private:
  static bool samePlace(const Place& a, const Place& b) {
    Place difference = a - b;
    return difference.offset.isConst(0) && difference.isNumber();
  }

  // Each element of the result is asked for in some step of the kernel.
  bool coversAll() const {
    if (strides_) return true;  // these are the steps
    const TensorType& type = this->type();
    for (size_t d = 0; d < type.rank; ++d) {
      const Place& place = places_[d];
      if (!place.numbers.empty()) return false;
      Int least = place.offset, most = place.offset, count = 1;
      for (const Place::Term& term : place.axes) {
        Int last = builder_.axes_.extent(term.id) - Int(1);
        bool forward = (term.stride >= Int(0)).provablyTrue();
        if (!forward && !(term.stride < Int(0)).provablyTrue()) return false;
        (forward ? most : least) += term.stride * last;
        count *= last + Int(1);
      }
      bool whole =
          surelyEqual(least, 0) && surelyEqual(most + Int(1), type.size(d)) && surelyEqual(count, type.size(d));
      if (!whole) return false;
    }
    return true;
  }

  Num bound(Num number) {
    number.in = this;
    return number;
  }

  KernelBuilder& builder_;
  const ir::Value* value_;
  const Places& places_;
  const ir::Dims* strides_;
};

size_t KernelBuilder::HashKey::operator()(const Key& key) const {
  uint64_t hash = hashMix(reinterpret_cast<uintptr_t>(key.value), key.mask);
  for (uint64_t word : key.places) hash = hashMix(hash, word);
  return hash;
}

uint32_t KernelBuilder::constant(DType dtype, uint64_t bits) {
  kernel::Node node = line(Op::Constant, dtype);
  node.bits = bits;
  return add(node);
}

uint32_t KernelBuilder::number(const Place& place) {
  auto integer = [&](Int value) {
    kernel::Extent extent = arguments_.extent(value);
    if (extent.isNumber()) return constant(DType::Int64, static_cast<uint64_t>(extent.number));
    kernel::Node node = line(Op::Argument, DType::Int64);
    node.at = extent.argument;
    return add(node);
  };
  auto apply = [&](Op op, uint32_t a, uint32_t b) {
    kernel::Node node = line(op, DType::Int64);
    node.operands[0] = a;
    node.operands[1] = b;
    return add(node);
  };
  uint32_t sum = kernel::kNone;
  auto plus = [&](uint32_t term) { sum = sum == kernel::kNone ? term : apply(Op::Add, sum, term); };
  auto scaled = [&](uint32_t value, Int stride) {
    plus(stride.isConst(1) ? value : apply(Op::Mul, value, integer(stride)));
  };
  for (const Place::Term& term : place.axes) {
    kernel::Node node = line(Op::AxisIndex, DType::Int64);
    node.at = term.id;
    scaled(add(node), term.stride);
  }
  for (const Place::Term& term : place.numbers) scaled(term.id, term.stride);
  if (!place.offset.isConst(0) || sum == kernel::kNone) plus(integer(place.offset));
  return sum;
}

std::pair<Place, Place> KernelBuilder::divide(const Place& place, Int by) {
  if (by.isConst(1)) return {place, Place()};
  if (by.isConst(0)) return {Place(), Place()};  // there is no element
  if (std::optional<std::pair<Place, Place>> affine = axes_.divide(place, by)) return *affine;
  uint32_t whole = number(place), divisor = number(Place(by));
  auto apply = [&](Op op) {
    kernel::Node node = line(op, DType::Int64);
    node.operands[0] = whole;
    node.operands[1] = divisor;
    Place result;
    result.numbers.push_back({add(node), Int(1)});
    return result;
  };
  return {apply(Op::Div), apply(Op::Rem)};
}

Places KernelBuilder::spread(const Place& linear, std::span<const Int> sizes) {
  Places places(sizes.size());
  for (Int size : sizes) {
    if (size.isConst(0)) return places;  // there is no element
  }
  size_t first = 0;  // the outermost dimension takes what is left
  while (first < sizes.size() && ops::surelyOne(sizes[first])) ++first;
  Place rest = linear;
  for (size_t d = sizes.size(); d-- > first;) {
    if (d == first) {
      places[d] = rest;
    } else if (!ops::surelyOne(sizes[d])) {
      std::tie(rest, places[d]) = divide(rest, sizes[d]);
    }
  }
  return places;
}

kernel::Index KernelBuilder::index(const Places& places, const ir::Dims& strides) {
  Place sum;
  for (size_t d = 0; d < places.size(); ++d) sum = sum + places[d] * strides[d];
  kernel::Index index;
  index.offset = arguments_.extent(sum.offset);
  for (const Place::Term& term : sum.axes) index.axes.push_back({term.id, arguments_.extent(term.stride)});
  for (const Place::Term& term : sum.numbers) index.values.push_back({term.id, arguments_.extent(term.stride)});
  return index;
}

uint32_t KernelBuilder::bufferOf(const ir::Value* value, bool written) {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].value == value && memory_[i].written == written) return static_cast<uint32_t>(i);
  }
  memory_.push_back({value, written});
  return static_cast<uint32_t>(memory_.size() - 1);
}

void KernelBuilder::check(uint32_t fails) {
  if (mask_ != kernel::kNone) {
    kernel::Node both = line(Op::And, DType::Bool);
    both.operands[0] = mask_;
    both.operands[1] = fails;
    fails = add(both);
  }
  kernel::Node node = line(Op::Store, DType::Bool);
  node.operands[0] = constant(DType::Bool, 1);
  node.operands[1] = fails;
  node.at = bufferOf(nullptr, true);
  uint32_t store = add(node);
  if (std::find(stores_.begin(), stores_.end(), store) == stores_.end()) stores_.push_back(store);
}

uint32_t KernelBuilder::load(const ir::Value* value, const ir::Dims& strides, const Places& places) {
  for (const Int& size : value->tensor()->sizes()) {
    if (size.isConst(0)) ops::notLowered("a tensor without elements");
  }
  kernel::Node node = line(Op::Load, value->tensor()->dtype);
  node.operands[0] = mask_;
  node.at = bufferOf(value, source_.isOverwritten(value));
  node.index = index(places, strides);
  return add(node);
}

Num KernelBuilder::valueAt(const ir::Value* value, const Places& places) {
  watch(value, places);
  Key key{value, mask_, {}};
  for (const Place& place : places) {
    auto put = [&](Int number) {
      key.places.push_back(number.isConst() ? static_cast<uint64_t>(number.constant()) : 0);
      key.places.push_back(reinterpret_cast<uintptr_t>(number.node()));
    };
    put(place.offset);
    key.places.push_back(place.axes.size());
    for (const Place::Term& term : place.axes) key.places.push_back(term.id), put(term.stride);
    key.places.push_back(place.numbers.size());
    for (const Place::Term& term : place.numbers) key.places.push_back(term.id), put(term.stride);
  }
  auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  Num number{nullptr, 0, value->tensor()->dtype};
  const ops::Operator* op = value->def() ? ops::of(value->def()) : nullptr;
  if (std::optional<ir::Dims> strides = source_.strides(value)) {
    number.id = load(value, *strides, places);
  } else if (ops::putRuleOf(op)) {
    throw NeedsMemory{value};  // its elements are known when all steps are done
  } else {
    number.id = compute(value, places).id;
  }
  known_.emplace(std::move(key), number);
  return number;
}

Num KernelBuilder::compute(const ir::Value* value, const Places& places) {
  const ir::Node* node = value->def();
  const ops::Operator* op = node ? ops::of(node) : nullptr;
  if (!op || !op->element) ops::notLowered("no rule for " + (node ? node->op()->qualified : "a parameter"));
  constexpr int kDeepest = 400;
  if (depth_ >= kDeepest) throw NeedsMemory{value};
  if (mustLoad_ && ops::sharing(*node, value->index()) == ops::Sharing::None) throw NeedsMemory{value};
  ops::Inferred unused;
  ops::Infer arguments(*op, context_, node->args(), unused);
  if (op->along) {
    std::optional<ops::Along> along = op->along(arguments, value->index());
    if (along && !sameSpace(spaceOf(*along), axes_.space())) throw NeedsMemory{value};
  }
  ++depth_;
  Call call(*this, arguments, value, places);
  Num result = call.convert(op->element(call), value->tensor()->dtype);
  --depth_;
  return result;
}

Places KernelBuilder::rootPlaces(const ir::Value* value) {
  const TensorType& type = *value->tensor();
  const Space& space = axes_.space();
  bool isRow = axes_.hasReduced() && surelyEqual(ir::numel(type.sizes()), space.rows());
  if (isRow && !surelyEqual(space.rows(), space.all())) return spread(axes_.linearRow(), type.sizes());
  bool sameSizes = type.rank == space.sizes.size();
  for (size_t d = 0; sameSizes && d < type.rank; ++d) sameSizes = surelyEqual(type.size(d), space.sizes[d]);
  // In a square a transposed result has the same sizes.
  if (sameSizes && !axes_.hasReduced()) return axes_.places();
  if (std::optional<Places> aligned = alignedPlaces(value)) return *aligned;
  if (sameSizes) return axes_.places();
  // What was permuted on the way mostly lies in memory as what it was made of.
  std::vector<size_t> order(type.rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    Int x = type.stride(a), y = type.stride(b);
    return x.isConst() && y.isConst() && x.constant() > y.constant();
  });
  ir::Dims sizes;
  for (size_t d : order) sizes.push_back(type.size(d));
  Places ordered = spread(axes_.linear(), sizes), places(type.rank);
  for (size_t i = 0; i < type.rank; ++i) places[order[i]] = ordered[i];
  return places;
}

void KernelBuilder::store(const ir::Value* value, const ir::Dims& strides, const ir::Value* over) {
  Places places = rootPlaces(value);
  kernel::Node node = line(Op::Store, value->tensor()->dtype);
  node.operands[0] = compute(value, places).id;
  node.at = bufferOf(over ? over : value, true);
  node.index = index(places, strides);
  stores_.push_back(add(node));
}

void KernelBuilder::put(const ir::Value* value, const ir::Dims& strides) {
  const ir::Node* node = value->def();
  const ops::Operator* op = ops::of(node);
  ops::Inferred unused;
  ops::Infer arguments(*op, context_, node->args(), unused);
  Places places = axes_.places();
  Call call(*this, arguments, value, places, &strides);
  ops::putRuleOf(op)->put(call);
}

}  // namespace saker::lower
