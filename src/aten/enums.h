// Our enums have PyTorch's numbers, so that crossing over is a cast. This header proves it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include "aten/torch_version/dtypes.h"
#include "ir/dtype.h"

namespace saker::aten {

inline ir::DType toDType(c10::ScalarType type) { return static_cast<ir::DType>(type); }
inline ir::Layout toLayout(c10::Layout layout) { return static_cast<ir::Layout>(layout); }
inline ir::MemoryFormat toMemoryFormat(c10::MemoryFormat format) { return static_cast<ir::MemoryFormat>(format); }
// As the device of a tensor reads: one CPU, without a number.
inline ir::Device toDevice(c10::Device device) {
  auto type = static_cast<ir::DeviceType>(device.type());
  bool numbered = type != ir::DeviceType::CPU && type != ir::DeviceType::Meta;
  return {type, numbered ? device.index() : int8_t{-1}};
}

inline c10::ScalarType fromDType(ir::DType type) {
  requireDType(type);
  return static_cast<c10::ScalarType>(type);
}
inline c10::Layout fromLayout(ir::Layout layout) { return static_cast<c10::Layout>(layout); }
inline c10::Device fromDevice(ir::Device device) { return {static_cast<c10::DeviceType>(device.type), device.index}; }

#define SAKER_SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
#define SAKER_SAME_DTYPE(ours, theirs) SAKER_SAME(ir::DType::ours, c10::ScalarType::theirs)
SAKER_SAME_DTYPE(UInt8, Byte);
SAKER_SAME_DTYPE(Int8, Char);
SAKER_SAME_DTYPE(Int16, Short);
SAKER_SAME_DTYPE(Int32, Int);
SAKER_SAME_DTYPE(Int64, Long);
SAKER_SAME_DTYPE(Float16, Half);
SAKER_SAME_DTYPE(Float32, Float);
SAKER_SAME_DTYPE(Float64, Double);
SAKER_SAME_DTYPE(Complex32, ComplexHalf);
SAKER_SAME_DTYPE(Complex64, ComplexFloat);
SAKER_SAME_DTYPE(Complex128, ComplexDouble);
SAKER_SAME_DTYPE(Bool, Bool);
SAKER_SAME_DTYPE(QInt8, QInt8);
SAKER_SAME_DTYPE(QUInt8, QUInt8);
SAKER_SAME_DTYPE(QInt32, QInt32);
SAKER_SAME_DTYPE(BFloat16, BFloat16);
SAKER_SAME_DTYPE(QUInt4x2, QUInt4x2);
SAKER_SAME_DTYPE(QUInt2x4, QUInt2x4);
SAKER_SAME_DTYPE(Bits1x8, Bits1x8);
SAKER_SAME_DTYPE(Bits2x4, Bits2x4);
SAKER_SAME_DTYPE(Bits4x2, Bits4x2);
SAKER_SAME_DTYPE(Bits8, Bits8);
SAKER_SAME_DTYPE(Bits16, Bits16);
SAKER_SAME_DTYPE(Float8E5M2, Float8_e5m2);
SAKER_SAME_DTYPE(Float8E4M3FN, Float8_e4m3fn);
SAKER_SAME_DTYPE(Float8E5M2FNUZ, Float8_e5m2fnuz);
SAKER_SAME_DTYPE(Float8E4M3FNUZ, Float8_e4m3fnuz);
SAKER_SAME_DTYPE(UInt16, UInt16);
SAKER_SAME_DTYPE(UInt32, UInt32);
SAKER_SAME_DTYPE(UInt64, UInt64);
SAKER_SAME_DTYPE(UInt1, UInt1);
SAKER_SAME_DTYPE(UInt7, UInt7);
SAKER_SAME_DTYPE(Int1, Int1);
SAKER_SAME_DTYPE(Int7, Int7);
SAKER_SAME_DTYPE(Float8E8M0FNU, Float8_e8m0fnu);
SAKER_SAME_DTYPE(Float4E2M1FNX2, Float4_e2m1fn_x2);
#undef SAKER_SAME_DTYPE

#define SAKER_SAME_DEVICE(ours, theirs) SAKER_SAME(ir::DeviceType::ours, c10::DeviceType::theirs)
SAKER_SAME_DEVICE(CPU, CPU);
SAKER_SAME_DEVICE(CUDA, CUDA);
SAKER_SAME_DEVICE(MKLDNN, MKLDNN);
SAKER_SAME_DEVICE(OpenGL, OPENGL);
SAKER_SAME_DEVICE(OpenCL, OPENCL);
SAKER_SAME_DEVICE(IDEEP, IDEEP);
SAKER_SAME_DEVICE(HIP, HIP);
SAKER_SAME_DEVICE(FPGA, FPGA);
SAKER_SAME_DEVICE(MAIA, MAIA);
SAKER_SAME_DEVICE(XLA, XLA);
SAKER_SAME_DEVICE(Vulkan, Vulkan);
SAKER_SAME_DEVICE(Metal, Metal);
SAKER_SAME_DEVICE(XPU, XPU);
SAKER_SAME_DEVICE(MPS, MPS);
SAKER_SAME_DEVICE(Meta, Meta);
SAKER_SAME_DEVICE(HPU, HPU);
SAKER_SAME_DEVICE(VE, VE);
SAKER_SAME_DEVICE(Lazy, Lazy);
SAKER_SAME_DEVICE(IPU, IPU);
SAKER_SAME_DEVICE(MTIA, MTIA);
SAKER_SAME_DEVICE(PrivateUse1, PrivateUse1);
#undef SAKER_SAME_DEVICE

#define SAKER_SAME_NAMED(type, name) SAKER_SAME(ir::type::name, c10::type::name)
SAKER_SAME_NAMED(Layout, Strided);
SAKER_SAME_NAMED(Layout, Sparse);
SAKER_SAME_NAMED(Layout, SparseCsr);
SAKER_SAME_NAMED(Layout, Mkldnn);
SAKER_SAME_NAMED(Layout, SparseCsc);
SAKER_SAME_NAMED(Layout, SparseBsr);
SAKER_SAME_NAMED(Layout, SparseBsc);
SAKER_SAME_NAMED(Layout, Jagged);
SAKER_SAME_NAMED(MemoryFormat, Contiguous);
SAKER_SAME_NAMED(MemoryFormat, Preserve);
SAKER_SAME_NAMED(MemoryFormat, ChannelsLast);
SAKER_SAME_NAMED(MemoryFormat, ChannelsLast3d);
#undef SAKER_SAME_NAMED
#undef SAKER_SAME

}  // namespace saker::aten
