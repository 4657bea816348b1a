// Element types, devices, layouts and memory formats, each from one list. Numbers are PyTorch's own, which the ATen
// bridge asserts, so that crossing over costs nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace saker::ir {

// enumerator, name in text, bytes, category: b bool, i integer, f float, c complex, x neither (no arithmetic)
#define SAKER_DTYPES(X)                   \
  X(UInt8, "u8", 1, 'i')                  \
  X(Int8, "i8", 1, 'i')                   \
  X(Int16, "i16", 2, 'i')                 \
  X(Int32, "i32", 4, 'i')                 \
  X(Int64, "i64", 8, 'i')                 \
  X(Float16, "f16", 2, 'f')               \
  X(Float32, "f32", 4, 'f')               \
  X(Float64, "f64", 8, 'f')               \
  X(Complex32, "c32", 4, 'c')             \
  X(Complex64, "c64", 8, 'c')             \
  X(Complex128, "c128", 16, 'c')          \
  X(Bool, "bool", 1, 'b')                 \
  X(QInt8, "qi8", 1, 'x')                 \
  X(QUInt8, "qu8", 1, 'x')                \
  X(QInt32, "qi32", 4, 'x')               \
  X(BFloat16, "bf16", 2, 'f')             \
  X(QUInt4x2, "qu4x2", 1, 'x')            \
  X(QUInt2x4, "qu2x4", 1, 'x')            \
  X(Bits1x8, "bits1x8", 1, 'x')           \
  X(Bits2x4, "bits2x4", 1, 'x')           \
  X(Bits4x2, "bits4x2", 1, 'x')           \
  X(Bits8, "bits8", 1, 'x')               \
  X(Bits16, "bits16", 2, 'x')             \
  X(Float8E5M2, "f8e5m2", 1, 'f')         \
  X(Float8E4M3FN, "f8e4m3fn", 1, 'f')     \
  X(Float8E5M2FNUZ, "f8e5m2fnuz", 1, 'f') \
  X(Float8E4M3FNUZ, "f8e4m3fnuz", 1, 'f') \
  X(UInt16, "u16", 2, 'i')                \
  X(UInt32, "u32", 4, 'i')                \
  X(UInt64, "u64", 8, 'i')                \
  X(UInt1, "u1", 1, 'x')                  \
  X(UInt2, "u2", 1, 'x')                  \
  X(UInt3, "u3", 1, 'x')                  \
  X(UInt4, "u4", 1, 'x')                  \
  X(UInt5, "u5", 1, 'x')                  \
  X(UInt6, "u6", 1, 'x')                  \
  X(UInt7, "u7", 1, 'x')                  \
  X(Int1, "i1", 1, 'x')                   \
  X(Int2, "i2", 1, 'x')                   \
  X(Int3, "i3", 1, 'x')                   \
  X(Int4, "i4", 1, 'x')                   \
  X(Int5, "i5", 1, 'x')                   \
  X(Int6, "i6", 1, 'x')                   \
  X(Int7, "i7", 1, 'x')                   \
  X(Float8E8M0FNU, "f8e8m0fnu", 1, 'f')   \
  X(Float4E2M1FNX2, "f4e2m1fnx2", 1, 'x') \
  X(BComplex32, "bc32", 4, 'c')

enum class DType : uint8_t {
#define X(enumerator, name, bytes, category) enumerator,
  SAKER_DTYPES(X)
#undef X
};
inline constexpr int kDTypes = static_cast<int>(DType::BComplex32) + 1;

std::string_view name(DType dtype);
std::optional<DType> dtypeFromName(std::string_view name);
int byteSize(DType dtype);
char category(DType dtype);  // as in the list

inline bool isFloat(DType t) { return category(t) == 'f'; }
inline bool isComplex(DType t) { return category(t) == 'c'; }
// As c10::isIntegralType.
inline bool isIntegral(DType t, bool includeBool) { return category(t) == 'i' || (includeBool && t == DType::Bool); }
DType toReal(DType dtype);     // of a complex type its parts'; of others itself
DType toComplex(DType dtype);  // of a float its complex type, where it has one; of others itself

#define SAKER_DEVICES(X) \
  X(CPU, "cpu")          \
  X(CUDA, "cuda")        \
  X(MKLDNN, "mkldnn")    \
  X(OpenGL, "opengl")    \
  X(OpenCL, "opencl")    \
  X(IDEEP, "ideep")      \
  X(HIP, "hip")          \
  X(FPGA, "fpga")        \
  X(MAIA, "maia")        \
  X(XLA, "xla")          \
  X(Vulkan, "vulkan")    \
  X(Metal, "metal")      \
  X(XPU, "xpu")          \
  X(MPS, "mps")          \
  X(Meta, "meta")        \
  X(HPU, "hpu") X(VE, "ve") X(Lazy, "lazy") X(IPU, "ipu") X(MTIA, "mtia") X(PrivateUse1, "privateuseone")

enum class DeviceType : int8_t {
#define X(enumerator, name) enumerator,
  SAKER_DEVICES(X)
#undef X
};

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;  // -1: none given
  friend bool operator==(const Device&, const Device&) = default;
};

std::string toString(Device device);  // "cuda:0"
std::optional<Device> deviceFromName(std::string_view text);

#define SAKER_LAYOUTS(X)     \
  X(Strided, "strided")      \
  X(Sparse, "sparse_coo")    \
  X(SparseCsr, "sparse_csr") \
  X(Mkldnn, "mkldnn")        \
  X(SparseCsc, "sparse_csc") X(SparseBsr, "sparse_bsr") X(SparseBsc, "sparse_bsc") X(Jagged, "jagged")

enum class Layout : int8_t {
#define X(enumerator, name) enumerator,
  SAKER_LAYOUTS(X)
#undef X
};
std::string_view name(Layout layout);
std::optional<Layout> layoutFromName(std::string_view name);

#define SAKER_MEMORY_FORMATS(X) \
  X(Contiguous, "contiguous")   \
  X(Preserve, "preserve") X(ChannelsLast, "channels_last") X(ChannelsLast3d, "channels_last_3d")

enum class MemoryFormat : int8_t {
#define X(enumerator, name) enumerator,
  SAKER_MEMORY_FORMATS(X)
#undef X
};
std::string_view name(MemoryFormat format);
std::optional<MemoryFormat> memoryFormatFromName(std::string_view name);

}  // namespace saker::ir
