// Views, the in-place forms that change a tensor's own sizes and strides, and the functional *_copy forms.
#include "ops/geometry.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

template <Geometry geometry>
void viewRule(Infer& in) {
  TensorSpec view = in.viewOf(in.tensor(0));
  geometry(in, view, 1);
  in.result(view);
}

// The tensor itself is changed: its flags stay.
template <Geometry geometry>
void metadataRule(Infer& in) {
  TensorSpec view(in.tensor(0));
  // Eager gives such a tensor another layout on the way.
  if (view.flags.conj || view.flags.neg) unsupported("other sizes for a conjugate or negative view itself");
  geometry(in, view, 1);
  in.result(view);
}

// A copy of the view is row-major, and what a conj or neg bit put off is done.
template <Geometry geometry>
void copyRule(Infer& in) {
  TensorSpec view = in.viewOf(in.tensor(0));
  geometry(in, view, 1);
  in.contiguous(view.sizes, view.dtype, view.device);
}

// Copies where the view is not possible.
void reshapedCopy(Infer& in) {
  const TensorType& self = in.tensor(0);
  in.contiguous(inferSizes(in.ints(1), numel(self)), self);
}

void narrowCopy(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (self.rank == 0) refuse("a 0-d tensor cannot be narrowed");
  int64_t dim = wrapDim(in.fixed(1), self.rank);
  Int size = self.size(static_cast<size_t>(dim)), start = in.integer(2), length = in.integer(3);
  if (length < Int(0)) refuse("a negative length");
  if (start < Int(0)) start += size;
  if (start < Int(0) || start > size || length > size - start) refuse("a part that reaches beyond the tensor");
  Dims sizes(self.sizes());
  sizes[static_cast<size_t>(dim)] = length;
  in.contiguous(sizes, self);
}

// A view where possible, else a row-major copy.
void reshape(Infer& in) {
  TensorSpec view = in.viewOf(in.tensor(0));
  Dims sizes = inferSizes(in.ints(1), ir::numel(view.sizes));
  std::optional<Dims> strides = viewStrides(view.sizes, view.strides, sizes);
  if (!strides) {
    strides = ir::contiguousStrides(sizes);
    view.offset = 0;
  }
  view.sizes = sizes;
  view.strides = *strides;
  in.result(view);
}

// The tensor itself where it already is, else a copy.
void contiguous(Infer& in) {
  const TensorType& self = in.tensor(0);
  MemoryFormat format = in.memoryFormat(1).value_or(MemoryFormat::Contiguous);
  if (format == MemoryFormat::Preserve) refuse("preserve_format is no format to be contiguous in");
  TensorSpec spec = in.viewOf(self);
  if (!isContiguous(self, format)) {
    spec.strides = stridesIn(self.sizes(), format);
    spec.offset = 0;
  }
  in.result(spec);
}

// Does what a conj or neg bit put off, if it is set.
template <bool conj>
void resolve(Infer& in) {
  const TensorType& self = in.tensor(0);
  TensorSpec spec = in.viewOf(self);
  if (conj ? self.flags.conj : self.flags.neg) {
    spec.flags.conj = spec.flags.neg = false;
    spec.strides = denseStridesLike(self);
    spec.offset = 0;
  }
  in.result(spec);
}

// name, overload, arguments after self, geometry
#define SAKER_VIEWS(X)                                                                             \
  X("alias", "", "", same)                                                                         \
  X("detach", "", "", same)                                                                        \
  X("lift_fresh", "", "", same)                                                                    \
  X("_conj", "", "", conjugate)                                                                    \
  X("_neg_view", "", "", negative)                                                                 \
  X("view_as_real", "", "", asReal)                                                                \
  X("view_as_complex", "", "", asComplex)                                                          \
  X("t", "", "", t)                                                                                \
  X("squeeze", "", "", squeeze)                                                                    \
  X("squeeze", ".dim", ", int dim", squeezeDim)                                                    \
  X("squeeze", ".dims", ", int[] dim", squeezeDims)                                                \
  X("unsqueeze", "", ", int dim", unsqueeze)                                                       \
  X("view", ".dtype", ", ScalarType dtype", ofDtype)                                               \
  X("_reshape_alias", "", ", SymInt[] size, SymInt[] stride", reshapeAlias)                        \
  X("expand", "", ", SymInt[] size, *, bool implicit=False", expand)                               \
  X("permute", "", ", int[] dims", permute)                                                        \
  X("transpose", ".int", ", int dim0, int dim1", transpose)                                        \
  X("slice", ".Tensor", ", int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1", slice) \
  X("select", ".int", ", int dim, SymInt index", select)                                           \
  X("diagonal", "", ", int offset=0, int dim1=0, int dim2=1", diagonal)                            \
  X("unfold", "", ", int dimension, int size, int step", unfold)                                   \
  X("as_strided", "", ", SymInt[] size, SymInt[] stride, SymInt? storage_offset=None", asStrided)

#define SAKER_METADATA_WRITES(X)                         \
  X("detach_", "", "", same)                             \
  X("t_", "", "", t)                                     \
  X("squeeze_", "", "", squeeze)                         \
  X("squeeze_", ".dim", ", int dim", squeezeDim)         \
  X("squeeze_", ".dims", ", int[] dim", squeezeDims)     \
  X("unsqueeze_", "", ", int dim", unsqueeze)            \
  X("transpose_", "", ", int dim0, int dim1", transpose) \
  X("as_strided_", "", ", SymInt[] size, SymInt[] stride, SymInt? storage_offset=None", asStrided)

}  // namespace

void addViews(Rows& rows) {
  auto add = [&](const std::string& name, const std::string& overload, const std::string& arguments, InferFn view,
                 InferFn copy) {
    rows.push_back({"aten::" + name + overload + "(Tensor(a) self" + arguments + ") -> Tensor(a)", view, Cost::View});
    addWithOut(rows, "aten::" + name + "_copy" + overload + "(Tensor self" + arguments + ") -> Tensor", copy,
               Cost::Indexing);
  };
#define X(name, overload, arguments, geometry_) \
  add(name, overload, arguments, viewRule<geometry::geometry_>, copyRule<geometry::geometry_>);
  SAKER_VIEWS(X)
#undef X
#define X(name, overload, arguments, geometry_)                                                       \
  rows.push_back({std::string("aten::" name overload "(Tensor(a!) self" arguments ") -> Tensor(a!)"), \
                  metadataRule<geometry::geometry_>, Cost::View, kOwnWrites});
  SAKER_METADATA_WRITES(X)
#undef X

  add("view", "", ", SymInt[] size", viewRule<geometry::view>, reshapedCopy);

  // Not views by their schema (nothing else may look at the input any more), but of the same memory.
  rows.push_back(
      {"aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor", viewRule<geometry::view>, Cost::View, kMayAlias});
  rows.push_back({outSchema("aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor"), copyRule<geometry::view>,
                  Cost::Indexing, kCopiedOut});
  rows.push_back({"aten::lift(Tensor self) -> Tensor", viewRule<geometry::same>, Cost::View, kMayAlias});
  rows.push_back({"aten::_fw_primal(Tensor(a) self, int level) -> Tensor(a)", viewRule<geometry::same>, Cost::View});

  rows.push_back({"aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor", reshapedCopy, Cost::Indexing});
  addWithOut(rows, "aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", narrowCopy,
             Cost::Indexing);
  rows.push_back({"aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", reshape, Cost::View, kMayAlias});
  rows.push_back({"aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", contiguous,
                  Cost::Indexing, kMayAlias});
  rows.push_back({"aten::resolve_conj(Tensor(a) self) -> Tensor(a)", resolve<true>, Cost::Pointwise, kMayAlias});
  rows.push_back({"aten::resolve_neg(Tensor(a) self) -> Tensor(a)", resolve<false>, Cost::Pointwise, kMayAlias});
}

}  // namespace saker::ops
