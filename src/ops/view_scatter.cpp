// What writes into a view of a fresh tensor: the *_scatter operators (a copy of self, src written into the view) and
// the backwards of views (zeros, the gradient written into the view).
#include "ops/geometry.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

template <Geometry geometry>
void scatterRule(Infer& in) {
  const TensorType &self = in.tensor(0), &src = in.tensor(1);
  TensorSpec copy = clonePreservingStrides(in, self), view = copy;
  geometry(in, view, 2);
  if (!sameSizes(view.sizes, src.sizes())) refuse("src does not have the sizes of the view it is written to");
  in.result(copy);
}

void asStridedScatter(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (self.flags.requiresGrad && !isContiguous(self)) refuse("eager does not differentiate this for other strides");
  Dims sizes = in.ints(2), strides = in.ints(3);
  for (size_t i = 0; i < sizes.size() && i < strides.size(); ++i) {
    if (strides[i] == Int(0) && sizes[i] > Int(1)) refuse("elements of the view that is written share an address");
  }
  scatterRule<geometry::asStrided>(in);
}

template <Geometry geometry>
void backwardRule(Infer& in) {
  const TensorType& gradient = in.tensor(0);
  TensorSpec view = in.viewOf(gradient);
  view.sizes = in.ints(1);
  requireSizes(view.sizes);
  view.strides = ir::contiguousStrides(view.sizes);
  view.offset = 0;
  Dims sizes = view.sizes;
  geometry(in, view, 2);
  requireExpandable(gradient.sizes(), view.sizes);
  in.contiguous(sizes, gradient);
}

}  // namespace

void addViewScatters(Rows& rows) {
  auto add = [&](const char* schema, InferFn rule) { addWithOut(rows, schema, rule, Cost::Indexing); };
  add("aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
      "Tensor",
      scatterRule<geometry::slice>);
  add("aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", scatterRule<geometry::select>);
  add("aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
      scatterRule<geometry::diagonal>);
  add("aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
      "-> "
      "Tensor",
      asStridedScatter);
  add("aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) "
      "-> "
      "Tensor",
      backwardRule<geometry::slice>);
  add("aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
      backwardRule<geometry::select>);
  add("aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
      backwardRule<geometry::diagonal>);
  add("aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
      backwardRule<geometry::unfold>);
}

}  // namespace saker::ops
