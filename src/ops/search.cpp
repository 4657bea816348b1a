// Looking elements up in another tensor: isin, searchsorted, bucketize.
#include <string>

#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

template <size_t elements>
void isIn(Infer& in) {
  const TensorType &a = operand(in, 0), &b = operand(in, 1);
  for (const TensorType* t : {&a, &b}) {
    if (t->dtype == DType::Bool || ir::isComplex(t->dtype)) refuse("isin of bool or complex numbers");
    if (!accepts(kReal, t->dtype)) unsupported("isin of a rare dtype");
  }
  // Few elements to look for are viewed as one dimension, which not all strides allow.
  if (!b.flags.wrappedNumber && !isContiguous(b)) unsupported("isin in a tensor that is not contiguous");
  const TensorType* both[] = {&a, &b};
  in.contiguous(elements == 0 && !a.flags.wrappedNumber ? a.sizes() : IntSpan(), DType::Bool, commonDevice(both));
}

DType positions(const Infer& in, size_t narrow) { return in.boolean(narrow) ? DType::Int32 : DType::Int64; }

// Compared in the dtype that both promote to.
void requireComparable(const Infer& in, const TensorType& a, const TensorType& b) {
  const TensorType* both[] = {&a, &b};
  require(in, kReal, resultType(in.context(), both));
}

void bucketize(Infer& in) {
  const TensorType &x = operand(in, 0), &bounds = in.tensor(1);
  if (bounds.rank != 1) refuse("bucketize needs boundaries of one dimension");
  requireComparable(in, x, bounds);
  in.contiguous(x.sizes(), positions(in, 2), bounds.device);
}

void requireSameLeading(const TensorType& sequence, const TensorType& x) {
  bool fits = x.rank == sequence.rank;
  for (size_t i = 0; fits && i + 1 < sequence.rank; ++i) fits = static_cast<bool>(sequence.size(i) == x.size(i));
  if (!fits) refuse("searchsorted needs one sequence, or one for each row of values");
}

void searchSorted(Infer& in) {
  const TensorType &sequence = in.tensor(0), &x = operand(in, 1);
  if (sequence.rank == 0) refuse("searchsorted in a tensor without dimensions");
  if (sequence.rank > 1) {
    if (x.rank == 0) refuse("a single value is searched in a sequence of one dimension");
    requireSameLeading(sequence, x);
  }
  if (in.given(4)) {
    std::string_view side = in.string(4);
    if (side != "left" && side != "right") refuse("searchsorted knows the sides left and right");
    if (side == "left" && in.boolean(3)) refuse("searchsorted is told both sides");
  }
  if (const TensorType* sorter = in.optionalTensor(5)) {
    if (sorter->dtype != DType::Int64) refuse("a sorter holds int64 positions");
    if (!sameSizes(sorter->sizes(), sequence.sizes())) refuse("a sorter has the shape of the sequence");
    if (sorter->device != sequence.device) refuse("a sorter lies on the device of the sequence");
  }
  requireComparable(in, sequence, x);
  in.contiguous(x.sizes(), positions(in, 2), sequence.device);
}

}  // namespace

void addSearch(Rows& rows) {
  std::string flags = ", *, bool assume_unique=False, bool invert=False)";
  auto exact = [](std::string_view out) {
    return Forms{.inplace = false, .out = out, .outTraits = kExactOut, .cost = Cost::Indexing};
  };
  addForms(rows, "isin.Tensor_Tensor(Tensor elements, Tensor test_elements" + flags, isIn<0>,
           exact("Tensor_Tensor_out"));
  addForms(rows, "isin.Tensor_Scalar(Tensor elements, Scalar test_element" + flags, isIn<0>,
           exact("Tensor_Scalar_out"));
  addForms(rows, "isin.Scalar_Tensor(Scalar element, Tensor test_elements" + flags, isIn<1>,
           exact("Scalar_Tensor_out"));
  std::string width = ", *, bool out_int32=False, bool right=False";
  addForms(rows, "bucketize.Tensor(Tensor self, Tensor boundaries" + width + ")", bucketize, exact("Tensor_out"));
  addForms(rows, "bucketize.Scalar(Scalar self, Tensor boundaries" + width + ")", bucketize, exact("Scalar_out"));
  std::string sorter = width + ", str? side=None, Tensor? sorter=None)";
  addForms(rows, "searchsorted.Tensor(Tensor sorted_sequence, Tensor self" + sorter, searchSorted, exact("Tensor_out"),
           kFailsOnData);
  addForms(rows, "searchsorted.Scalar(Tensor sorted_sequence, Scalar self" + sorter, searchSorted, exact("Scalar_out"),
           kFailsOnData);
}

}  // namespace saker::ops
