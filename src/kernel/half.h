// f16 and bf16 to f32 and back, bit by bit: to nearest, halves to even, a nan stays a nan.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace saker::kernel {

inline float bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t floatToBfloat16(float number) {
  if (std::isnan(number)) return 0x7fc0;
  uint32_t bits = std::bit_cast<uint32_t>(number);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float float16ToFloat(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  float magnitude;
  if (exponent == 31) {
    magnitude = mantissa ? std::nanf("") : INFINITY;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

inline uint16_t floatToFloat16(float number) {
  uint16_t sign = std::signbit(number) ? 0x8000 : 0;
  if (std::isnan(number)) return sign | 0x7e00;
  float magnitude = std::fabs(number);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0f, -14)) {  // a multiple of 2^-24, perhaps the smallest normal number
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  int exponent = std::ilogb(magnitude);
  int mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));  // 1024 to 2048
  return static_cast<uint16_t>(sign | (((exponent + 15) << 10) + (mantissa - 1024)));
}

}  // namespace saker::kernel
