// Padding: with a constant, with the reflected and with the outermost elements, and the gradients of the latter.
#include "ops/accept.h"
#include "ops/geometry.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

TensorSpec inFormat(const TensorType& like, const Dims& sizes, MemoryFormat format) {
  TensorSpec spec;
  spec.dtype = like.dtype;
  spec.device = like.device;
  spec.sizes = sizes;
  spec.strides = stridesIn(sizes, format);
  return spec;
}

// Negative padding cuts off. Where nothing is added the result is a clone of what is left.
void padConstant(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims pad = in.ints(1);
  if (pad.size() % 2 != 0) refuse("padding comes in pairs");
  if (pad.size() / 2 > self.rank) refuse("more padding than dimensions");
  TensorSpec left = in.viewOf(self);
  Dims sizes(self.sizes());
  bool grows = false;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    size_t dim = self.rank - 1 - i;
    for (size_t side : {0, 1}) {
      Int amount = pad[2 * i + side];
      if (amount.isConst(0)) continue;
      if (amount < Int(0)) {
        Int length = left.sizes[dim] + amount;
        if (length < Int(0)) refuse("padding cuts off more than there is");
        sliceDim(left, static_cast<int64_t>(dim), side == 0 ? -amount : Int(0), length, 1);
      } else if (amount != Int(0)) {
        grows = true;
      }
      sizes[dim] += amount;
    }
  }
  if (grows) {
    requireFits(in, 2, self.dtype);
    requireSizes(sizes);
    return in.result(inFormat(self, sizes, suggestMemoryFormat(self)));
  }
  const TensorType* kept = in.context().types().tensor(left);
  left.strides = denseStridesLike(*kept);
  left.offset = 0;
  in.result(left);
}

enum class Mode { Reflect, Replicate };

// Sizes after padding the last `dims` dimensions of a tensor that may have a batch dimension.
template <int dims, Mode mode>
Dims paddedSizes(const TensorType& self, const Dims& pad) {
  if (pad.size() != size_t{2} * dims) refuse("two numbers for each padded dimension are needed");
  if (self.rank != dims + 1 && self.rank != dims + 2) refuse("a tensor of this rank cannot be padded this way");
  for (size_t i = self.rank == dims + 2 ? 1 : 0; i < self.rank; ++i) {
    if (self.size(i) == Int(0)) refuse("only the batch may be empty");
  }
  Dims sizes(self.sizes());
  bool anything = false;  // one dimension that is not empty is enough
  for (size_t i = 0; i < dims; ++i) {
    Int& size = sizes[self.rank - 1 - i];
    if (mode == Mode::Reflect && (pad[2 * i] >= size || pad[2 * i + 1] >= size)) {
      refuse("padding must be smaller than the dimension it reflects");
    }
    size = size + pad[2 * i] + pad[2 * i + 1];
    if (size < Int(0)) refuse("padding cuts off more than there is");
    anything |= static_cast<bool>(size > Int(0));
  }
  if (!anything) refuse("padding leaves nothing");
  return sizes;
}

// Planes and volumes keep the memory format that the input suggests (a volume without a batch as if it were planes).
template <int dims, Mode mode>
MemoryFormat formatOf(const TensorType& self) {
  bool rowMajor = dims == 1 || (dims == 2 && mode == Mode::Reflect && self.device.type == DeviceType::CUDA);
  return rowMajor ? MemoryFormat::Contiguous : suggestMemoryFormat(self);
}

template <int dims, Mode mode>
void pad(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims sizes = paddedSizes<dims, mode>(self, in.ints(1));
  require(in, kNumbers, self.dtype);
  in.result(inFormat(self, sizes, formatOf<dims, mode>(self)));
}

template <int dims, Mode mode>
void padBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &self = in.tensor(1);
  Dims sizes = paddedSizes<dims, mode>(self, in.ints(2));
  if (!sameSizes(sizes, gradient.sizes())) refuse("the gradient does not have the sizes of the result");
  // All but one return early when there is nothing to do.
  bool always = mode == Mode::Reflect && dims == 2;
  if (always || numel(self) != Int(0)) require(in, kFloating, gradient.dtype);
  in.result(inFormat(self, Dims(self.sizes()), formatOf<dims, mode>(self)));
}

template <int dims, Mode mode>
void addPad(Rows& rows, std::string name) {
  std::string padding = "SymInt[" + std::to_string(2 * dims) + "] padding";
  name = "aten::" + name + "_pad" + std::to_string(dims) + "d";
  auto add = [&](const std::string& schema, InferFn rule) { rows.push_back({schema, rule, Cost::Indexing}); };
  add(name + "(Tensor self, " + padding + ") -> Tensor", pad<dims, mode>);
  add(name + ".out(Tensor self, " + padding + ", *, Tensor(a!) out) -> Tensor(a!)", pad<dims, mode>);
  name += "_backward";
  add(name + "(Tensor grad_output, Tensor self, " + padding + ") -> Tensor", padBackward<dims, mode>);
  add(name + ".grad_input(Tensor grad_output, Tensor self, " + padding + ", *, Tensor(a!) grad_input) -> Tensor(a!)",
      padBackward<dims, mode>);
}

}  // namespace

void addPads(Rows& rows) {
  addWithOut(rows, "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", padConstant,
             Cost::Indexing);
  addPad<1, Mode::Reflect>(rows, "reflection");
  addPad<2, Mode::Reflect>(rows, "reflection");
  addPad<3, Mode::Reflect>(rows, "reflection");
  addPad<1, Mode::Replicate>(rows, "replication");
  addPad<2, Mode::Replicate>(rows, "replication");
  addPad<3, Mode::Replicate>(rows, "replication");
}

}  // namespace saker::ops
