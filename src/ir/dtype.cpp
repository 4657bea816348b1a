#include "ir/dtype.h"

#include <charconv>

namespace saker::ir {
namespace {

struct DTypeRow {
  std::string_view name;
  int bytes;
  char category;
};
constexpr DTypeRow kDTypeRows[] = {
#define X(enumerator, name, bytes, category) {name, bytes, category},
    SAKER_DTYPES(X)
#undef X
};
#define X(enumerator, name) name,
constexpr std::string_view kDeviceNames[] = {SAKER_DEVICES(X)};
constexpr std::string_view kLayoutNames[] = {SAKER_LAYOUTS(X)};
constexpr std::string_view kMemoryFormatNames[] = {SAKER_MEMORY_FORMATS(X)};
#undef X

const DTypeRow& row(DType dtype) { return kDTypeRows[static_cast<size_t>(dtype)]; }

template <typename E, size_t N>
std::optional<E> fromName(const std::string_view (&names)[N], std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }
int byteSize(DType dtype) { return row(dtype).bytes; }
char category(DType dtype) { return row(dtype).category; }

std::optional<DType> dtypeFromName(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (kDTypeRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

DType toReal(DType dtype) {
  switch (dtype) {
    case DType::Complex32:
      return DType::Float16;
    case DType::Complex64:
      return DType::Float32;
    case DType::Complex128:
      return DType::Float64;
    case DType::BComplex32:
      return DType::BFloat16;
    default:
      return dtype;
  }
}

DType toComplex(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return DType::Complex32;
    case DType::BFloat16:
      return DType::BComplex32;
    case DType::Float32:
      return DType::Complex64;
    case DType::Float64:
      return DType::Complex128;
    default:
      return dtype;
  }
}

std::string toString(Device device) {
  std::string text(kDeviceNames[static_cast<size_t>(device.type)]);
  if (device.index >= 0) text += ':' + std::to_string(device.index);
  return text;
}

std::optional<Device> deviceFromName(std::string_view text) {
  Device device;
  if (size_t colon = text.find(':'); colon != text.npos) {
    std::string_view digits = text.substr(colon + 1);
    int index = -1;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    bool canonical = digits.size() == 1 || !digits.starts_with('0');
    if (error != std::errc() || end != digits.data() + digits.size() || !canonical || index < 0 || index > 127) {
      return std::nullopt;
    }
    device.index = static_cast<int8_t>(index);
    text = text.substr(0, colon);
  }
  std::optional<DeviceType> type = fromName<DeviceType>(kDeviceNames, text);
  if (!type) return std::nullopt;
  device.type = *type;
  return device;
}

std::string_view name(Layout layout) { return kLayoutNames[static_cast<size_t>(layout)]; }
std::optional<Layout> layoutFromName(std::string_view name) { return fromName<Layout>(kLayoutNames, name); }

std::string_view name(MemoryFormat format) { return kMemoryFormatNames[static_cast<size_t>(format)]; }
std::optional<MemoryFormat> memoryFormatFromName(std::string_view name) {
  return fromName<MemoryFormat>(kMemoryFormatNames, name);
}

}  // namespace saker::ir
