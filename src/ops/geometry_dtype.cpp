// Views of the same memory as elements of another type, and the bits that put off a conjugation or a negation.
#include "ops/geometry.h"

namespace saker::ops::geometry {

void conjugate(const Infer&, TensorSpec& view, size_t) {
  if (!ir::isComplex(view.dtype)) refuse("only a complex tensor has a conjugate view");
  view.flags.conj = !view.flags.conj;
}

void negative(const Infer&, TensorSpec& view, size_t) { view.flags.neg = !view.flags.neg; }

void asReal(const Infer&, TensorSpec& view, size_t) {
  if (!ir::isComplex(view.dtype)) refuse("only a complex tensor can be seen as real");
  if (view.flags.conj) refuse("a conjugate view cannot be seen as real");
  view.dtype = ir::toReal(view.dtype);
  for (Int& stride : view.strides) stride *= 2;
  view.offset *= 2;
  view.sizes.push_back(2);
  view.strides.push_back(1);
}

void asComplex(const Infer&, TensorSpec& view, size_t) {
  if (view.dtype != DType::Float16 && view.dtype != DType::Float32 && view.dtype != DType::Float64) {
    refuse("only half, float and double tensors can be seen as complex");
  }
  if (view.sizes.empty() || view.sizes.back() != Int(2) || view.strides.back() != Int(1)) {
    refuse("the last dimension must be of size 2 and stride 1 to be seen as complex");
  }
  view.sizes.pop_back();
  view.strides.pop_back();
  if (view.offset % Int(2) != Int(0)) refuse("the offset must be even to be seen as complex");
  for (Int& stride : view.strides) {
    if (stride % Int(2) != Int(0)) refuse("strides must be even to be seen as complex");
    stride = stride / Int(2);
  }
  view.offset = view.offset / Int(2);
  view.dtype = ir::toComplex(view.dtype);
}

void ofDtype(const Infer& in, TensorSpec& view, size_t first) {
  std::optional<DType> wanted = in.dtype(first);
  if (!wanted) refuse("a dtype is needed");
  if (ir::category(*wanted) == 'x') unsupported("a view as a dtype without arithmetic");
  if (view.flags.conj || view.flags.neg) refuse("a conjugate or negative view cannot be seen as another dtype");
  int64_t from = ir::byteSize(view.dtype), to = ir::byteSize(*wanted);
  view.dtype = *wanted;
  if (from == to) return;
  if (view.sizes.empty()) refuse("a 0-d tensor cannot be seen as a dtype of another size");
  if (view.strides.back() != Int(1)) refuse("the last stride must be 1 to see a tensor as a dtype of another size");
  size_t last = view.sizes.size() - 1;
  if (from > to) {
    Int ratio = from / to;
    for (size_t i = 0; i < last; ++i) view.strides[i] *= ratio;
    view.sizes[last] *= ratio;
    view.offset *= ratio;
    return;
  }
  Int ratio = to / from;
  auto divide = [ratio](Int& value) {
    if (value % ratio != Int(0)) refuse(sym::toString(value) + " is not divisible by " + sym::toString(ratio));
    value = value / ratio;
  };
  divide(view.sizes[last]);
  divide(view.offset);
  for (size_t i = 0; i < last; ++i) divide(view.strides[i]);
}

}  // namespace saker::ops::geometry
