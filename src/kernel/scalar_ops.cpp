#include "kernel/scalar_ops.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernel/half.h"
#include "support/check.h"

namespace saker::kernel {
namespace {

template <typename T>
T as(Bits bits) {
  T out;
  std::memcpy(&out, &bits, sizeof(T));
  return out;
}
template <typename T>
Bits bitsOf(T number) {
  Bits out = 0;
  std::memcpy(&out, &number, sizeof(T));
  return out;
}

template <typename Int>
Int truncated(double number) {
  double limit = std::ldexp(1.0, std::numeric_limits<Int>::digits);
  return number >= -limit && number < limit ? static_cast<Int>(number) : std::numeric_limits<Int>::min();
}

// Calls `with(T())` for the C++ type of a computed type.
template <typename With>
auto dispatch(DType dtype, With with) {
  switch (dtype) {
    case DType::Bool:
      return with(bool());
    case DType::UInt8:
      return with(uint8_t());
    case DType::Int8:
      return with(int8_t());
    case DType::Int16:
      return with(int16_t());
    case DType::Int32:
      return with(int32_t());
    case DType::Int64:
      return with(int64_t());
    case DType::Float32:
      return with(float());
    default:
      return with(double());
  }
}

template <typename T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
  }
  return a > b ? a : b;
}
template <typename T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
  }
  return a < b ? a : b;
}

// Functions are computed in f64 and rounded, those of f64 by the C library.
template <typename T>
T function(Op op, T a, T b) {
  double x = a, y = b;
  switch (op) {
    case Op::Sqrt:
      return std::sqrt(a);
    case Op::Floor:
      return std::floor(a);
    case Op::Ceil:
      return std::ceil(a);
    case Op::Trunc:
      return std::trunc(a);
    case Op::Round:
      return std::nearbyint(a);
    case Op::CopySign:
      return std::copysign(a, b);
#define SAKER_FUNCTION(enumerator, call) \
  case Op::enumerator:                   \
    return static_cast<T>(std::call);
      SAKER_FUNCTION(Exp, exp(x))
      SAKER_FUNCTION(Exp2, exp2(x))
      SAKER_FUNCTION(Expm1, expm1(x))
      SAKER_FUNCTION(Log, log(x))
      SAKER_FUNCTION(Log2, log2(x))
      SAKER_FUNCTION(Log10, log10(x))
      SAKER_FUNCTION(Log1p, log1p(x))
      SAKER_FUNCTION(Sin, sin(x))
      SAKER_FUNCTION(Cos, cos(x))
      SAKER_FUNCTION(Tan, tan(x))
      SAKER_FUNCTION(Asin, asin(x))
      SAKER_FUNCTION(Acos, acos(x))
      SAKER_FUNCTION(Atan, atan(x))
      SAKER_FUNCTION(Atan2, atan2(x, y))
      SAKER_FUNCTION(Sinh, sinh(x))
      SAKER_FUNCTION(Cosh, cosh(x))
      SAKER_FUNCTION(Tanh, tanh(x))
      SAKER_FUNCTION(Asinh, asinh(x))
      SAKER_FUNCTION(Acosh, acosh(x))
      SAKER_FUNCTION(Atanh, atanh(x))
      SAKER_FUNCTION(Erf, erf(x))
      SAKER_FUNCTION(Erfc, erfc(x))
      SAKER_FUNCTION(Pow, pow(x, y))
#undef SAKER_FUNCTION
    default:
      SAKER_CHECK(false, "an operation that kernels do not know");
  }
}

template <typename T>
T floatOp(Op op, T a, T b, T c) {
  switch (op) {
    case Op::Add:
      return a + b;
    case Op::Sub:
      return a - b;
    case Op::Mul:
      return a * b;
    case Op::Div:
      return a / b;
    case Op::Fma:
      return std::fma(a, b, c);
    case Op::Rem:
      return std::fmod(a, b);
    case Op::Neg:
      return -a;
    case Op::Abs:
      return std::fabs(a);
    case Op::Min:
      return smaller(a, b);
    case Op::Max:
      return larger(a, b);
    default:
      return function(op, a, b);
  }
}

// Of integers; bools know the last four.
template <typename T>
T integerOp(Op op, T a, T b) {
  using U = std::conditional_t<std::is_same_v<T, bool>, uint8_t,
                               std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, int8_t, T>>>;
  constexpr int kWidth = 8 * sizeof(T);
  auto wrap = [](uint64_t x) { return static_cast<T>(static_cast<U>(x)); };
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  bool tooFar = b < T(0) || static_cast<uint64_t>(b) >= static_cast<uint64_t>(kWidth);
  switch (op) {
    case Op::Add:
      return wrap(x + y);
    case Op::Sub:
      return wrap(x - y);
    case Op::Mul:
      return wrap(x * y);
    case Op::Div:
      if (std::is_signed_v<T> && static_cast<int64_t>(b) == -1) return wrap(-x);
      return static_cast<T>(a / b);
    case Op::Rem:
      if (std::is_signed_v<T> && static_cast<int64_t>(b) == -1) return 0;
      return static_cast<T>(a % b);
    case Op::Neg:
      return wrap(-x);
    case Op::Abs:
      return a < T(0) ? wrap(-x) : a;
    case Op::Min:
      return a < b ? a : b;
    case Op::Max:
      return a > b ? a : b;
    case Op::Shl:
      return tooFar ? T(0) : wrap(x << y);
    case Op::Shr:
      return static_cast<T>(tooFar ? (a < T(0) ? -1 : 0) : static_cast<int64_t>(a) >> y);
    case Op::And:
      return wrap(x & y);
    case Op::Or:
      return wrap(x | y);
    case Op::Xor:
      return wrap(x ^ y);
    case Op::Not:
      return std::is_same_v<T, bool> ? T(!a) : wrap(~x);
    default:
      SAKER_CHECK(false, "an operation that kernels do not know");
  }
}

template <typename T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::Eq:
      return a == b;
    case Op::Ne:
      return a != b;
    case Op::Lt:
      return a < b;
    case Op::Le:
      return a <= b;
    case Op::Gt:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace

Bits convertBits(DType from, DType to, Bits bits) {
  if (from == to) return bits;
  if (from == DType::BFloat16) return convertBits(DType::Float32, to, bitsOf(bfloat16ToFloat(as<uint16_t>(bits))));
  if (from == DType::Float16) return convertBits(DType::Float32, to, bitsOf(float16ToFloat(as<uint16_t>(bits))));
  if (to == DType::BFloat16) return floatToBfloat16(as<float>(convertBits(from, DType::Float32, bits)));
  if (to == DType::Float16) return floatToFloat16(as<float>(convertBits(from, DType::Float32, bits)));
  return dispatch(from, [&](auto source) {
    using From = decltype(source);
    From number = as<From>(bits);
    return dispatch(to, [&](auto target) -> Bits {
      using To = decltype(target);
      if constexpr (std::is_same_v<To, bool>) {
        return bitsOf(number != From(0));
      } else if constexpr (std::is_floating_point_v<To> || !std::is_floating_point_v<From>) {
        return bitsOf(static_cast<To>(number));
      } else if constexpr (std::is_same_v<To, int64_t> || std::is_same_v<To, uint8_t>) {
        return bitsOf(static_cast<To>(truncated<int64_t>(number)));
      } else {
        return bitsOf(static_cast<To>(truncated<int32_t>(number)));
      }
    });
  });
}

Bits compute(const Node& node, DType from, const Bits* operands) {
  switch (node.op) {
    case Op::Convert:
      return convertBits(from, node.dtype, operands[0]);
    case Op::Bitcast:
      return operands[0];
    case Op::Select:
      return operands[0] ? operands[1] : operands[2];
    default:
      break;
  }
  return dispatch(from, [&](auto zero) -> Bits {
    using T = decltype(zero);
    T a = as<T>(operands[0]), b = as<T>(operands[1]), c = as<T>(operands[2]);
    if (node.op >= Op::Eq && node.op <= Op::Ge) return bitsOf(compare(node.op, a, b));
    if constexpr (std::is_floating_point_v<T>) {
      return bitsOf(floatOp(node.op, a, b, c));
    } else {
      return bitsOf(integerOp(node.op, a, b));
    }
  });
}

Accumulator identity(Reduction reduction, DType dtype) {
  return dispatch(dtype, [&](auto zero) -> Accumulator {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    switch (reduction) {
      case Reduction::Sum:
      case Reduction::Any:
        return {0, 0};
      case Reduction::Prod:
      case Reduction::All:
        return {1, bitsOf(T(1))};
      case Reduction::Max:
        return {0, bitsOf(Limits::has_infinity ? -Limits::infinity() : Limits::lowest())};
      default:
        return {0, bitsOf(Limits::has_infinity ? Limits::infinity() : Limits::max())};
    }
  });
}

void accumulate(Accumulator& into, Reduction reduction, DType dtype, Bits value) {
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    T a = as<T>(into.bits), b = as<T>(value);
    switch (reduction) {
      case Reduction::Sum:
        if constexpr (std::is_floating_point_v<T>) {
          into.number += b;
        } else {
          into.bits = bitsOf(integerOp(Op::Add, a, b));
        }
        break;
      case Reduction::Prod:
        if constexpr (std::is_floating_point_v<T>) {
          into.number *= b;
        } else {
          into.bits = bitsOf(integerOp(Op::Mul, a, b));
        }
        break;
      case Reduction::Max:
        into.bits = bitsOf(larger(a, b));
        break;
      case Reduction::Min:
        into.bits = bitsOf(smaller(a, b));
        break;
      case Reduction::Any:
        into.bits = bitsOf(static_cast<T>(a || b));
        break;
      case Reduction::All:
        into.bits = bitsOf(static_cast<T>(a && b));
        break;
    }
  });
}

Bits result(const Accumulator& accumulator, Reduction reduction, DType dtype) {
  bool wide = reduction == Reduction::Sum || reduction == Reduction::Prod;
  if (wide && dtype == DType::Float32) return bitsOf(static_cast<float>(accumulator.number));
  if (wide && dtype == DType::Float64) return bitsOf(static_cast<double>(accumulator.number));
  return accumulator.bits;
}

}  // namespace saker::kernel
