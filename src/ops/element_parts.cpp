// What one element is: tensors of which a part is another one, or which repeat what they are made of at their ends; and
// views that are rare.
#include <algorithm>

#include "ops/element.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

size_t dimOf(const Element& e, size_t argument, size_t rank) {
  return static_cast<size_t>(wrapDim(e.in.fixed(argument), static_cast<int64_t>(rank)));
}

int64_t known(Int size, const char* what) {
  if (!size.isConst()) notLowered(what);
  return size.constant();
}

// ---- a part that is another tensor ----

// The element of argument `part` where the place along `dim` is inside of a slice, else `otherwise`. The slice has as
// many elements as the part.
Num partOr(Element& e, size_t part, size_t dim, size_t start, size_t step, Num otherwise) {
  int64_t size = known(e.type().size(dim), "a part of a size that changes");
  int64_t count = known(e.in.tensor(part).size(dim), "a part of a size that changes");
  int64_t by = e.in.fixed(step, 1), first = e.in.given(start) ? known(e.in.integer(start), "a start that changes") : 0;
  first = std::clamp<int64_t>(first < 0 ? first + size : first, 0, size);
  Places own = e.places();
  Num at = e.number(own[dim] - Place(Int(first)));
  Num inside = (at >= 0) & (at < e.integer(DType::Int64, (count - 1) * by + 1));
  if (by != 1) {
    int64_t before = (first + by - 1) / by;  // so that what is divided is not negative
    auto [quotient, rest] = e.divide(own[dim] + Place(Int(before * by - first)), Int(by));
    inside = inside & (e.number(rest) == 0);
    own[dim] = quotient - Place(Int(before));
  } else {
    own[dim] = own[dim] - Place(Int(first));
  }
  DType dtype = e.in.tensor(part).dtype;
  return e.where(inside, [&] { return e.rounded(e.at(part, own), dtype); }, otherwise);
}

Num nothing(Element& e) { return e.integer(computed(e.type().dtype), 0); }

// What is written is a copy of self with its strides: where elements share an address, what is written to one is
// written to others.
void requireApart(Element& e) {
  if (e.in.tensor(0).dtype != e.in.tensor(1).dtype) notLowered("a part of another dtype");
  if (!surelyApart(e.type())) notLowered("elements that may lie in one place");
}

// (self, src, dim, start, end, step)
Num sliceScatter(Element& e) {
  requireApart(e);
  return partOr(e, 1, dimOf(e, 2, e.type().rank), 3, 5, e.x());
}

// (grad_output, input_sizes, dim, start, end, step)
Num sliceBackward(Element& e) { return partOr(e, 0, dimOf(e, 2, e.type().rank), 3, 5, nothing(e)); }

// The element of argument `part`, which has one dimension less, where the place along `dim` is `index`.
Num rowOr(Element& e, size_t part, size_t dim, size_t index, Num otherwise) {
  int64_t size = known(e.type().size(dim), "a part of a size that changes");
  int64_t at = known(e.in.integer(index), "an index that changes");
  Places own = e.places();
  Num here = e.number(own[dim]) == e.integer(DType::Int64, at < 0 ? at + size : at);
  own.erase(own.begin() + static_cast<std::ptrdiff_t>(dim));
  DType dtype = e.in.tensor(part).dtype;
  return e.where(here, [&] { return e.rounded(e.at(part, own), dtype); }, otherwise);
}

// (self, src, dim, index)
Num selectScatter(Element& e) {
  requireApart(e);
  return rowOr(e, 1, dimOf(e, 2, e.type().rank), 3, e.x());
}

// (grad_output, input_sizes, dim, index)
Num selectBackward(Element& e) { return rowOr(e, 0, dimOf(e, 2, e.type().rank), 3, nothing(e)); }

// ---- what repeats ----

// (self, repeats): in front there may be dimensions more
Num repeated(Element& e) {
  const TensorType& self = e.in.tensor(0);
  Places own;
  size_t more = e.places().size() - self.rank;
  for (size_t d = 0; d < self.rank; ++d) {
    own.push_back(surelyOne(self.size(d)) ? Place() : e.divide(e.places()[more + d], self.size(d)).second);
  }
  return e.at(0, own);
}

// (self, padding): pairs of (before, behind), the last dimension first. `inside`: of a place that may be outside.
template <Num (*inside)(Num at, Num last)>
Num paddedByItself(Element& e) {
  const TensorType& from = e.in.tensor(0);
  Dims pad = e.in.ints(1);
  Places own = e.places();
  for (size_t i = 0; 2 * i < pad.size(); ++i) {
    size_t dim = from.rank - 1 - i;
    own[dim] = own[dim] - Place(pad[2 * i]);
    if (pad[2 * i].isConst(0) && pad[2 * i + 1].isConst(0)) continue;
    own[dim] = e.place(inside(e.number(own[dim]), e.number(Place(from.size(dim) - Int(1)))));
  }
  return e.at(0, own);
}

Num mirrored(Num at, Num last) {
  at = abs(at);
  return select(at > last, last + last - at, at);
}
Num nearestInside(Num at, Num last) { return min(max(at, 0), last); }

// ---- views ----

Num same(Element& e) { return e.at(0, e.places()); }

// (self, offset, dim1, dim2): what is along the diagonal comes last
Num diagonal(Element& e) {
  size_t rank = e.in.tensor(0).rank, first = dimOf(e, 2, rank), second = dimOf(e, 3, rank);
  int64_t offset = e.in.fixed(1, 0);
  Places own(rank);
  for (size_t d = 0, next = 0; d < rank; ++d) {
    if (d != first && d != second) own[d] = e.places()[next++];
  }
  own[first] = e.places().back() + Place(Int(std::max<int64_t>(-offset, 0)));
  own[second] = e.places().back() + Place(Int(std::max<int64_t>(offset, 0)));
  return e.at(0, own);
}

// (self, dimension, size, step): the place inside of a window comes last
Num unfolded(Element& e) {
  size_t rank = e.in.tensor(0).rank;
  if (rank == 0) notLowered("windows of a tensor without dimensions");
  size_t dim = dimOf(e, 1, rank);
  Places own(e.places().begin(), e.places().end() - 1);
  own[dim] = own[dim] * e.in.integer(3) + e.places().back();
  return e.at(0, own);
}

}  // namespace

void addPartElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  add("slice_scatter", sliceScatter);
  add("slice_backward", sliceBackward);
  add("select_scatter", selectScatter);
  add("select_backward", selectBackward);
  add("repeat", repeated);
  for (const char* name : {"reflection_pad1d", "reflection_pad2d", "reflection_pad3d"}) {
    add(name, paddedByItself<mirrored>);
  }
  for (const char* name : {"replication_pad1d", "replication_pad2d", "replication_pad3d"}) {
    add(name, paddedByItself<nearestInside>);
  }
  add("lift_fresh", same);
  add("diagonal", diagonal);
  add("unfold", unfolded);
}

}  // namespace saker::ops
