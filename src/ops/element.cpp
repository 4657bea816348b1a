#include "ops/element.h"

#include <algorithm>

#include "ops/shape.h"

namespace saker::ops {

void notLowered(std::string reason) { throw NotLowered{std::move(reason)}; }

namespace {

void add(std::vector<Place::Term>& to, const Place::Term& term) {
  for (Place::Term& known : to) {
    if (known.id != term.id) continue;
    known.stride += term.stride;
    if (known.stride.isConst(0)) to.erase(to.begin() + (&known - to.data()));
    return;
  }
  auto behind = std::find_if(to.begin(), to.end(), [&](const Place::Term& other) { return other.id > term.id; });
  to.insert(behind, term);
}

// A float that changes: an expression, or a value of the graph that one stands for.
sym::Float floatOf(const Arg& arg) {
  if (arg.kind() == Arg::Kind::SymFloat) return sym::Float(arg.toSym());
  const ir::ScalarType* type = arg.isValue() ? ir::asScalar(arg.toValue()->type()) : nullptr;
  if (!type || !type->expression) notLowered("a number that is known only when the graph runs");
  return sym::Float(type->expression);
}

}  // namespace

Place operator+(Place a, const Place& b) {
  a.offset += b.offset;
  for (const Place::Term& term : b.axes) add(a.axes, term);
  for (const Place::Term& term : b.numbers) add(a.numbers, term);
  return a;
}

Place operator*(Place a, Int factor) {
  if (factor.isConst(0)) return Place();
  a.offset *= factor;
  for (Place::Term& term : a.axes) term.stride *= factor;
  for (Place::Term& term : a.numbers) term.stride *= factor;
  return a;
}

Places placesInBroadcast(const TensorType& tensor, std::span<const Int> to, std::span<const Place> places) {
  size_t more = to.size() - tensor.rank;
  Places own;
  for (size_t d = 0; d < tensor.rank; ++d) {
    bool one = surelyOne(tensor.size(d));
    if (!one && !surelyEqual(tensor.size(d), to[more + d]))
      notLowered("a size of which it is not known whether it is 1");
    own.push_back(one ? Place() : places[more + d]);
  }
  return own;
}

Num Element::convert(Num a, DType dtype) { return a.dtype == dtype ? a : make(kernel::Op::Convert, dtype, {a}); }

Num Element::rounded(Num a, DType dtype) { return convert(convert(a, dtype), computed(dtype)); }

Num Element::broadcast(size_t i, DType dtype) {
  if (!in.arg(i).isValue() || !in.arg(i).toValue()->tensor()) return scalar(i, computed(dtype));
  return at(i, placesInBroadcast(in.tensor(i), type().sizes(), places()));
}

Num Element::operand(size_t i, DType dtype) { return rounded(broadcast(i, dtype), dtype); }

Num Element::scalar(size_t i, DType dtype) {
  Scalar value = in.scalar(i);
  if (value.kind == Scalar::Kind::Complex) notLowered("complex numbers");
  if (!value.known) {
    if (value.kind == Scalar::Kind::Float) return convert(number(floatOf(in.arg(i)), dtype), dtype);
    if (value.kind != Scalar::Kind::Int) notLowered("a truth value that is known only when the graph runs");
    return convert(number(Place(in.integer(i))), dtype);
  }
  if (value.kind != Scalar::Kind::Float) {
    if (ir::isFloat(dtype)) return constant(dtype, static_cast<double>(value.integer));
    return integer(dtype, value.integer);
  }
  if (!ir::isFloat(dtype)) return convert(constant(DType::Float64, value.number), dtype);
  return constant(dtype, value.number);
}

}  // namespace saker::ops
