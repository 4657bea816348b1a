#include "ops/factory.h"

#include "ops/promote.h"

namespace saker::ops {

namespace {

Device allocationDevice(const Infer& in, Device device) {
  if (device.type == DeviceType::CPU) return Device{};  // has no index
  if (device.index >= 0 || device.type == DeviceType::Meta) return device;
  Device ambient = in.context().ambient().defaultDevice;
  if (ambient.type != device.type || ambient.index < 0) {
    unsupported("the current device of type " + ir::toString(device) + " is not known");
  }
  return ambient;
}

}  // namespace

Options readOptions(const Infer& in, size_t first, DType dtype, Device device) {
  if (isOut(in)) {
    const TensorType& out = in.tensor(in.op().parsed.arguments.size() - 1);
    return {out.dtype, out.device};
  }
  if (std::optional<Layout> layout = in.layout(first + 1); layout && *layout != Layout::Strided) {
    unsupported("a tensor that is not strided");
  }
  if (in.boolean(first + 3)) unsupported("pinned memory");
  Options out{in.dtype(first).value_or(dtype), device};
  if (std::optional<Device> given = in.device(first + 2)) out.device = allocationDevice(in, *given);
  if (ir::category(out.dtype) == 'x') unsupported("a tensor of a dtype without arithmetic");
  return out;
}

Options readOptions(const Infer& in, size_t first) {
  const ir::Ambient& ambient = in.context().ambient();
  return readOptions(in, first, ambient.defaultDType, ambient.defaultDevice);
}

Options readOptions(const Infer& in, size_t first, const TensorType& like) {
  if (isOut(in)) return {like.dtype, like.device};
  return readOptions(in, first, like.dtype, like.device);
}

DType dtypeOf(const Infer& in, Scalar::Kind kind) {
  switch (kind) {
    case Scalar::Kind::Bool:
      return DType::Bool;
    case Scalar::Kind::Int:
      return DType::Int64;
    case Scalar::Kind::Float:
      return in.context().ambient().defaultDType;
    case Scalar::Kind::Complex:
      return defaultComplex(in.context());
  }
  return DType::Float32;
}

void fresh(Infer& in, IntSpan sizes, Options options) {
  requireSizes(sizes);
  in.contiguous(sizes, options.dtype, options.device);
}

void freshLike(Infer& in, const TensorType& like, Options options, std::optional<MemoryFormat> format) {
  TensorSpec spec;
  spec.dtype = options.dtype;
  spec.device = options.device;
  spec.sizes = Dims(like.sizes());
  bool keep = !format || *format == MemoryFormat::Preserve;
  spec.strides = keep ? denseStridesLike(like) : stridesIn(like.sizes(), *format);
  in.result(spec);
}

}  // namespace saker::ops
