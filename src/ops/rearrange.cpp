// The same elements in other places: flip, roll, rot90, the shuffles of channels and pixels; and triangles, diagonals.
#include "ops/accept.h"
#include "ops/cat.h"
#include "ops/geometry.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

// A fresh tensor in the memory order of `like`.
TensorSpec freshLike(const TensorType& like) {
  TensorSpec spec;
  spec.dtype = like.dtype;
  spec.device = like.device;
  spec.sizes = Dims(like.sizes());
  spec.strides = denseStridesLike(like);
  return spec;
}

void flip(Infer& in) {
  const TensorType& self = in.tensor(0);
  dimSet(in.ints(1), self.rank);
  in.result(freshLike(self));
}

// Two slices, joined the other way round.
const TensorType* rolled(const Infer& in, const TensorType& self, Int shift, int64_t dim) {
  if (isRowMajor(self)) {
    wrapDim(dim, self.rank);
    if (self.rank == 0) refuse("a 0-d tensor has no dimension to roll");
    return in.context().types().tensor(freshLike(self));
  }
  if (self.rank == 0) refuse("a 0-d tensor has no dimension to roll");
  dim = wrapDim(dim, self.rank);
  Int size = self.size(static_cast<size_t>(dim));
  Int start = (size - shift) % size;
  TensorSpec back(self), front(self);
  sliceDim(back, dim, start, size - start, 1);
  sliceDim(front, dim, 0, start, 1);
  const TensorType* parts[] = {in.context().types().tensor(back), in.context().types().tensor(front)};
  return in.context().types().tensor(concatenated(in, parts, dim));
}

void roll(Infer& in) {
  const TensorType* self = &in.tensor(0);
  Dims shifts = in.ints(1), dims = in.ints(2);
  if (shifts.empty()) refuse("a shift is needed");
  if (dims.empty() && shifts.size() == 1) return in.contiguous(self->sizes(), *self);
  if (shifts.size() != dims.size()) refuse("as many dimensions as shifts are needed");
  if (numel(*self) == Int(0)) return in.result(freshLike(*self));
  if (self->device.type != DeviceType::CPU) {  // elsewhere one kernel does it, not a concatenation
    for (Int dim : dims) wrapDim(dim.guard(), self->rank);
    return in.contiguous(self->sizes(), *self);
  }
  for (size_t i = 0; i < shifts.size(); ++i) self = rolled(in, *self, shifts[i], dims[i].guard());
  in.result(TensorSpec(*self));
}

void rot90(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims dims = in.ints(2);
  if (dims.size() != 2 || self.rank < 2) refuse("rot90 needs a plane of two dimensions");
  int64_t a = dims[0].guard(), b = dims[1].guard(), rank = self.rank;
  if (a == b || std::abs(a - b) == rank) refuse("rot90 needs two different dimensions");
  size_t i = static_cast<size_t>(wrapDim(a, rank)), j = static_cast<size_t>(wrapDim(b, rank));
  int64_t turns = ((in.fixed(1, 1) % 4) + 4) % 4;
  if (turns == 0) return in.contiguous(self.sizes(), self);
  require(in, kAll, self.dtype);
  TensorSpec spec = freshLike(self);
  if (turns != 2) {
    std::swap(spec.sizes[i], spec.sizes[j]);
    std::swap(spec.strides[i], spec.strides[j]);
  }
  in.result(spec);
}

void triangle(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (self.rank < 2) refuse("a triangle needs at least two dimensions");
  require(in, kAll | kHalfComplex, self.dtype);
  // Written in place, it keeps its strides, elements that share an address or not.
  if (in.op().variant == Variant::Inplace) return in.result(self);
  in.contiguous(self.sizes(), self);
}

void diagonalEmbedding(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (self.rank == 0) refuse("a 0-d tensor is no diagonal");
  int64_t rank = static_cast<int64_t>(self.rank) + 1, offset = in.fixed(1, 0);
  size_t a = static_cast<size_t>(wrapDim(in.fixed(2, -2), rank)),
         b = static_cast<size_t>(wrapDim(in.fixed(3, -1), rank));
  if (a == b) refuse("a diagonal needs two dimensions");
  Dims sizes(self.sizes());
  Int length = sizes.back() + Int(offset < 0 ? -offset : offset);
  sizes.pop_back();
  sizes.insert(std::min(a, b), length);
  sizes.insert(std::max(a, b), length);
  in.contiguous(sizes, self);
}

// A fresh tensor in the format that `self` suggests.
void inSuggestedFormat(Infer& in, const TensorType& self, const Dims& sizes, bool volumes) {
  TensorSpec spec;
  spec.dtype = self.dtype;
  spec.device = self.device;
  spec.sizes = sizes;
  // The CPU has kernels of its own; elsewhere it is reshape, permute, reshape.
  MemoryFormat format = self.device.type == DeviceType::CPU ? suggestMemoryFormat(self) : MemoryFormat::Contiguous;
  bool empty = static_cast<bool>(ir::numel(sizes) == Int(0));
  if (!empty) {
    require(in, kAll, self.dtype);
    if (format == MemoryFormat::ChannelsLast3d && !volumes) refuse("channels_last_3d is not implemented");
  }
  spec.strides = stridesIn(sizes, format);
  in.result(spec);
}

// The last three dimensions are channels, height and width.
template <bool up>
void pixelShuffle(Infer& in) {
  const TensorType& self = in.tensor(0);
  Int factor = in.integer(1);
  if (self.rank < 3) refuse("channels, height and width are needed");
  if (factor <= Int(0)) refuse("the factor must be positive");
  Dims sizes(self.sizes());
  Int &channels = sizes[self.rank - 3], &height = sizes[self.rank - 2], &width = sizes[self.rank - 1];
  Int square = factor * factor;
  if constexpr (up) {
    if (channels % square != Int(0)) refuse("the channels are not divisible by the square of the factor");
    channels = channels / square, height *= factor, width *= factor;
  } else {
    if (height % factor != Int(0) || width % factor != Int(0)) refuse("height or width is not divisible by the factor");
    channels *= square, height = height / factor, width = width / factor;
  }
  if (!up && numel(self) == Int(0)) return in.result(freshLike(self));  // eager forgets the new sizes
  inSuggestedFormat(in, self, sizes, false);
}

void channelShuffle(Infer& in) {
  const TensorType& self = in.tensor(0);
  Int groups = in.integer(1);
  if (self.rank < 3) refuse("at least three dimensions are needed");
  if (groups <= Int(0) || self.size(1) % groups != Int(0)) refuse("the channels do not form these groups");
  if (numel(self) == Int(0)) return in.result(in.viewOf(self));  // itself
  inSuggestedFormat(in, self, Dims(self.sizes()), true);
}

}  // namespace

void addRearrangements(Rows& rows) {
  auto add = [&](const char* schema, InferFn rule, Cost cost = Cost::Indexing) {
    addWithOut(rows, schema, rule, cost);
  };
  add("aten::flip(Tensor self, int[] dims) -> Tensor", flip);
  add("aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll);
  add("aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", rot90);
  for (std::string name : {"tril", "triu"}) {
    rows.push_back({"aten::" + name + "(Tensor self, SymInt diagonal=0) -> Tensor", triangle, Cost::Pointwise});
    rows.push_back({"aten::" + name + "_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)", triangle, Cost::Pointwise,
                    kOwnWrites});
    rows.push_back({"aten::" + name + ".out(Tensor self, SymInt diagonal=0, *, Tensor(a!) out) -> Tensor(a!)", triangle,
                    Cost::Pointwise, kExactOut});
  }
  add("aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diagonalEmbedding);
  add("aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixelShuffle<true>);
  add("aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixelShuffle<false>);
  add("aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor", channelShuffle);
}

}  // namespace saker::ops
