// What is put at places that are data: what the result holds before, and what each step does to it. Steps that meet are
// done in the order in which eager mode does them.
#include <optional>
#include <unordered_map>
#include <utility>

#include "ops/element.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

using Combine = Num (*)(Num old, Num x);

Num replaced(Num, Num x) { return x; }
Num added(Num old, Num x) { return old + x; }
Num multiplied(Num old, Num x) { return old * x; }
// Of zeros with two signs, the one that was there.
Num larger(Num old, Num x) { return select(isNan(x) | (old < x), x, old); }
Num smaller(Num old, Num x) { return select(isNan(x) | (x < old), x, old); }

size_t dimOf(const Infer& in) {
  return static_cast<size_t>(wrapDim(in.fixed(1), static_cast<int64_t>(in.tensor(0).rank)));
}

// What self holds, where it is the first argument.
Num whatWas(Element& e) { return e.at(0, e.places()); }
Num zero(Element& e) { return e.integer(computed(e.type().dtype), 0); }

void requireNumbers(const Element& e) {
  if (e.type().dtype == DType::Bool) notLowered("bools that are added");
}

Num indexOf(Element& e, Num index) {
  if (index.dtype != DType::Int64 && index.dtype != DType::Int32) notLowered("indices that are a mask");
  return e.convert(index, DType::Int64);
}

// Within the size, or eager mode raises.
Num within(Element& e, Num index, Int size) {
  Num holds = (index >= 0) & (index < e.number(Place(size)));
  e.check(holds);
  return holds;
}

// ---- an index for each element ----

// (self, dim, index, ...)
Steps stepsOfIndex(const Infer& in) {
  const TensorType& index = in.tensor(2);
  if (in.tensor(0).rank == 0 || index.rank != in.tensor(0).rank) notLowered("an index without dimensions");
  return {Dims(index.sizes()), uint64_t{1} << dimOf(in)};
}

void scatterWith(Element& e, Combine combine) {
  size_t dim = dimOf(e.in);
  DType dtype = e.type().dtype;
  if (combine != replaced) requireNumbers(e);
  if ((combine == added || combine == multiplied) && computed(dtype) != dtype) {
    notLowered("sums of half precision that eager mode rounds once");
  }
  Num index = indexOf(e, e.at(2, e.places()));
  Num holds = within(e, index, e.in.tensor(0).size(dim));
  Places at = e.places();
  at[dim] = e.place(index);
  bool isTensor = e.in.arg(3).isValue() && e.in.arg(3).toValue()->tensor();
  Num x = e.rounded(isTensor ? e.at(3, e.places()) : e.scalar(3, computed(dtype)), dtype);
  e.put(holds, at, [&](Num old) { return combine(old, x); });
}

template <Combine combine>
void scatter(Element& e) {
  scatterWith(e, combine);
}

Combine combineOf(const Element& e) {
  std::string_view name = e.in.string(4);
  if (name == "add" || name == "sum") return added;
  if (name == "multiply" || name == "prod") return multiplied;
  if (name == "amax") return larger;
  if (name == "amin") return smaller;
  notLowered("a scatter of " + std::string(name));
}

// (self, dim, index, src or value, reduce, include_self)
void scatterReduce(Element& e) {
  if (!e.in.boolean(5, true)) notLowered("a scatter that leaves out what was there");
  scatterWith(e, combineOf(e));
}

// ---- an index for each place along a dimension ----

// (self, dim, index, source, ...)
Steps stepsOfSource(const Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2), &source = in.tensor(3);
  if (self.rank == 0 || index.rank != 1 || source.rank != self.rank) notLowered("an index without dimensions");
  return {Dims(source.sizes()), uint64_t{1} << dimOf(in)};
}

// (self, dim, index, source, alpha)
template <Combine combine>
void alongIndex(Element& e) {
  size_t dim = dimOf(e.in);
  DType dtype = e.type().dtype;
  if (combine != replaced) {
    requireNumbers(e);
    Scalar alpha = e.in.scalar(4);
    if (!alpha.known || alpha.number != 1) notLowered("an index_add with alpha");
    if (dim == 0 && computed(dtype) != dtype) notLowered("sums of half precision that eager mode rounds once");
  }
  Num index = indexOf(e, e.at(2, Places{e.places()[dim]}));
  Num holds = within(e, index, e.in.tensor(0).size(dim));
  Places at = e.places();
  at[dim] = e.place(index);
  Num x = e.rounded(e.at(3, e.places()), dtype);
  e.put(holds, at, [&](Num old) { return combine(old, x); });
}

// (self, dim, index, value): a number, or a tensor without dimensions
Steps stepsOfFill(const Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2);
  if (self.rank == 0 || index.rank != 1) notLowered("an index without dimensions");
  Steps steps{Dims(self.sizes()), uint64_t{1} << dimOf(in)};
  steps.sizes[dimOf(in)] = index.size(0);
  return steps;
}

void fillAlongIndex(Element& e) {
  size_t dim = dimOf(e.in);
  DType dtype = e.type().dtype;
  Num index = indexOf(e, e.at(2, Places{e.places()[dim]})), size = e.number(Place(e.in.tensor(0).size(dim)));
  index = select(index < 0, index + size, index);
  Num holds = within(e, index, e.in.tensor(0).size(dim));
  Places at = e.places();
  at[dim] = e.place(index);
  bool isTensor = e.in.arg(3).isValue() && e.in.arg(3).toValue()->tensor();
  Num x = e.rounded(isTensor ? e.at(3, Places()) : e.scalar(3, computed(dtype)), dtype);
  e.put(holds, at, [&](Num) { return x; });
}

// ---- embedding, backward ----

// (gradient, indices, number of rows, padding, scale by frequency)
Steps stepsOfRows(const Infer& in) {
  if (in.boolean(4)) notLowered("gradients divided by how often an index occurs");
  const TensorType &gradient = in.tensor(0), &indices = in.tensor(1);
  bool fits = gradient.rank == size_t{indices.rank} + 1;
  for (size_t d = 0; fits && d < indices.rank; ++d) fits = surelyEqual(gradient.size(d), indices.size(d));
  if (!fits) notLowered("a gradient of other sizes than its indices");
  return {Dims(gradient.sizes()), (uint64_t{1} << indices.rank) - 1};
}

// Eager mode leaves out indices that are out of range.
void putRows(Element& e) {
  Places at(e.places().begin(), e.places().end() - 1);
  Num index = indexOf(e, e.at(1, at));
  Num holds = (index >= 0) & (index < e.number(Place(e.in.integer(2)))) & (index != e.number(Place(e.in.integer(3))));
  Num x = e.rounded(e.at(0, e.places()), e.type().dtype);
  e.put(holds, {e.place(index), e.places().back()}, [&](Num old) { return old + x; });
}

// ---- several indices ----

// (self, indices, values, accumulate): where the dimensions of the indices stand among those of the steps.
struct Indexed {
  std::vector<size_t> dims;  // of self that have an index
  size_t rank = 0;           // of the indices, broadcast
  size_t first = 0;          // where their dimensions begin
  Dims sizes;                // of the indices
};
Indexed indexedOf(const Infer& in) {
  Tensors indices = in.tensors(1);
  Indexed out;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    if (!ir::isIntegral(indices[d]->dtype, false) || indices[d]->dtype == DType::UInt8) {
      notLowered("indices that are a mask");
    }
    out.dims.push_back(d);
    Dims sizes(indices[d]->sizes());
    if (sizes.size() < out.sizes.size()) std::swap(sizes, out.sizes);
    for (size_t i = 0; i < out.sizes.size(); ++i) {
      Int& size = sizes[sizes.size() - out.sizes.size() + i];
      if (surelyOne(size)) size = out.sizes[i];
    }
    out.sizes = std::move(sizes);
  }
  if (out.dims.empty()) notLowered("no index at all");
  out.rank = out.sizes.size();
  bool neighbours = out.dims.back() - out.dims.front() + 1 == out.dims.size();
  out.first = neighbours ? out.dims.front() : 0;
  return out;
}

Steps stepsOfIndices(const Infer& in) {
  const TensorType& self = in.tensor(0);
  Indexed indexed = indexedOf(in);
  Tensors indices = in.tensors(1);
  Steps steps;
  auto own = [&](size_t d) { return d >= indices.size() || !indices[d]; };
  for (size_t d = 0; d < self.rank; ++d) {
    if (steps.sizes.size() == indexed.first) {
      for (Int size : indexed.sizes) steps.sizes.push_back(size);
    }
    if (own(d)) steps.sizes.push_back(self.size(d));
  }
  for (size_t i = 0; i < indexed.rank; ++i) steps.ordered |= uint64_t{1} << (indexed.first + i);
  return steps;
}

void putAtIndices(Element& e) {
  const TensorType &self = e.in.tensor(0), &values = e.in.tensor(2);
  Tensors indices = e.in.tensors(1);
  Indexed indexed = indexedOf(e.in);
  Steps steps = stepsOfIndices(e.in);
  const Places& all = e.places();
  Places at(self.rank);
  for (size_t d = 0, next = 0; d < self.rank; ++d) {
    if (next == indexed.first) next += indexed.rank;
    if (d < indices.size() && indices[d]) continue;
    at[d] = all[next++];
  }
  std::optional<Num> holds;
  for (size_t d : indexed.dims) {
    auto part = std::span(all).subspan(indexed.first, indexed.rank);
    Num index = indexOf(e, e.at(1, d, placesInBroadcast(*indices[d], indexed.sizes, part)));
    index = select(index < 0, index + e.number(Place(self.size(d))), index);
    Num one = within(e, index, self.size(d));
    holds = holds ? *holds & one : one;
    at[d] = e.place(index);
  }
  bool adds = e.in.boolean(3);
  if (adds) requireNumbers(e);
  Num x = e.rounded(e.at(2, placesInBroadcast(values, steps.sizes, all)), self.dtype);
  e.put(*holds, at, [&](Num old) { return adds ? old + x : x; });
}

struct Rule {
  std::string op;
  ElementFn before;
  PutRule rule;
};
const std::vector<Rule>& table() {
  static const std::vector<Rule> rows = [] {
    std::vector<Rule> made;
    auto add = [&](const char* name, ElementFn before, Steps (*steps)(const Infer&), void (*put)(Element&)) {
      made.push_back({std::string("aten::") + name, before, {steps, put}});
    };
    add("scatter.src", whatWas, stepsOfIndex, scatter<replaced>);
    add("scatter.value", whatWas, stepsOfIndex, scatter<replaced>);
    add("scatter_add", whatWas, stepsOfIndex, scatter<added>);
    add("scatter.reduce", whatWas, stepsOfIndex, scatterReduce);
    add("scatter.value_reduce", whatWas, stepsOfIndex, scatterReduce);
    add("scatter_reduce.two", whatWas, stepsOfIndex, scatterReduce);
    add("index_add", whatWas, stepsOfSource, alongIndex<added>);
    add("index_copy", whatWas, stepsOfSource, alongIndex<replaced>);
    add("index_fill.int_Scalar", whatWas, stepsOfFill, fillAlongIndex);
    add("index_fill.int_Tensor", whatWas, stepsOfFill, fillAlongIndex);
    add("embedding_dense_backward", zero, stepsOfRows, putRows);
    add("index_put", whatWas, stepsOfIndices, putAtIndices);
    add("_unsafe_index_put", whatWas, stepsOfIndices, putAtIndices);
    return made;
  }();
  return rows;
}

}  // namespace

void addScatterElements(ElementRows& rows) {
  for (const Rule& row : table()) rows.push_back({row.op, row.before});
}

const PutRule* putRuleOf(const Operator* op) {
  static const std::unordered_map<const Operator*, const PutRule*> rules = [] {
    std::unordered_map<const Operator*, const PutRule*> made;
    for (const Rule& row : table()) made.emplace(find(row.op), &row.rule);
    return made;
  }();
  auto found = rules.find(op);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace saker::ops
