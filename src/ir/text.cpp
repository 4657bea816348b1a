#include "ir/text.h"

#include <bit>
#include <charconv>
#include <cmath>

namespace saker::ir {
namespace {

constexpr uint64_t kUsualNan = 0x7ff8000000000000ull;
constexpr char kHex[] = "0123456789abcdef";

bool isRowMajor(const TensorType& type) {
  try {
    Dims expected = contiguousStrides(type.sizes());
    for (size_t i = 0; i < type.rank; ++i) {
      if (!expected[i].same(type.stride(i))) return false;
    }
    return true;
  } catch (const std::runtime_error&) {  // Overflow, Undecided
    return false;
  }
}

void appendInts(std::string& out, std::span<const Int> numbers) {
  out += '[';
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i) out += ", ";
    appendInt(out, numbers[i]);
  }
  out += ']';
}

void appendTensor(std::string& out, const TensorType& type) {
  out += name(type.dtype);
  appendInts(out, type.sizes());
  const char* separator = "{";
  auto attribute = [&](std::string_view text) {
    out += separator;
    out += text;
    separator = ", ";
  };
  if (!isRowMajor(type)) attribute("strides: "), appendInts(out, type.strides());
  if (!type.offset.isConst(0)) attribute("offset: "), appendInt(out, type.offset);
  if (type.device != Device{}) attribute("device: "), out += toString(type.device);
  if (type.layout != Layout::Strided) attribute("layout: "), out += name(type.layout);
  if (type.flags.requiresGrad) attribute("requires_grad");
  if (type.flags.wrappedNumber) attribute("wrapped_number");
  if (type.flags.conj) attribute("conj");
  if (type.flags.neg) attribute("neg");
  if (separator[0] == ',') out += '}';
}

}  // namespace

bool isIdentifier(std::string_view text) {
  if (text.empty() || !isIdentifierStart(text[0])) return false;
  for (char c : text) {
    if (!isIdentifierChar(c)) return false;
  }
  return true;
}

void appendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
          out += "\\x";
          out += kHex[c >> 4];
          out += kHex[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void appendInt(std::string& out, int64_t number) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

void appendInt(std::string& out, const Int& number) {
  if (number.isConst()) {
    appendInt(out, number.constant());
  } else {
    out += sym::toString(number.node());
  }
}

void appendFloat(std::string& out, double number) {
  char buffer[40];
  if (std::isnan(number)) {
    uint64_t bits = std::bit_cast<uint64_t>(number);
    out += "nan";
    if (bits == kUsualNan) return;
    out += "(0x";
    out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, bits, 16).ptr);
    out += ')';
    return;
  }
  char* end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  std::string_view digits(buffer, static_cast<size_t>(end - buffer));
  out += digits;
  if (digits.find_first_of(".en") == digits.npos) out += ".0";  // 'n' as in inf
}

void appendType(std::string& out, const Type* type) {
  switch (type->kind) {
    case TypeKind::Tensor:
      appendTensor(out, *asTensor(type));
      return;
    case TypeKind::Int:
      out += "int";
      break;
    case TypeKind::Bool:
      out += "bool";
      break;
    case TypeKind::Float:
      out += "float";
      break;
    case TypeKind::Complex:
      out += "complex";
      break;
    case TypeKind::Scalar:
      out += "scalar";
      break;
    case TypeKind::String:
      out += "str";
      break;
    case TypeKind::DType:
      out += "dtype";
      break;
    case TypeKind::Device:
      out += "device";
      break;
    case TypeKind::Layout:
      out += "layout";
      break;
    case TypeKind::MemoryFormat:
      out += "memory_format";
      break;
    case TypeKind::None:
      out += "none";
      break;
    case TypeKind::List:
    case TypeKind::Optional:
      out += type->kind == TypeKind::List ? "list<" : "optional<";
      appendType(out, asContainer(type)->element);
      out += '>';
      return;
    case TypeKind::Opaque:
      out += "opaque<";
      appendQuoted(out, asOpaque(type)->className);
      out += '>';
      return;
  }
  if (const sym::Node* expression = asScalar(type)->expression) {
    out += '(';
    out += sym::toString(expression);
    out += ')';
  }
}

std::string toString(const Type* type) {
  std::string out;
  appendType(out, type);
  return out;
}

}  // namespace saker::ir
