#include "kernel/constant.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace saker::kernel {
namespace {

using ir::DType;

template <typename Float, typename Bits>
void appendFloat(std::string& out, uint64_t bits, Bits usualNan) {
  Float number = std::bit_cast<Float>(static_cast<Bits>(bits));
  char buffer[64];
  if (std::isnan(number)) {
    out += "nan";
    if (bits == usualNan) return;
    auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, static_cast<Bits>(bits), 16);
    out.append("(0x").append(buffer, end) += ')';
    return;
  }
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, number);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  out += text;
  if (text.find_first_of(".en") == text.npos) out += ".0";  // "n" is in inf
}

template <typename Float, typename Bits>
std::optional<uint64_t> readFloat(std::string_view text, Bits usualNan) {
  const char* end = text.data() + text.size();
  if (text == "nan") return usualNan;
  if (text.starts_with("nan(0x") && text.ends_with(')')) {
    Bits bits = 0;
    auto [last, error] = std::from_chars(text.data() + 6, end - 1, bits, 16);
    if (error != std::errc() || last != end - 1 || !std::isnan(std::bit_cast<Float>(bits))) return std::nullopt;
    return bits;
  }
  Float number = 0;
  auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end || std::isnan(number)) return std::nullopt;
  return std::bit_cast<Bits>(number);
}

}  // namespace

void appendConstant(std::string& out, DType dtype, uint64_t bits) {
  if (dtype == DType::Float32) return appendFloat<float>(out, bits, uint32_t{0x7fc00000});
  if (dtype == DType::Float64) return appendFloat<double>(out, bits, uint64_t{0x7ff8000000000000});
  if (dtype == DType::Bool && bits < 2) {
    out += bits ? "true" : "false";
    return;
  }
  int unused = 64 - 8 * ir::byteSize(dtype);
  bool negative = dtype != DType::UInt8;
  out += std::to_string(negative ? static_cast<int64_t>(bits << unused) >> unused : static_cast<int64_t>(bits));
}

std::optional<uint64_t> constantFromText(DType dtype, std::string_view text) {
  if (dtype == DType::Float32) return readFloat<float>(text, uint32_t{0x7fc00000});
  if (dtype == DType::Float64) return readFloat<double>(text, uint64_t{0x7ff8000000000000});
  if (dtype == DType::Bool) {
    if (text == "true") return 1;
    if (text == "false") return 0;
    return std::nullopt;
  }
  int64_t number = 0;
  auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || last != text.data() + text.size() || text.empty()) return std::nullopt;
  int width = 8 * ir::byteSize(dtype);
  uint64_t bits = static_cast<uint64_t>(number);
  if (width == 64) return bits;
  bool fits = dtype == DType::UInt8 ? number >= 0 && number < 256
                                    : number >= -(int64_t{1} << (width - 1)) && number < (int64_t{1} << (width - 1));
  if (!fits) return std::nullopt;
  return bits & ((uint64_t{1} << width) - 1);
}

}  // namespace saker::kernel
