// Views of several parts at once: split, unbind, their unsafe and copying forms.
#include "ops/families.h"
#include "ops/geometry.h"

namespace saker::ops {

namespace {

enum class As { View, Copy };

template <As as>
void part(Infer& in, const TensorSpec& view) {
  if constexpr (as == As::View)
    in.result(view);
  else
    in.contiguous(view.sizes, view.dtype, view.device);
}

int64_t splitDim(const TensorType& self, int64_t dim) {
  if (self.rank == 0) refuse("a 0-d tensor cannot be split");
  return wrapDim(dim, self.rank);
}

template <As as>
void splitEvenly(Infer& in) {
  const TensorType& self = in.tensor(0);
  Int length = in.integer(1);
  int64_t dim = splitDim(self, in.fixed(2, 0));
  Int total = self.size(static_cast<size_t>(dim));
  if (length < Int(0)) refuse("the size of a part is negative");
  int64_t parts = 1;
  if (length == Int(0)) {
    if (total != Int(0)) refuse("parts of size 0 of a dimension that is not empty");
  } else {
    // Where it comes out even, the number of parts is known although the sizes are not.
    Int even = total / length;
    parts = std::max<int64_t>(((even * length).same(total) ? even : ceilDiv(total, length)).guard(), 1);
  }
  for (int64_t i = 0; i < parts; ++i) {
    TensorSpec view = in.viewOf(self);
    Int start = Int(i) * length;
    sliceDim(view, dim, start, i + 1 < parts ? length : total - start, 1);
    part<as>(in, view);
  }
}

template <As as>
void splitBySizes(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims lengths = in.ints(1);
  int64_t dim = splitDim(self, in.fixed(2, 0));
  Int start = 0;
  for (Int length : lengths) {
    if (length < Int(0)) refuse("the size of a part is negative");
    TensorSpec view = in.viewOf(self);
    sliceDim(view, dim, start, length, 1);
    part<as>(in, view);
    start += length;
  }
  if (start != self.size(static_cast<size_t>(dim))) refuse("the sizes of the parts do not add up to the dimension's");
}

template <As as>
void unbind(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (self.rank == 0) refuse("a 0-d tensor has no dimension to unbind");
  int64_t dim = wrapDim(in.fixed(1, 0), self.rank);
  int64_t parts = self.size(static_cast<size_t>(dim)).guard();
  for (int64_t i = 0; i < parts; ++i) {
    TensorSpec view = in.viewOf(self);
    selectIndex(view, dim, i);
    part<as>(in, view);
  }
}

}  // namespace

void addViewLists(Rows& rows) {
  rows.push_back({"aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
                  splitEvenly<As::View>, Cost::View});
  rows.push_back({"aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
                  splitBySizes<As::View>, Cost::View});
  rows.push_back({"aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
                  splitBySizes<As::View>, Cost::View});
  rows.push_back({"aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind<As::View>, Cost::View});
  // Not views by their schema, but of the same memory.
  rows.push_back({"aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
                  splitEvenly<As::View>, Cost::View, kMayAlias});
  rows.push_back({"aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
                  splitBySizes<As::View>, Cost::View, kMayAlias});
  rows.push_back({"aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
                  splitEvenly<As::Copy>, Cost::Indexing});
  rows.push_back({"aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
                  splitBySizes<As::Copy>, Cost::Indexing});
  rows.push_back({"aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]", unbind<As::Copy>, Cost::Indexing});
}

}  // namespace saker::ops
