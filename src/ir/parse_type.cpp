#include "ir/parser.h"

namespace saker::ir::detail {
namespace {

struct TypeName {
  std::string_view name;
  TypeKind kind;
};
constexpr TypeName kTypeNames[] = {
    {"int", TypeKind::Int},       {"bool", TypeKind::Bool},
    {"float", TypeKind::Float},   {"complex", TypeKind::Complex},
    {"scalar", TypeKind::Scalar}, {"str", TypeKind::String},
    {"dtype", TypeKind::DType},   {"device", TypeKind::Device},
    {"layout", TypeKind::Layout}, {"memory_format", TypeKind::MemoryFormat},
    {"none", TypeKind::None},
};

// Of tensors. The first ones have a value.
enum : size_t { kStrides, kOffset, kDevice, kLayout, kRequiresGrad, kWrappedNumber, kConj, kNeg };
constexpr std::string_view kAttributes[] = {"strides",       "offset",         "device", "layout",
                                            "requires_grad", "wrapped_number", "conj",   "neg"};

}  // namespace

const Type* Parser::wholeType() {
  const Type* out = nullptr;
  if (!type(out, 0)) return nullptr;
  scan_.skip();
  if (!scan_.atEnd()) return scan_.fail("the end of the text"), nullptr;
  return out;
}

bool Parser::type(const Type*& out, int depth) {
  if (depth > kMaxNesting) return scan_.fail("a type nested less deeply");
  scan_.skip();
  size_t start = scan_.at();
  std::string_view word = scan_.identifier();
  if (word.empty()) return scan_.fail("a type");
  if (scan_.current() == '[') return tensor(word, start, out);
  if (word == "list" || word == "optional") {
    const Type* element = nullptr;
    if (!scan_.expect('<') || !type(element, depth + 1) || !scan_.expect('>')) return false;
    out = word == "list" ? context_.types().list(element) : context_.types().optional(element);
    return true;
  }
  if (word == "opaque") {
    if (!scan_.expect('<') || !scan_.quoted(buffer_) || !scan_.expect('>')) return false;
    out = context_.types().opaque(buffer_);
    return true;
  }
  for (const TypeName& known : kTypeNames) {
    if (known.name == word) return scalar(known.kind, out);
  }
  return scan_.failAt(start, "a type");
}

bool Parser::scalar(TypeKind kind, const Type*& out) {
  const sym::Node* value = nullptr;
  bool mayHaveValue = kind == TypeKind::Int || kind == TypeKind::Bool || kind == TypeKind::Float;
  if (mayHaveValue && scan_.current() == '(') {
    scan_.take('(');
    scan_.skip();
    size_t at = scan_.at();
    if (!expression(value)) return false;
    bool fits = kind == TypeKind::Int ? value->isInt() : kind == TypeKind::Bool ? value->isBool() : value->isFloat();
    if (!fits) return scan_.refuseAt(at, "expected an expression of the kind of its type");
    if (!scan_.expect(')')) return false;
  }
  out = context_.types().scalar(kind, value);
  return true;
}

bool Parser::tensor(std::string_view dtypeName, size_t start, const Type*& out) {
  // The same few types stand in most lines: look the text up before reading it.
  std::string_view text = scan_.text();
  size_t end = text.find(']', start);
  if (end != text.npos && end + 1 < text.size() && text[end + 1] == '{') end = text.find('}', end);
  std::string_view whole = end == text.npos ? std::string_view() : text.substr(start, end + 1 - start);
  if (auto known = types_.find(whole); known != types_.end()) {
    out = known->second;
    scan_.seek(end + 1);
    return true;
  }

  std::optional<DType> dtype = dtypeFromName(dtypeName);
  if (!dtype) return scan_.failAt(start, "an element type");
  TensorSpec spec;
  spec.dtype = *dtype;
  if (!dims(spec.sizes)) return false;
  if (scan_.current() == '{' && !tensorAttributes(spec)) return false;
  try {
    out = context_.types().tensor(spec);
  } catch (const std::runtime_error& refusal) {  // Overflow, Undecided
    return scan_.refuseAt(start, refusal.what());
  }
  if (scan_.at() == end + 1) types_.emplace(whole, out);
  return true;
}

bool Parser::tensorAttributes(TensorSpec& spec) {
  unsigned seen = 0;
  scan_.take('{');
  do {
    scan_.skip();
    size_t at = scan_.at();
    std::string_view word = scan_.identifier();
    size_t attribute = 0;
    while (attribute < std::size(kAttributes) && kAttributes[attribute] != word) ++attribute;
    if (attribute == std::size(kAttributes)) {
      return scan_.failAt(at, "strides, offset, device, layout, requires_grad, wrapped_number, conj or neg");
    }
    if (seen & 1u << attribute) return scan_.refuseAt(at, std::string(word) + " is given twice");
    seen |= 1u << attribute;
    if (attribute <= kLayout && !scan_.expect(':')) return false;
    scan_.skip();
    at = scan_.at();
    switch (attribute) {
      case kStrides:
        if (!dims(spec.strides)) return false;
        if (spec.strides.size() != spec.sizes.size()) {
          return scan_.refuseAt(at, "expected " + std::to_string(spec.sizes.size()) + " strides, found " +
                                        std::to_string(spec.strides.size()));
        }
        break;
      case kOffset:
        if (!size(spec.offset)) return false;
        break;
      case kDevice:
        if (!device(spec.device)) return false;
        break;
      case kLayout: {
        std::optional<Layout> layout = layoutFromName(scan_.identifier());
        if (!layout) return scan_.failAt(at, "a layout");
        spec.layout = *layout;
        break;
      }
      case kRequiresGrad:
        spec.flags.requiresGrad = true;
        break;
      case kWrappedNumber:
        spec.flags.wrappedNumber = true;
        break;
      case kConj:
        spec.flags.conj = true;
        break;
      default:  // kNeg
        spec.flags.neg = true;
        break;
    }
  } while (scan_.take(','));
  return scan_.expect('}');
}

bool Parser::dims(Dims& out) {
  if (!scan_.expect('[')) return false;
  if (scan_.take(']')) return true;
  do {
    Int value;
    if (!size(value)) return false;
    out.push_back(value);
  } while (scan_.take(','));
  return scan_.expect(']');
}

bool Parser::size(Int& out) {
  scan_.skip();
  size_t at = scan_.at();
  char c = scan_.current();
  if ((c >= '0' && c <= '9') || c == '-') {
    size_t end = at + 1;
    while (end < scan_.text().size() && scan_.text()[end] >= '0' && scan_.text()[end] <= '9') ++end;
    scan_.seek(end);
    bool continues = scan_.expressionContinues() || isIdentifierStart(scan_.current()) || end == at + (c == '-');
    scan_.seek(at);
    if (!continues) {
      int64_t value = 0;
      if (!scan_.integer(value, "a size")) return false;
      out = value;
      return true;
    }
  }
  const sym::Node* node = nullptr;
  if (!expression(node)) return false;
  if (!node->isInt()) return scan_.refuseAt(at, "expected an integer expression");
  out = Int(node);
  return true;
}

bool Parser::device(Device& out) {
  scan_.skip();
  size_t at = scan_.at();
  scan_.identifier();
  if (scan_.current() == ':') {
    scan_.seek(scan_.at() + 1);
    while (scan_.current() >= '0' && scan_.current() <= '9') scan_.seek(scan_.at() + 1);
  }
  std::optional<Device> device = deviceFromName(scan_.slice(at));
  if (!device) return scan_.failAt(at, "a device");
  out = *device;
  return true;
}

}  // namespace saker::ir::detail
