// What one element is: softmax and normalisation over trailing dimensions, with their derivatives.
#include <limits>

#include "ops/element.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

// Along dimension `at` of argument 0.
template <size_t at>
std::optional<Along> alongDim(const Infer& in, size_t) {
  const TensorType& self = in.tensor(0);
  return Along{&self, self.rank == 0 ? 0 : reducedDim(in, at, self.rank)};
}

// An argument of the shape of the result: at the element itself, and where the loop along `dims` is.
struct Row {
  Element& e;
  Along along = *e.in.op().along(e.in, e.result);

  Num at(size_t i, const Places& places) { return e.rounded(e.at(i, places), e.in.tensor(i).dtype); }
  Num here(size_t i) { return at(i, e.places()); }
  Num there(size_t i) { return at(i, loop()); }
  Places outer() const {
    Places outer;
    for (size_t d = 0; d < along.tensor->rank; ++d) {
      if (!(along.dims >> d & 1)) outer.push_back(e.places()[d]);
    }
    return outer;
  }
  Places loop() { return e.inside(*along.tensor, along.dims, outer()); }
  Num sum(Num x) { return e.reduce(Reduction::Sum, x); }
  Num most(Num x) { return e.reduce(Reduction::Max, x); }
};

// (self, dim, half_to_float)
Num softmax(Element& e) {
  Row row{e};
  Num most = row.most(row.there(0));
  return exp(row.here(0) - most) / row.sum(exp(row.there(0) - most));
}

// (self, dim, dtype): of rows that are -inf throughout, zeros
Num safeSoftmax(Element& e) {
  if (e.in.tensor(0).dtype != e.type().dtype) notLowered("a softmax of another dtype");
  Row row{e};
  Num most = row.most(row.there(0));
  Num whole = exp(row.here(0) - most) / row.sum(exp(row.there(0) - most));
  return select(most == -std::numeric_limits<double>::infinity(), 0, whole);
}

// Along rows, eager mode keeps sums and their logarithms in the dtype of the result.
Num logSoftmax(Element& e) {
  Row row{e};
  const TensorType& self = *row.along.tensor;
  bool alongRows = true;
  for (size_t d = self.rank; d-- > 0 && !(row.along.dims >> d & 1);) alongRows &= surelyOne(self.size(d));
  auto kept = [&](Num x) { return alongRows ? e.rounded(x, e.type().dtype) : x; };
  Num most = row.most(row.there(0));
  return row.here(0) - most - kept(log(kept(row.sum(exp(row.there(0) - most)))));
}

// (grad_output, output, dim, input_dtype)
Num softmaxBackward(Element& e) {
  Row row{e};
  return (row.here(0) - row.sum(row.there(0) * row.there(1))) * row.here(1);
}

Num logSoftmaxBackward(Element& e) {
  Row row{e};
  return row.here(0) - exp(row.here(1)) * row.sum(row.there(0));
}

// ---- layer norm ----

// The normalised dimensions, which argument `shape` names from the end.
uint64_t trailing(const Infer& in, const TensorType& input, size_t shape) {
  size_t count = in.ints(shape).size();
  return allDims(input.rank) & ~allDims(input.rank - count);
}

std::optional<Along> alongNormalized(const Infer& in, size_t) {
  const TensorType& input = in.tensor(0);
  return Along{&input, trailing(in, input, 1)};
}

// The places of a parameter: those of the normalised dimensions.
Places last(const Places& places, size_t count) {
  return Places(places.end() - static_cast<std::ptrdiff_t>(count), places.end());
}

Num countOf(Element& e, const Along& along, DType dtype) {
  Int count = 1;
  for (size_t d = 0; d < along.tensor->rank; ++d) {
    if (along.dims >> d & 1) count *= along.tensor->size(d);
  }
  return e.convert(e.number(Place(count)), dtype);
}

// (input, normalized_shape, weight, bias, eps)
Num layerNorm(Element& e) {
  Row row{e};
  Num there = row.there(0);
  Num count = countOf(e, row.along, there.dtype);
  Num mean = row.sum(there) / count;
  if (e.result == 1) return mean;
  Num off = there - mean;
  Num scale = 1 / sqrt(row.sum(off * off) / count + e.constant(there.dtype, e.in.number(4)));
  if (e.result == 2) return scale;
  size_t shape = e.in.ints(1).size();
  Num y = (row.here(0) - mean) * scale;
  if (e.in.given(2)) y = y * row.at(2, last(e.places(), shape));
  if (e.in.given(3)) return y + row.at(3, last(e.places(), shape));
  return e.in.given(2) ? y + 0 : y;  // as with a bias of zeros: of a zero the sign is lost
}

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask): the input's gradient is reduced along
// rows, those of the parameters along all other dimensions.
std::optional<Along> alongLayerNormBackward(const Infer& in, size_t result) {
  const TensorType& input = in.tensor(1);
  uint64_t normalized = trailing(in, input, 2);
  return Along{&input, result == 0 ? normalized : allDims(input.rank) & ~normalized};
}

Num layerNormBackward(Element& e) {
  const TensorType& input = e.in.tensor(1);
  size_t shape = e.in.ints(2).size();
  Along along = *alongLayerNormBackward(e.in, e.result);
  auto read = [&](size_t i, const Places& places) {
    return e.convert(e.at(i, places), computed(e.in.tensor(i).dtype));
  };
  // Statistics have one element in each normalised dimension.
  auto statistic = [&](size_t i, Places places) {
    for (size_t d = input.rank - shape; d < input.rank; ++d) places[d] = Place();
    return read(i, places);
  };
  if (e.result != 0) {
    Places there = e.inside(input, along.dims, e.places());
    Num grad = read(0, there);
    if (e.result == 2) return e.reduce(Reduction::Sum, grad);
    Num scale = statistic(4, there);
    return e.reduce(Reduction::Sum, grad * (scale * read(1, there) - scale * statistic(3, there)));
  }
  Places outer(e.places().begin(), e.places().end() - static_cast<std::ptrdiff_t>(shape));
  Places there = e.inside(input, along.dims, outer);
  auto weighted = [&](const Places& places) {
    Num grad = read(0, places);
    return e.in.given(5) ? grad * read(5, last(places, shape)) : grad;
  };
  Num mean = statistic(3, e.places()), scale = statistic(4, e.places());
  Num products = e.reduce(Reduction::Sum, weighted(there) * read(1, there));
  Num grads = e.reduce(Reduction::Sum, weighted(there));
  Num part = 1 / countOf(e, along, scale.dtype);
  Num b = (grads * mean - products) * scale * scale * scale * part;
  Num c = -b * mean - grads * scale * part;
  return scale * weighted(e.places()) + b * read(1, e.places()) + c;
}

}  // namespace

void addNormalizationElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule, AlongFn along) {
    rows.push_back({std::string("aten::") + name, rule, along});
  };
  add("_softmax", softmax, alongDim<1>);
  add("_safe_softmax", safeSoftmax, alongDim<1>);
  add("_log_softmax", logSoftmax, alongDim<1>);
  add("_softmax_backward_data", softmaxBackward, alongDim<2>);
  add("_log_softmax_backward_data", logSoftmaxBackward, alongDim<2>);
  add("native_layer_norm", layerNorm, alongNormalized);
  add("native_layer_norm_backward", layerNormBackward, alongLayerNormBackward);
}

}  // namespace saker::ops
