#include "codegen/outside.h"

#include <cmath>
#include <cstring>

namespace saker::codegen {
namespace {

using kernel::DType;
using kernel::Op;

struct Row {
  Op op;
  const char* name;      // the C library's for f64; f32 adds an f
  const char* accuracy;  // of SLEEF's function; empty: its name has none, null: there is none
  const char* eager32;   // of the one that eager mode calls for f32
};
constexpr Row kRows[] = {
    {Op::Exp, "exp", "u10", "u10"},
    {Op::Exp2, "exp2", "u10", "u10"},
    {Op::Expm1, "expm1", "u10", "u10"},
    {Op::Log, "log", "u10", "u10"},
    {Op::Log2, "log2", "u10", "u10"},
    {Op::Log10, "log10", "u10", "u10"},
    {Op::Log1p, "log1p", "u10", "u10"},
    {Op::Sin, "sin", "u10", "u35"},
    {Op::Cos, "cos", "u10", "u35"},
    {Op::Tan, "tan", "u10", "u10"},
    {Op::Asin, "asin", "u10", "u10"},
    {Op::Acos, "acos", "u10", "u10"},
    {Op::Atan, "atan", "u10", "u10"},
    {Op::Atan2, "atan2", "u10", "u10"},
    {Op::Sinh, "sinh", "u10", "u10"},
    {Op::Cosh, "cosh", "u10", "u10"},
    {Op::Tanh, "tanh", "u10", "u10"},
    {Op::Asinh, "asinh", "u10", "u10"},
    {Op::Acosh, "acosh", "u10", "u10"},
    {Op::Atanh, "atanh", "u10", "u10"},
    {Op::Erf, "erf", "u10", "u10"},
    {Op::Erfc, "erfc", "u15", "u15"},
    {Op::Pow, "pow", "u10", "u10"},
    {Op::Rem, "fmod", "", ""},
    {Op::Fma, "fma", nullptr, nullptr},
    {Op::Floor, "floor", nullptr, nullptr},
    {Op::Ceil, "ceil", nullptr, nullptr},
    {Op::Trunc, "trunc", nullptr, nullptr},
    {Op::Round, "nearbyint", nullptr, nullptr},
};

const Row* find(Op op) {
  for (const Row& row : kRows) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

struct Address {
  const char* name;
  void* address;
};
#define SAKER_ONE(name)                                                       \
  {#name, reinterpret_cast<void*>(static_cast<double (*)(double)>(&::name))}, \
      {#name "f", reinterpret_cast<void*>(static_cast<float (*)(float)>(&::name##f))},
#define SAKER_TWO(name)                                                               \
  {#name, reinterpret_cast<void*>(static_cast<double (*)(double, double)>(&::name))}, \
      {#name "f", reinterpret_cast<void*>(static_cast<float (*)(float, float)>(&::name##f))},
const Address kAddresses[] = {
    // clang-format off
    SAKER_ONE(exp) SAKER_ONE(exp2) SAKER_ONE(expm1) SAKER_ONE(log) SAKER_ONE(log2) SAKER_ONE(log10) SAKER_ONE(log1p)
    SAKER_ONE(sin) SAKER_ONE(cos) SAKER_ONE(tan) SAKER_ONE(asin) SAKER_ONE(acos) SAKER_ONE(atan) SAKER_ONE(sinh)
    SAKER_ONE(cosh) SAKER_ONE(tanh) SAKER_ONE(asinh) SAKER_ONE(acosh) SAKER_ONE(atanh) SAKER_ONE(erf) SAKER_ONE(erfc)
    SAKER_ONE(floor) SAKER_ONE(ceil) SAKER_ONE(trunc) SAKER_ONE(nearbyint)
    SAKER_TWO(atan2) SAKER_TWO(pow) SAKER_TWO(fmod)
    // clang-format on
    {"fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(&::fma))},
    {"fmaf", reinterpret_cast<void*>(static_cast<float (*)(float, float, float)>(&::fmaf))},
    {"memcpy", reinterpret_cast<void*>(&::memcpy)},
    {"memset", reinterpret_cast<void*>(&::memset)},
};
#undef SAKER_ONE
#undef SAKER_TWO

}  // namespace

std::string scalarFunction(Op op, DType dtype) {
  const Row* row = find(op);
  if (!row) return "";
  return std::string(row->name) + (dtype == DType::Float32 ? "f" : "");
}

std::string vectorFunction(Op op, DType dtype, int lanes, bool eager) {
  const Row* row = find(op);
  if (!row || !row->accuracy) return "";
  bool wide = dtype == DType::Float64;
  const char* accuracy = !wide && eager ? row->eager32 : row->accuracy;
  std::string name = std::string("Sleef_") + row->name + (wide ? "d" : "f") + std::to_string(lanes);
  return *accuracy ? name + "_" + accuracy : name;
}

void* libraryFunction(const char* name) {
  for (const Address& row : kAddresses) {
    if (std::strcmp(row.name, name) == 0) return row.address;
  }
  return nullptr;
}

}  // namespace saker::codegen
