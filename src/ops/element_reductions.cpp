// What one element is: reductions.
#include <limits>

#include "ops/element.h"
#include "ops/reduce.h"

namespace saker::ops {
namespace {

constexpr size_t kNoKeep = SIZE_MAX;

// (self, dims, keepdim): an int[] that may be left out
template <size_t argument>
std::optional<Along> alongDims(const Infer& in, size_t) {
  const TensorType& self = in.tensor(0);
  return Along{&self, argument == kNoKeep ? allDims(self.rank) : reducedDims(in, argument, self.rank)};
}

std::optional<Along> alongDim(const Infer& in, size_t) {
  const TensorType& self = in.tensor(0);
  return Along{&self, reducedDim(in, 1, self.rank)};
}

// Of any.dims and all.dims: an empty list names none.
std::optional<Along> alongNamed(const Infer& in, size_t) {
  const TensorType& self = in.tensor(0);
  return Along{&self, in.given(1) ? dimSet(in.ints(1), self.rank) : allDims(self.rank)};
}

// The places of the result without those of dimensions that were kept.
Places outerPlaces(const Element& e, const Along& along) {
  Places outer;
  bool kept = e.places().size() == along.tensor->rank;
  for (size_t d = 0, next = 0; d < along.tensor->rank; ++d) {
    bool gone = along.dims >> d & 1;
    if (!gone) outer.push_back(e.places()[next]);
    if (!gone || kept) ++next;
  }
  return outer;
}

// Of the elements that become one.
Int countAlong(const Element& e) {
  Along along = *e.in.op().along(e.in, e.result);
  Int count = 1;
  for (size_t d = 0; d < along.tensor->rank; ++d) {
    if (along.dims >> d & 1) count *= along.tensor->size(d);
  }
  return count;
}

// The element of self at the place of the loop, as `dtype` is computed in.
struct Loop {
  Num x;
  Num count;      // of the elements that become one, in the same dtype
  Places places;  // of x
};
Loop loop(Element& e, DType dtype) {
  Along along = *e.in.op().along(e.in, e.result);
  Places places = e.inside(*along.tensor, along.dims, outerPlaces(e, along));
  Num x = e.rounded(e.at(0, places), dtype);
  return {x, e.convert(e.number(Place(countAlong(e))), x.dtype), places};
}

// The number of the step among those of the loop.
Place placeAlong(const Element& e, const Loop& all) {
  Along along = *e.in.op().along(e.in, e.result);
  Place at;
  for (size_t d = 0; d < along.tensor->rank; ++d) {
    if (along.dims >> d & 1) at = at * along.tensor->size(d) + all.places[d];
  }
  return at;
}

Num sum(Element& e) { return e.reduce(Reduction::Sum, loop(e, e.type().dtype).x); }

Num product(Element& e) {
  // In another order, parts of a product overflow or vanish whose whole does not.
  if (ir::isFloat(e.type().dtype)) notLowered("products of floats");
  return e.reduce(Reduction::Prod, loop(e, e.type().dtype).x);
}

Num mean(Element& e) {
  Loop all = loop(e, e.type().dtype);
  return e.reduce(Reduction::Sum, all.x) / all.count;
}

template <Reduction ofNumbers, Reduction ofBools>
Num extreme(Element& e) {
  Num x = loop(e, e.type().dtype).x;
  return e.reduce(x.dtype == DType::Bool ? ofBools : ofNumbers, x);
}

template <Reduction kind>
Num truth(Element& e) {
  return e.reduce(kind, e.convert(loop(e, e.in.tensor(0).dtype).x, DType::Bool));
}

// ---- where the largest is ----

// Of argument 1 where it is given, else along all.
std::optional<Along> alongOneOrAll(const Infer& in, size_t) {
  const TensorType& self = in.tensor(0);
  return Along{&self, in.given(1) ? reducedDim(in, 1, self.rank) : allDims(self.rank)};
}

// The place of the first of the largest (smallest) numbers; of the first nan, if there is one.
template <Reduction kind>
Num firstOf(Element& e, const Loop& all, Num most) {
  if (all.x.dtype == DType::Bool) notLowered("the place of a bool");
  Place at = placeAlong(e, all);
  Num hit = all.x == most;
  if (ir::isFloat(all.x.dtype)) hit = hit | isNan(all.x);
  Num none = e.integer(DType::Int64, std::numeric_limits<int64_t>::max());
  return e.reduce(Reduction::Min, select(hit, e.number(at), none));
}

// (self, dim, keepdim)
template <Reduction kind>
Num placeOf(Element& e) {
  Loop all = loop(e, e.in.tensor(0).dtype);
  return firstOf<kind>(e, all, e.reduce(kind, all.x));
}

// Eager mode gives the first of equal numbers: of zeros with different signs, that one's.
template <Reduction kind>
Num atFirst(Element& e, const Loop& all, Num most) {
  Place at = e.place(firstOf<kind>(e, all, most));
  Along along = *e.in.op().along(e.in, e.result);
  Places places = outerPlaces(e, along);
  for (size_t d = 0; d < along.tensor->rank; ++d) {
    if (along.dims >> d & 1) places.insert(places.begin() + static_cast<std::ptrdiff_t>(d), at);
  }
  return e.rounded(e.at(0, places), e.type().dtype);
}

// (self, dim, keepdim): the number and its place. Of zeros with both signs, the number is the one at the place.
template <Reduction kind>
Num extremeAndPlace(Element& e) {
  Loop all = loop(e, e.in.tensor(0).dtype);
  Num most = e.reduce(kind, all.x);
  if (e.result == 1) return firstOf<kind>(e, all, most);
  if (!ir::isFloat(all.x.dtype)) {
    if (all.x.dtype == DType::Bool) notLowered("the place of a bool");
    return most;
  }
  return atFirst<kind>(e, all, most);
}

Num smallestAndLargest(Element& e) {
  Num x = loop(e, e.type().dtype).x;
  bool isBool = x.dtype == DType::Bool;
  if (e.result == 0) return e.reduce(isBool ? Reduction::All : Reduction::Min, x);
  return e.reduce(isBool ? Reduction::Any : Reduction::Max, x);
}

Num countOfNonzero(Element& e) {
  Num x = loop(e, e.in.tensor(0).dtype).x;
  return e.reduce(Reduction::Sum, e.convert(e.convert(x, DType::Bool), DType::Int64));
}

Num sumWithoutNans(Element& e) {
  Num x = loop(e, e.type().dtype).x;
  return e.reduce(Reduction::Sum, ir::isFloat(x.dtype) ? select(isNan(x), 0, x) : x);
}

// (self, dim, correction, keepdim)
struct Moments {
  Num mean, variance;
};
// Squares of what f32 holds need f64, as in eager mode: a deviation is as large as what it is of.
Moments moments(Element& e) {
  DType dtype = e.in.tensor(0).dtype;
  auto [x, count, places] = loop(e, dtype);
  if (dtype == DType::Float32 || dtype == DType::BFloat16) {
    x = e.convert(x, DType::Float64);
    count = e.convert(count, DType::Float64);
  }
  Num mean = e.reduce(Reduction::Sum, x) / count;
  Num off = x - mean;
  Num squares = e.reduce(Reduction::Sum, off * off);
  Num divisor = max(count - (e.in.given(2) ? e.scalar(2, x) : e.constant(x.dtype, 1)), 0);
  return {mean, squares / divisor};
}

// Eager mode moves a mean by the difference from each number to the mean of those before it: behind an infinity, by
// nan.
Num runningMean(Element& e) {
  Loop all = loop(e, e.in.tensor(0).dtype);
  Num last = e.number(Place(countAlong(e) - Int(1)));
  Num moves = (abs(all.x) == std::numeric_limits<double>::infinity()) & (e.number(placeAlong(e, all)) < last);
  Num mean = moments(e).mean, none = e.constant(mean.dtype, std::numeric_limits<double>::quiet_NaN());
  return select(e.reduce(Reduction::Any, moves), none, mean);
}

Num variance(Element& e) { return moments(e).variance; }
Num deviationAndMean(Element& e) { return e.result == 0 ? sqrt(moments(e).variance) : runningMean(e); }
Num deviation(Element& e) { return sqrt(moments(e).variance); }
Num varianceAndMean(Element& e) { return e.result == 0 ? moments(e).variance : runningMean(e); }

// (self, dim, keepdim)
Num logSumExp(Element& e) {
  Num x = loop(e, e.type().dtype).x;
  Num most = e.reduce(Reduction::Max, x);
  Num shift = select(abs(most) == std::numeric_limits<double>::infinity(), 0, most);
  return log(e.reduce(Reduction::Sum, exp(x - shift))) + shift;
}

// (self, ord, dim, keepdim, dtype)
Num norm(Element& e) {
  Num x = loop(e, e.type().dtype).x;
  Scalar order = e.in.scalar(1);
  if (!order.known) notLowered("a norm whose order changes");
  if (order.number == 2) return sqrt(e.reduce(Reduction::Sum, x * x));
  if (order.number == 1) return e.reduce(Reduction::Sum, abs(x));
  if (order.number == std::numeric_limits<double>::infinity()) return e.reduce(Reduction::Max, abs(x));
  notLowered("a norm of this order");
}

}  // namespace

void addReductionElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule, AlongFn along) {
    rows.push_back({std::string("aten::") + name, rule, along});
  };
  add("sum", sum, alongDims<kNoKeep>);
  add("sum.dim_IntList", sum, alongDims<1>);
  add("mean", mean, alongDims<kNoKeep>);
  add("mean.dim", mean, alongDims<1>);
  add("prod", product, alongDims<kNoKeep>);
  add("prod.dim_int", product, alongDim);
  add("amax", extreme<Reduction::Max, Reduction::Any>, alongDims<1>);
  add("amin", extreme<Reduction::Min, Reduction::All>, alongDims<1>);
  add("any", truth<Reduction::Any>, alongDims<kNoKeep>);
  add("any.dim", truth<Reduction::Any>, alongDim);
  add("any.dims", truth<Reduction::Any>, alongNamed);
  add("all", truth<Reduction::All>, alongDims<kNoKeep>);
  add("all.dim", truth<Reduction::All>, alongDim);
  add("all.dims", truth<Reduction::All>, alongNamed);
  add("var.correction", variance, alongDims<1>);
  add("std.correction", deviation, alongDims<1>);
  add("var_mean.correction", varianceAndMean, alongDims<1>);
  add("logsumexp", logSumExp, alongDims<1>);
  add("linalg_vector_norm", norm, alongDims<2>);
  add("std_mean.correction", deviationAndMean, alongDims<1>);
  add("max", extreme<Reduction::Max, Reduction::Any>, alongDims<kNoKeep>);
  add("min", extreme<Reduction::Min, Reduction::All>, alongDims<kNoKeep>);
  add("max.dim", extremeAndPlace<Reduction::Max>, alongDim);
  add("min.dim", extremeAndPlace<Reduction::Min>, alongDim);
  add("argmax", placeOf<Reduction::Max>, alongOneOrAll);
  add("argmin", placeOf<Reduction::Min>, alongOneOrAll);
  add("aminmax", smallestAndLargest, alongOneOrAll);
  add("count_nonzero", countOfNonzero, alongOneOrAll);
  add("count_nonzero.dim_IntList", countOfNonzero, alongDims<1>);
  add("nansum", sumWithoutNans, alongDims<1>);
}

}  // namespace saker::ops
