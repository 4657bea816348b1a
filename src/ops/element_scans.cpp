// What one element is: running sums and products, largest and smallest so far. Eager mode goes through a row in order,
// and so do these.
#include "ops/element.h"
#include "ops/reduce.h"

namespace saker::ops {
namespace {

std::optional<Along> alongDim(const Infer& in, size_t) {
  const TensorType& self = in.tensor(0);
  return Along{&self, reducedDim(in, 1, self.rank)};
}

struct Step {
  Num x;
  Place at;  // along the dimension
};

// The element of self in this step, as `dtype` is computed in.
Step stepOf(Element& e, DType dtype) {
  const TensorType& self = e.in.tensor(0);
  if (self.rank == 0) notLowered("a scan of one number");
  auto dim = static_cast<size_t>(wrapDim(e.in.fixed(1), static_cast<int64_t>(self.rank)));
  Places places = e.running(self, dim);
  return {e.rounded(e.at(0, places), dtype), places[dim]};
}

// What eager mode adds up in: more digits than f32 has, or the range of i64.
DType accumulated(DType dtype) {
  if (dtype == DType::Float32) return DType::Float64;
  return ir::isFloat(dtype) ? computed(dtype) : DType::Int64;
}

// (self, dim, dtype)
template <Reduction kind>
Num running(Element& e) {
  DType dtype = e.type().dtype;
  if (dtype == DType::Bool) notLowered("a scan that gives bools");
  return e.scan(kind, e.convert(stepOf(e, dtype).x, accumulated(dtype)));
}

// (self, dim): the number and its place; of equal ones the last, of nans too.
template <Reduction kind>
Num extremeSoFar(Element& e) {
  DType dtype = e.in.tensor(0).dtype;
  if (dtype == DType::Bool) notLowered("the largest of bools so far");
  auto [x, at] = stepOf(e, dtype);
  Num most = e.scan(kind, x);
  if (e.result == 0) return most;
  Num hit = x == most;
  if (ir::isFloat(x.dtype)) hit = hit | isNan(x);
  return e.scan(Reduction::Max, select(hit, e.number(at), e.integer(DType::Int64, -1)));
}

}  // namespace

void addScanElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule, alongDim}); };
  add("cumsum", running<Reduction::Sum>);
  add("cumprod", running<Reduction::Prod>);
  add("cummax", extremeSoFar<Reduction::Max>);
  add("cummin", extremeSoFar<Reduction::Min>);
}

}  // namespace saker::ops
