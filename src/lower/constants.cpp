#include "lower/constants.h"

#include <bit>
#include <cmath>

#include "support/check.h"

namespace saker::lower {

using ir::DType;

namespace {

bool isFull(DType dtype) { return dtype == DType::Float32 || dtype == DType::Float64; }

}  // namespace

uint64_t constantBits(DType dtype, int64_t number) {
  if (dtype == DType::Float64) return std::bit_cast<uint64_t>(static_cast<double>(number));
  if (dtype == DType::Float32) return std::bit_cast<uint32_t>(static_cast<float>(number));
  if (dtype == DType::Bool) return number != 0;
  SAKER_CHECK(ir::isIntegral(dtype, false), "half precision is no type of constants");
  int bits = 8 * ir::byteSize(dtype);
  uint64_t all = static_cast<uint64_t>(number);
  return bits == 64 ? all : all & ((uint64_t{1} << bits) - 1);
}

uint64_t constantBits(DType dtype, double number) {
  if (dtype == DType::Float64) return std::bit_cast<uint64_t>(number);
  if (dtype == DType::Float32) return std::bit_cast<uint32_t>(static_cast<float>(number));
  if (dtype == DType::Bool) return number != 0;
  return constantBits(dtype, static_cast<int64_t>(number));
}

std::optional<uint64_t> convertedConstant(DType from, uint64_t bits, DType to) {
  if (!isFull(to) && !ir::isIntegral(to, true)) return std::nullopt;
  if (isFull(from)) {
    double number = from == DType::Float64 ? std::bit_cast<double>(bits)
                                           : double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
    if (isFull(to) || to == DType::Bool) return constantBits(to, number);
    constexpr double kLimit = 9e18;
    return std::fabs(number) < kLimit ? std::optional(constantBits(to, number)) : std::nullopt;
  }
  if (!ir::isIntegral(from, true)) return std::nullopt;
  int unused = 64 - 8 * ir::byteSize(from);
  int64_t number = from == DType::UInt8 || from == DType::Bool ? static_cast<int64_t>(bits)
                                                               : static_cast<int64_t>(bits << unused) >> unused;
  return constantBits(to, number);
}

}  // namespace saker::lower
