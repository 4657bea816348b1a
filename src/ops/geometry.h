// The geometry of views: sizes, strides and offset (and dtype, conj and neg bits where they change) of a view, from
// those of its base. Views, their *_copy and *_scatter forms and the in-place forms that change a tensor's own
// metadata all take it from here.
#pragma once

#include <optional>

#include "ops/infer.h"
#include "ops/shape.h"

namespace saker::ops {

// Changes `view`, which starts as the base itself. `first`: position of the first argument behind self (and src).
using Geometry = void (*)(const Infer& in, TensorSpec& view, size_t first);

namespace geometry {

// One input, and no argument.
void same(const Infer& in, TensorSpec& view, size_t first);
void conjugate(const Infer& in, TensorSpec& view, size_t first);
void negative(const Infer& in, TensorSpec& view, size_t first);
void asReal(const Infer& in, TensorSpec& view, size_t first);
void asComplex(const Infer& in, TensorSpec& view, size_t first);
void t(const Infer& in, TensorSpec& view, size_t first);
void squeeze(const Infer& in, TensorSpec& view, size_t first);

// Other shapes of all elements.
void view(const Infer& in, TensorSpec& view, size_t first);
void ofDtype(const Infer& in, TensorSpec& view, size_t first);
void reshapeAlias(const Infer& in, TensorSpec& view, size_t first);
void expand(const Infer& in, TensorSpec& view, size_t first);
void permute(const Infer& in, TensorSpec& view, size_t first);
void transpose(const Infer& in, TensorSpec& view, size_t first);
void squeezeDim(const Infer& in, TensorSpec& view, size_t first);
void squeezeDims(const Infer& in, TensorSpec& view, size_t first);
void unsqueeze(const Infer& in, TensorSpec& view, size_t first);

// Some of the elements.
void slice(const Infer& in, TensorSpec& view, size_t first);
void select(const Infer& in, TensorSpec& view, size_t first);
void diagonal(const Infer& in, TensorSpec& view, size_t first);
void unfold(const Infer& in, TensorSpec& view, size_t first);
void asStrided(const Infer& in, TensorSpec& view, size_t first);

}  // namespace geometry

// The same, with the arguments already read.
void sliceDim(TensorSpec& view, int64_t dim, Int start, Int length, Int step);
void selectIndex(TensorSpec& view, int64_t dim, Int index);

// Sizes in which a -1 is found from the number of elements; refuses what does not fit.
Dims inferSizes(IntSpan requested, Int numel);
// Strides that let `sizes` and `strides` be seen as `target` (of as many elements), or nothing where only a copy can.
std::optional<Dims> viewStrides(IntSpan sizes, IntSpan strides, IntSpan target);

// What clone with preserved strides gives: the tensor's own strides and offset, unless elements of it share an address.
TensorSpec clonePreservingStrides(const Infer& in, const TensorType& base);

}  // namespace saker::ops
