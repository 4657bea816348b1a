// Filling, copying and converting tensors.
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

// Arguments that say what a new tensor is made of; a format of its own or that of the original.
void copyResult(Infer& in, const TensorType& x, DType dtype, Device device, std::optional<MemoryFormat> format) {
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = device;
  spec.sizes = Dims(x.sizes());
  bool preserve = !format || *format == MemoryFormat::Preserve;
  spec.strides = preserve ? denseStridesLike(x) : stridesIn(spec.sizes, *format);
  in.result(spec);
}

void clone(Infer& in) {
  const TensorType& x = in.tensor(0);
  copyResult(in, x, x.dtype, x.device, in.memoryFormat(1));
}

void toCopy(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (in.layout(2).value_or(Layout::Strided) != Layout::Strided) refuse("_to_copy does not change the layout");
  if (in.given(4) && in.boolean(4)) unsupported("_to_copy into pinned memory");
  Device device = in.device(3).value_or(x.device);
  if (device.type == DeviceType::CPU)
    device.index = -1;
  else if (device.index < 0)
    unsupported("_to_copy to the current device");
  copyResult(in, x, in.dtype(1).value_or(x.dtype), device, in.memoryFormat(6));
}

void requireBroadcastInto(const TensorType& target, const TensorType& source) {
  if (!sameSizes(broadcast(target.sizes(), source.sizes()), target.sizes())) {
    refuse("what is copied is larger than what is written");
  }
}

void requireNoOverlap(const TensorType& t) {
  if (hasInternalOverlap(t)) refuse("several elements of the written tensor share one address");
}

void copyInplace(Infer& in) {
  const TensorType& self = in.tensor(0);
  requireBroadcastInto(self, in.tensor(1));
  requireNoOverlap(self);
  in.result(self);
}

// A copy of all of the storage that the tensor lies in, overwritten.
void copy(Infer& in) {
  const TensorType& self = in.tensor(0);
  requireBroadcastInto(self, in.tensor(1));
  bool resolved = self.flags.conj || self.flags.neg;  // first, into a dense tensor
  if (resolved || hasInternalOverlap(self)) return copyResult(in, self, self.dtype, self.device, std::nullopt);
  TensorSpec spec = in.viewOf(self);
  spec.flags = {};
  in.result(spec);
}

// A single element is written without a kernel.
void requireFilled(const Infer& in, const TensorType& self) {
  if (self.dtype == DType::BComplex32 && numel(self) != Int(1)) requireFillable(in, self.dtype);
}

void fillByNumber(Infer& in) {
  const TensorType& self = in.tensor(0);
  requireFilled(in, self);
  requireFits(in, 1, self.dtype);
  likeResult(in, self, self.dtype);
}

// All elements get the same value, so they may share an address.
void fillByNumberInplace(Infer& in) {
  const TensorType& self = in.tensor(0);
  requireFilled(in, self);
  requireFits(in, 1, self.dtype);
  in.result(self);
}

void fillByTensor(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (in.tensor(1).rank != 0) refuse("fill needs a value without dimensions");
  if (in.op().variant != Variant::Inplace) return likeResult(in, self, self.dtype);
  requireNoOverlap(self);
  in.result(self);
}

void zero(Infer& in) { likeResult(in, in.tensor(0), in.tensor(0).dtype); }
void zeroInplace(Infer& in) { in.result(in.tensor(0)); }

}  // namespace

void addCopy(Rows& rows) {
  Forms inplaceFill{.functional = false, .out = "", .cost = Cost::Fill};
  addForms(rows, "clone(Tensor self, *, MemoryFormat? memory_format=None)", clone,
           {.inplace = false, .outTraits = kCopiedOut});
  addForms(rows,
           "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
           "pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None)",
           toCopy, {.inplace = false, .out = ""});
  addForms(rows, "copy(Tensor self, Tensor src, bool non_blocking=False)", copy, {.inplace = false, .out = ""});
  addForms(rows, "copy(Tensor self, Tensor src, bool non_blocking=False)", copyInplace,
           {.functional = false, .out = ""}, kOwnWrites);
  addForms(rows, "fill.Scalar(Tensor self, Scalar value)", fillByNumber,
           {.inplace = false, .out = "Scalar_out", .outTraits = kCopiedOut, .cost = Cost::Fill});
  addForms(rows, "fill.Scalar(Tensor self, Scalar value)", fillByNumberInplace, inplaceFill, kOwnWrites);
  addForms(rows, "fill.Tensor(Tensor self, Tensor value)", fillByTensor,
           {.inplace = false, .out = "Tensor_out", .outTraits = kCopiedOut, .cost = Cost::Fill});
  addForms(rows, "fill.Tensor(Tensor self, Tensor value)", fillByTensor, inplaceFill, kOwnWrites);
  addForms(rows, "zero(Tensor self)", zero, {.inplace = false, .outTraits = kCopiedOut, .cost = Cost::Fill});
  addForms(rows, "zero(Tensor self)", zeroInplace, inplaceFill, kOwnWrites);
}

}  // namespace saker::ops
