// What one element is: views, which are maps of places, and operators that move elements without computing.
#include "ops/element.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

Num same(Element& e) { return e.at(0, e.places()); }

size_t dimOf(const Element& e, size_t argument, size_t rank) {
  return static_cast<size_t>(wrapDim(e.in.fixed(argument), static_cast<int64_t>(rank)));
}

// The element with the same number, counted row by row. Dimensions that both begin or end with stay.
Num reshaped(Element& e) {
  const TensorType &from = e.in.tensor(0), &to = e.type();
  const Places& places = e.places();
  size_t front = 0, back = 0;
  while (front < from.rank && front < to.rank && surelyEqual(from.size(front), to.size(front))) ++front;
  while (back + front < from.rank && back + front < to.rank &&
         surelyEqual(from.size(from.rank - 1 - back), to.size(to.rank - 1 - back))) {
    ++back;
  }
  Place linear;
  for (size_t d = front; d + back < to.rank; ++d) linear = linear * to.size(d) + places[d];
  Places own(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(front));
  own.resize(from.rank);
  size_t first = front;  // the first of the dimensions between takes what is left
  while (first + back < from.rank && surelyOne(from.size(first))) ++first;
  for (size_t d = from.rank - back; d-- > first;) {
    if (from.size(d).isConst(0)) break;  // there is no element
    if (d == first) {
      own[d] = linear;
    } else if (!surelyOne(from.size(d))) {
      std::tie(linear, own[d]) = e.divide(linear, from.size(d));
    }
  }
  for (size_t d = 0; d < back; ++d) own[from.rank - 1 - d] = places[to.rank - 1 - d];
  return e.at(0, own);
}

// (self, size): the last dimensions are those of self
Num expanded(Element& e) { return e.broadcast(0, e.type().dtype); }

// (self, dims)
Num permuted(Element& e) {
  Dims dims = e.in.ints(1);
  Places own(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    own[static_cast<size_t>(wrapDim(dims[d].guard(), static_cast<int64_t>(dims.size())))] = e.places()[d];
  }
  return e.at(0, own);
}

Num transposed(Element& e) {
  Places own = e.places();
  if (own.size() > 1) std::swap(own[dimOf(e, 1, own.size())], own[dimOf(e, 2, own.size())]);
  return e.at(0, own);
}

Num t(Element& e) {
  Places own = e.places();
  if (own.size() == 2) std::swap(own[0], own[1]);
  return e.at(0, own);
}

// (self, dim)
Num unsqueezed(Element& e) {
  Places own = e.places();
  own.erase(own.begin() + static_cast<std::ptrdiff_t>(dimOf(e, 1, own.size())));
  return e.at(0, own);
}

// Puts places of one element where dimensions are gone.
Num squeezed(Element& e, uint64_t dims) {
  const TensorType& from = e.in.tensor(0);
  Places own;
  size_t next = 0;
  for (size_t d = 0; d < from.rank; ++d) {
    bool gone = (dims >> d & 1) && surelyOne(from.size(d));
    if (!gone && next == e.places().size()) notLowered("a size of which it is not known whether it is 1");
    own.push_back(gone ? Place() : e.places()[next++]);
  }
  return e.at(0, own);
}

Num squeezedAll(Element& e) { return squeezed(e, allDims(e.in.tensor(0).rank)); }
Num squeezedDim(Element& e) { return squeezed(e, reducedDim(e.in, 1, e.in.tensor(0).rank)); }
Num squeezedDims(Element& e) {
  const TensorType& from = e.in.tensor(0);
  return squeezed(e, dimSet(e.in.ints(1), static_cast<int64_t>(from.rank)));
}

// A start or end as Python counts, where it is known on which side of 0 and of the size it is.
Int clamped(Int at, Int size) {
  if ((at < Int(0)).provablyTrue()) at += size;
  if ((at < Int(0)).provablyTrue()) return 0;
  if ((at >= size).provablyTrue()) return size;
  if ((at >= Int(0)).provablyTrue() && (at <= size).provablyTrue()) return at;
  notLowered("a slice whose start depends on sizes");
}

// (self, dim, start, end, step)
Num sliced(Element& e) {
  const TensorType& from = e.in.tensor(0);
  size_t dim = dimOf(e, 1, from.rank);
  Int start = e.in.given(2) ? clamped(e.in.integer(2), from.size(dim)) : Int(0);
  Places own = e.places();
  own[dim] = own[dim] * e.in.integer(4, 1) + Place(start);
  return e.at(0, own);
}

// (self, dim, index)
Num selected(Element& e) {
  const TensorType& from = e.in.tensor(0);
  size_t dim = dimOf(e, 1, from.rank);
  Int index = e.in.integer(2);
  if ((index < Int(0)).provablyTrue()) {
    index += from.size(dim);
  } else if (!(index >= Int(0)).provablyTrue()) {
    notLowered("an index whose sign depends on sizes");
  }
  Places own = e.places();
  own.insert(own.begin() + static_cast<std::ptrdiff_t>(dim), Place(index));
  return e.at(0, own);
}

// (self, split_size or sizes, dim): result i begins where those before it end
Num part(Element& e) {
  const TensorType& from = e.in.tensor(0);
  size_t dim = dimOf(e, 2, from.rank);
  Int start = 0;
  for (size_t i = 0; i < e.result; ++i) start += e.node.result(i)->tensor()->size(dim);
  Places own = e.places();
  own[dim] = own[dim] + Place(start);
  return e.at(0, own);
}

// (self, dim)
Num unbound(Element& e) {
  Places own = e.places();
  size_t dim = dimOf(e, 1, e.in.tensor(0).rank);
  own.insert(own.begin() + static_cast<std::ptrdiff_t>(dim), Place(Int(e.result)));
  return e.at(0, own);
}

// (self, dims)
Num flipped(Element& e) {
  const TensorType& from = e.in.tensor(0);
  uint64_t dims = dimSet(e.in.ints(1), static_cast<int64_t>(from.rank));
  Places own = e.places();
  for (size_t d = 0; d < from.rank; ++d) {
    if (dims >> d & 1) own[d] = Place(from.size(d) - Int(1)) - own[d];
  }
  return e.at(0, own);
}

// The tensor of a list (argument 0) in which the place along `dim` is. Each takes as many places as `length` says, and
// is read at what `own` makes of the place in it.
template <typename Length, typename Own>
Num oneOf(Element& e, size_t dim, Length&& length, Own&& own) {
  Tensors tensors = e.in.tensors(0);
  constexpr size_t kMost = 16;
  if (tensors.size() > kMost) notLowered("more than 16 tensors put together");
  DType dtype = e.type().dtype;
  Num at = e.number(e.places()[dim]), result = e.integer(computed(dtype), 0);
  Int begin = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Int end = begin + length(*tensors[i]);
    if (begin.same(end)) continue;
    Num inside = (at >= e.number(Place(begin))) & (at < e.number(Place(end)));
    Places places = own(e.places()[dim] - Place(begin));
    result = e.where(inside, [&] { return e.rounded(e.at(0, i, places), dtype); }, result);
    begin = end;
  }
  return result;
}

// (tensors, dim); one without elements may have any rank
Num concatenated(Element& e) {
  size_t dim = dimOf(e, 1, e.type().rank);
  return oneOf(
      e, dim, [&](const TensorType& tensor) { return tensor.rank == e.type().rank ? tensor.size(dim) : Int(0); },
      [&](const Place& inside) {
        Places own = e.places();
        own[dim] = inside;
        return own;
      });
}

Num stacked(Element& e) {
  size_t dim = dimOf(e, 1, e.type().rank);
  return oneOf(
      e, dim, [](const TensorType&) { return Int(1); },
      [&](const Place&) {
        Places own = e.places();
        own.erase(own.begin() + static_cast<std::ptrdiff_t>(dim));
        return own;
      });
}

// (self, pad, value): pairs of (before, behind), the last dimension first
Num padded(Element& e) {
  const TensorType& from = e.in.tensor(0);
  Dims pad = e.in.ints(1);
  Places own = e.places();
  std::optional<Num> inside;
  for (size_t i = 0; 2 * i < pad.size(); ++i) {
    size_t dim = from.rank - 1 - i;
    own[dim] = own[dim] - Place(pad[2 * i]);
    if (pad[2 * i].isConst(0) && pad[2 * i + 1].isConst(0)) continue;
    Num at = e.number(own[dim]);
    Num here = (at >= e.number(Place(Int(0)))) & (at < e.number(Place(from.size(dim))));
    inside = inside ? *inside & here : here;
  }
  DType dtype = e.type().dtype;
  if (!inside) return e.rounded(e.at(0, own), dtype);
  return e.where(
      *inside, [&] { return e.rounded(e.at(0, own), dtype); }, e.rounded(e.scalar(2, computed(dtype)), dtype));
}

}  // namespace

void addViewElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  for (const char* name : {"alias", "detach"}) add(name, same);
  for (const char* name : {"view", "_unsafe_view", "_reshape_alias", "reshape", "view_copy"}) add(name, reshaped);
  for (const char* name : {"expand", "expand_copy"}) add(name, expanded);
  for (const char* name : {"permute", "permute_copy"}) add(name, permuted);
  for (const char* name : {"transpose.int", "transpose_copy.int"}) add(name, transposed);
  for (const char* name : {"t", "t_copy"}) add(name, t);
  for (const char* name : {"unsqueeze", "unsqueeze_copy"}) add(name, unsqueezed);
  for (const char* name : {"squeeze", "squeeze_copy"}) add(name, squeezedAll);
  for (const char* name : {"squeeze.dim", "squeeze_copy.dim"}) add(name, squeezedDim);
  for (const char* name : {"squeeze.dims", "squeeze_copy.dims"}) add(name, squeezedDims);
  for (const char* name : {"slice.Tensor", "slice_copy.Tensor"}) add(name, sliced);
  for (const char* name : {"select.int", "select_copy.int"}) add(name, selected);
  add("split.Tensor", part);
  add("split_with_sizes", part);
  add("unsafe_split.Tensor", part);
  add("unsafe_split_with_sizes", part);
  add("unbind.int", unbound);
  add("flip", flipped);
  add("cat", concatenated);
  add("stack", stacked);
  add("constant_pad_nd", padded);
}

}  // namespace saker::ops
