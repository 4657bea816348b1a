#include "ir/arg.h"

#include <bit>

#include "support/intern_table.h"

namespace saker::ir {
namespace {

uint64_t bits(double number) { return std::bit_cast<uint64_t>(number); }

uint64_t hashText(uint64_t hash, std::string_view text) {
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return hashMix(hash, text.size());
}

}  // namespace

bool sameArg(const Arg& a, const Arg& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Arg::Kind::None:
      return true;
    case Arg::Kind::Bool:
      return a.toBool() == b.toBool();
    case Arg::Kind::Int:
      return a.toInt() == b.toInt();
    case Arg::Kind::Float:
      return bits(a.toFloat()) == bits(b.toFloat());
    case Arg::Kind::Complex:
      return bits(a.toComplex().real()) == bits(b.toComplex().real()) &&
             bits(a.toComplex().imag()) == bits(b.toComplex().imag());
    case Arg::Kind::String:
      return a.toString() == b.toString();
    case Arg::Kind::DType:
      return a.toDType() == b.toDType();
    case Arg::Kind::Device:
      return a.toDevice() == b.toDevice();
    case Arg::Kind::Layout:
      return a.toLayout() == b.toLayout();
    case Arg::Kind::MemoryFormat:
      return a.toMemoryFormat() == b.toMemoryFormat();
    case Arg::Kind::SymInt:
    case Arg::Kind::SymBool:
    case Arg::Kind::SymFloat:
      return a.toSym() == b.toSym();
    case Arg::Kind::Opaque:
      return a.toOpaque()->number == b.toOpaque()->number && a.toOpaque()->className == b.toOpaque()->className;
    case Arg::Kind::Value:
      return a.toValue() == b.toValue();
    case Arg::Kind::Type:
      return a.toType() == b.toType();
    case Arg::Kind::List: {
      std::span<const Arg> x = a.toList(), y = b.toList();
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!sameArg(x[i], y[i])) return false;
      }
      return true;
    }
  }
  return false;
}

uint64_t hashArg(uint64_t seed, const Arg& arg) {
  uint64_t hash = hashMix(seed, static_cast<uint64_t>(arg.kind()));
  switch (arg.kind()) {
    case Arg::Kind::None:
      return hash;
    case Arg::Kind::Bool:
      return hashMix(hash, arg.toBool());
    case Arg::Kind::Int:
      return hashMix(hash, static_cast<uint64_t>(arg.toInt()));
    case Arg::Kind::Float:
      return hashMix(hash, bits(arg.toFloat()));
    case Arg::Kind::Complex:
      return hashMix(hashMix(hash, bits(arg.toComplex().real())), bits(arg.toComplex().imag()));
    case Arg::Kind::String:
      return hashText(hash, arg.toString());
    case Arg::Kind::DType:
      return hashMix(hash, static_cast<uint64_t>(arg.toDType()));
    case Arg::Kind::Device: {
      Device device = arg.toDevice();
      return hashMix(hash, static_cast<uint64_t>(device.type) << 8 | static_cast<uint8_t>(device.index));
    }
    case Arg::Kind::Layout:
      return hashMix(hash, static_cast<uint64_t>(arg.toLayout()));
    case Arg::Kind::MemoryFormat:
      return hashMix(hash, static_cast<uint64_t>(arg.toMemoryFormat()));
    case Arg::Kind::SymInt:
    case Arg::Kind::SymBool:
    case Arg::Kind::SymFloat:
      return hashMix(hash, arg.toSym()->hash);
    case Arg::Kind::Opaque:
      return hashText(hashMix(hash, arg.toOpaque()->number), arg.toOpaque()->className);
    case Arg::Kind::Value:
      return hashMix(hash, reinterpret_cast<uintptr_t>(arg.toValue()));
    case Arg::Kind::Type:
      return hashMix(hash, reinterpret_cast<uintptr_t>(arg.toType()));
    case Arg::Kind::List: {
      hash = hashMix(hash, arg.toList().size());
      for (const Arg& element : arg.toList()) hash = hashArg(hash, element);
      return hash;
    }
  }
  return hash;
}

}  // namespace saker::ir
