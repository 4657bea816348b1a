// What one element is: elements that are read at indices which are data, and other places of the same elements.
#include "ops/element.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

size_t dimOf(const Element& e, size_t argument, size_t rank) {
  return static_cast<size_t>(wrapDim(e.in.fixed(argument), static_cast<int64_t>(rank)));
}

Num requireIndex(Num index) {
  if (!ir::isIntegral(index.dtype, false) || index.dtype == DType::UInt8) notLowered("indices that are a mask");
  return index;
}

// Argument `i` with an index that is data along `dim`: within the size, or eager mode raises.
Num readAt(Element& e, size_t i, Places places, size_t dim, Num index) {
  Num size = e.number(Place(e.in.tensor(i).size(dim)));
  Num holds = (index >= 0) & (index < size);
  e.check(holds);
  places[dim] = e.place(index);
  const DType dtype = e.in.tensor(i).dtype;
  return e.where(holds, [&] { return e.rounded(e.at(i, places), dtype); }, e.integer(computed(dtype), 0));
}

// (weight, indices)
Num embedding(Element& e) {
  Places at(e.places().begin(), e.places().end() - 1);
  Num index = e.convert(requireIndex(e.at(1, at)), DType::Int64);
  return readAt(e, 0, {Place(), e.places().back()}, 0, index);
}

// (self, dim, index)
Num indexSelect(Element& e) {
  const TensorType &self = e.in.tensor(0), &indices = e.in.tensor(2);
  if (self.rank == 0) notLowered("an index into a tensor without dimensions");
  size_t dim = dimOf(e, 1, self.rank);
  Num index = requireIndex(e.at(2, indices.rank == 0 ? Places() : Places{e.places()[dim]}));
  return readAt(e, 0, e.places(), dim, e.convert(index, DType::Int64));
}

// (self, dim, index)
Num gather(Element& e) {
  const TensorType& self = e.in.tensor(0);
  if (self.rank == 0) notLowered("an index into a tensor without dimensions");
  Num index = requireIndex(e.at(2, e.places()));
  return readAt(e, 0, e.places(), dimOf(e, 1, self.rank), e.convert(index, DType::Int64));
}

// (self, indices): the dimensions of the indices stand where the first indexed dimension was, if these are neighbours,
// else in front.
Num indexed(Element& e) {
  const TensorType& self = e.in.tensor(0);
  Tensors indices = e.in.tensors(1);
  std::vector<size_t> dims;
  size_t rank = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    dims.push_back(d);
    rank = std::max(rank, size_t{indices[d]->rank});
  }
  if (dims.empty()) notLowered("no index at all");
  bool neighbours = dims.back() - dims.front() + 1 == dims.size();
  size_t first = neighbours ? dims.front() : 0;
  const Places& all = e.places();
  Places own(self.rank);
  for (size_t d = 0, next = 0; d < self.rank; ++d) {
    if (next == first) next += rank;
    if (d < indices.size() && indices[d]) continue;
    own[d] = all[next++];
  }
  std::optional<Num> holds;
  for (size_t d : dims) {
    const TensorType& index = *indices[d];
    Places at = placesInBroadcast(index, e.type().sizes().subspan(first, rank), std::span(all).subspan(first, rank));
    Num number = e.convert(requireIndex(e.at(1, d, at)), DType::Int64), size = e.number(Place(self.size(d)));
    number = select(number < 0, number + size, number);
    Num within = (number >= 0) & (number < size);
    e.check(within);
    holds = holds ? *holds & within : within;
    own[d] = e.place(number);
  }
  return e.where(*holds, [&] { return e.rounded(e.at(0, own), self.dtype); }, e.integer(computed(self.dtype), 0));
}

// ---- the same elements at other places ----

// (self, shifts, dims): a dimension at a time, each one two pieces
Num rolled(Element& e) {
  const TensorType& self = e.in.tensor(0);
  Dims shifts = e.in.ints(1), dims = e.in.ints(2);
  if (shifts.size() != 1 || dims.size() != 1) notLowered("roll along several dimensions, or along all as one");
  size_t dim = static_cast<size_t>(wrapDim(dims[0].guard(), static_cast<int64_t>(self.rank)));
  if (!shifts[0].isConst() || !self.size(dim).isConst()) notLowered("roll of a size that changes");
  int64_t size = self.size(dim).constant(), shift = ((shifts[0].constant() % size) + size) % size;
  DType dtype = self.dtype;
  Places behind = e.places(), before = e.places();
  behind[dim] = behind[dim] - Place(Int(shift));
  before[dim] = before[dim] + Place(Int(size - shift));
  if (shift == 0) return e.at(0, e.places());
  Num isBehind = e.number(behind[dim]) >= 0;
  Num one = e.where(isBehind, [&] { return e.rounded(e.at(0, behind), dtype); }, e.integer(computed(dtype), 0));
  Num other = e.where(!isBehind, [&] { return e.rounded(e.at(0, before), dtype); }, e.integer(computed(dtype), 0));
  return select(isBehind, one, other);
}

// (self, diagonal)
template <bool lower>
Num triangle(Element& e) {
  const Places& at = e.places();
  Num off = e.number(at[at.size() - 1] - at[at.size() - 2] - Place(e.in.integer(1, 0)));
  Num x = e.x();
  Num zero = e.integer(x.dtype, 0);
  return lower ? select(off <= 0, x, zero) : select(off >= 0, x, zero);
}

}  // namespace

void addIndexElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  add("embedding", embedding);
  add("index_select", indexSelect);
  add("gather", gather);
  add("index.Tensor", indexed);
  add("_unsafe_index.Tensor", indexed);
  add("roll", rolled);
  add("tril", triangle<true>);
  add("triu", triangle<false>);
}

}  // namespace saker::ops
