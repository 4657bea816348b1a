// Interpolation to other sizes, and sampling along a grid.
#include "ir/torch_facts.h"
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

Dims exactly(Infer& in, size_t argument, size_t count) {
  Dims out = in.ints(argument);
  if (out.size() != count) {
    refuse("argument " + std::to_string(argument) + " must have " + std::to_string(count) + " elements");
  }
  return out;
}

// What a kernel can do, as bits.
enum Kernel : uint8_t {
  kPlain = 0,
  kImages = 1,       // u8 too, except for gradients
  kAntialias = 2,    // full-width floats only, on CPU
  kOrderedGrad = 4,  // its backward keeps channels_last
};

void requireResizable(Infer& in, uint8_t kernel, const TensorType& x, bool backward) {
  if ((kernel & kImages) && !backward && x.dtype == DType::UInt8) return;
  require(in, kFloats, x.dtype);
  if ((kernel & kAntialias) && ir::byteSize(x.dtype) == 2 && x.device.type == DeviceType::CPU) {
    refuse("antialiasing of 16-bit floats on CPU");
  }
}

void requirePositive(IntSpan sizes, size_t first) {
  for (size_t i = first; i < sizes.size(); ++i) {
    if (sizes[i] <= Int(0)) refuse("input and output sizes must be positive");
  }
}

// self, output_size, ...
template <size_t spatial, uint8_t kernel>
void upsample(Infer& in) {
  const TensorType& x = in.tensor(0);
  Dims target = exactly(in, 1, spatial);
  if (x.rank != spatial + 2) refuse("the input must have " + std::to_string(spatial + 2) + " dimensions");
  requirePositive(x.sizes(), 2);
  requirePositive(target, 0);
  // Channels must be there even where the batch is empty.
  if (x.size(1) == Int(0)) refuse("an input without channels");
  requireResizable(in, kernel, x, false);
  Dims sizes{x.size(0), x.size(1)};
  sizes.append(target);
  resultIn(in, sizes, spatial == 1 ? MemoryFormat::Contiguous : suggestMemoryFormat(x), x.dtype, x.device);
}

// grad_output, output_size, input_size, ...
template <size_t spatial, uint8_t kernel>
void upsampleBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  Dims target = exactly(in, 1, spatial), source = exactly(in, 2, spatial + 2);
  requirePositive(source, 2);
  requirePositive(target, 0);
  Dims expected{source[0], source[1]};
  expected.append(target);
  if (!sameSizes(grad.sizes(), expected)) refuse("the gradient's sizes do not fit");
  requireResizable(in, kernel, grad, true);
  MemoryFormat format = kernel & kOrderedGrad ? suggestMemoryFormat(grad) : MemoryFormat::Contiguous;
  resultIn(in, source, format, grad.dtype, grad.device);
}

// input, output_size?, ..., scale_factors? at `scales`
template <size_t spatial, uint8_t kernel, size_t scales>
void upsampleVec(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (x.rank != spatial + 2) refuse("the input must have " + std::to_string(spatial + 2) + " dimensions");
  if (in.given(1) == in.given(scales)) refuse("either output_size or scale_factors must be given");
  if (!in.given(1)) unsupported("a size computed from scale factors");
  upsample<spatial, kernel>(in);
}

void requireGrid(Infer& in, const TensorType& x, const TensorType& grid, size_t spatial, bool cubic) {
  if (x.rank != spatial + 2 || grid.rank != x.rank) refuse("grid_sampler: the ranks do not fit");
  if (x.dtype != grid.dtype) refuse("grid_sampler: input and grid are of different dtypes");
  if (x.device != grid.device) refuse("grid_sampler: input and grid are on different devices");
  if (x.size(0) != grid.size(0)) refuse("grid_sampler: the batch sizes differ");
  if (grid.size(grid.rank - 1) != Int(spatial))
    refuse("grid_sampler: the grid does not have one coordinate a dimension");
  for (size_t i = 2; i < x.rank; ++i) {
    if (x.size(i) <= Int(0)) refuse("grid_sampler: an empty input");
  }
  if (spatial == 3 && cubic && !in.context().ambient().torch->cubicGridsInSpace)
    refuse("grid_sampler: bicubic works in two dimensions");
  require(in, kFloats, x.dtype);
}

// input, grid, interpolation_mode, padding_mode, align_corners
template <size_t spatial>
void gridSampler(Infer& in) {
  const TensorType &x = in.tensor(0), &grid = in.tensor(1);
  requireGrid(in, x, grid, spatial, in.fixed(2) == 2);
  Dims sizes{x.size(0), x.size(1)};
  for (size_t i = 0; i < spatial; ++i) sizes.push_back(grid.size(1 + i));
  in.contiguous(sizes, x);
}

// grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
template <size_t spatial>
void gridSamplerBackward(Infer& in) {
  const TensorType &x = in.tensor(1), &grid = in.tensor(2);
  requireGrid(in, x, grid, spatial, in.fixed(3) == 2);
  Dims mask = in.ints(6);
  if (mask.size() != 2) refuse("output_mask must have two elements");
  mask[0].guard() ? in.contiguous(x.sizes(), x) : noResult(in);
  in.contiguous(grid.sizes(), grid);  // computed whatever the mask says
}

// theta, size, align_corners
void affineGrid(Infer& in) {
  const TensorType& theta = in.tensor(0);
  Dims size = in.ints(1);
  if (size.size() != 4 && size.size() != 5) refuse("affine_grid_generator: size must have 4 or 5 elements");
  size_t spatial = size.size() - 2;
  if (theta.rank != 3 || theta.size(0) != size[0] || theta.size(1) != Int(spatial) ||
      theta.size(2) != Int(spatial + 1)) {
    refuse("affine_grid_generator: theta does not fit the size");
  }
  require(in, kFloats, theta.dtype);
  if (ir::byteSize(theta.dtype) == 2 && theta.device.type == DeviceType::CPU) refuse("16-bit floats on CPU");
  Dims sizes{size[0]};
  for (size_t i = 0; i < spatial; ++i) sizes.push_back(size[2 + i]);
  sizes.push_back(Int(spatial));
  in.contiguous(sizes, theta);
}

struct Form {
  const char* name;
  size_t spatial;
  bool corners;  // takes align_corners
  InferFn forward, vec, backward;
};

template <size_t spatial, uint8_t kernel, bool corners>
Form form(const char* name) {
  return {name,
          spatial,
          corners,
          upsample<spatial, kernel>,
          upsampleVec < spatial,
          kernel,
          corners ? 3 : 2 >,
          upsampleBackward<spatial, kernel>};
}

void add(Rows& rows, const Form& form) {
  std::string n = std::to_string(form.spatial), name = std::string("aten::") + form.name;
  std::string corners = form.corners ? ", bool align_corners" : "";
  const char* axes = form.spatial == 1 ? "w" : form.spatial == 2 ? "hw" : "dhw";
  std::string scales;
  for (const char* axis = axes; *axis; ++axis) {
    scales += form.spatial == 1 ? ", float? scales=None" : std::string(", float? scales_") + *axis + "=None";
  }
  std::string forward = "Tensor self, SymInt[" + n + "] output_size" + corners + scales;
  std::string backward = "Tensor grad_output, SymInt[" + n + "] output_size, SymInt[" +
                         std::to_string(form.spatial + 2) + "] input_size" + corners + scales;
  rows.push_back({name + "(" + forward + ") -> Tensor", form.forward, Cost::Pooling});
  rows.push_back(
      {name + ".out(" + forward + ", *, Tensor(a!) out) -> Tensor(a!)", form.forward, Cost::Pooling, kExactOut});
  rows.push_back({name + ".vec(Tensor input, SymInt[]? output_size" + corners + ", float[]? scale_factors) -> Tensor",
                  form.vec, Cost::Pooling});
  rows.push_back({name + "_backward(" + backward + ") -> Tensor", form.backward, Cost::Pooling});
  rows.push_back({name + "_backward.grad_input(" + backward + ", *, Tensor(a!) grad_input) -> Tensor(a!)",
                  form.backward, Cost::Pooling, kExactOut});
}

}  // namespace

void addResample(Rows& rows) {
  add(rows, form<1, kImages, false>("upsample_nearest1d"));
  add(rows, form < 2, kImages | kOrderedGrad, false > ("upsample_nearest2d"));
  add(rows, form<3, kImages, false>("upsample_nearest3d"));
  add(rows, form<1, kImages, false>("_upsample_nearest_exact1d"));
  add(rows, form < 2, kImages | kOrderedGrad, false > ("_upsample_nearest_exact2d"));
  add(rows, form<3, kImages, false>("_upsample_nearest_exact3d"));
  add(rows, form<1, kPlain, true>("upsample_linear1d"));
  add(rows, form < 2, kImages | kOrderedGrad, true > ("upsample_bilinear2d"));
  add(rows, form<2, kImages, true>("upsample_bicubic2d"));
  add(rows, form<3, kOrderedGrad, true>("upsample_trilinear3d"));
  add(rows, form < 2, kImages | kAntialias | kOrderedGrad, true > ("_upsample_bilinear2d_aa"));
  add(rows, form < 2, kImages | kAntialias, true > ("_upsample_bicubic2d_aa"));
  add(rows, form < 2, kImages | kAntialias, true > ("_upsample_lanczos2d_aa"));
  const char* sampler = "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners";
  for (size_t n : {2, 3}) {
    std::string name = "aten::grid_sampler_" + std::to_string(n) + "d";
    rows.push_back({name + "(" + sampler + ") -> Tensor", n == 2 ? gridSampler<2> : gridSampler<3>, Cost::Indexing});
    rows.push_back({name + "_backward(Tensor grad_output, " + sampler + ", bool[2] output_mask) -> (Tensor, Tensor)",
                    n == 2 ? gridSamplerBackward<2> : gridSamplerBackward<3>, Cost::Indexing});
  }
  rows.push_back({"aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", affineGrid,
                  Cost::Matmul});
}

}  // namespace saker::ops
