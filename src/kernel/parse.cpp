#include "kernel/parse.h"

#include <charconv>
#include <map>

#include "kernel/constant.h"

namespace saker::kernel {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isWordChar(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || isDigit(c) || c == '_'; }

const std::map<std::string_view, Op>& opNames() {
  static const std::map<std::string_view, Op> kNames = {
#define X(enumerator, name, operands) {name, Op::enumerator},
      SAKER_KERNEL_OPS(X)
#undef X
  };
  return kNames;
}

const std::map<std::string_view, Reduction>& reductionNames() {
  static const std::map<std::string_view, Reduction> kNames = {
#define X(enumerator, name) {name, Reduction::enumerator},
      SAKER_KERNEL_REDUCTIONS(X)
#undef X
  };
  return kNames;
}

// Functions return false after a failure; the first one is kept.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Parsed run() {
    if (header() && body() && at_ != text_.size()) fail("the end of the text");
    return std::move(parsed_);
  }

 private:
  bool fail(const std::string& expected) { return failAt(at_, expected); }
  bool failAt(size_t place, const std::string& expected) {
    if (parsed_.error) return false;
    size_t end = place;
    while (end < text_.size() && end - place < 32 && isWordChar(text_[end])) ++end;
    if (end == place && end < text_.size()) ++end;
    std::string found =
        place < text_.size() ? "'" + std::string(text_.substr(place, end - place)) + "'" : "the end of the text";
    parsed_.error = errorAt(text_, place, "expected " + expected + ", found " + found);
    return false;
  }

  void skip() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }
  char current() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    skip();
    if (current() != c) return false;
    return ++at_, true;
  }
  bool expect(char c) { return take(c) || fail(std::string("'") + c + "'"); }
  bool takeWord(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    if (at_ + word.size() < text_.size() && isWordChar(text_[at_ + word.size()])) return false;
    return at_ += word.size(), true;
  }
  bool expectWord(std::string_view word) { return takeWord(word) || fail("'" + std::string(word) + "'"); }
  std::string_view word() {
    skip();
    size_t start = at_;
    while (isWordChar(current())) ++at_;
    return text_.substr(start, at_ - start);
  }
  bool number(int64_t& out) {
    skip();
    size_t end = at_ + (current() == '-');
    while (end < text_.size() && isDigit(text_[end])) ++end;
    if (end < text_.size() && isWordChar(text_[end])) return fail("an integer");
    auto [last, error] = std::from_chars(text_.data() + at_, text_.data() + end, out);
    if (error != std::errc() || last != text_.data() + end) return fail("an integer of 64 bits");
    return at_ = end, true;
  }
  bool atNumber() {
    skip();
    return isDigit(current()) || current() == '-';
  }
  // i3, s3, b3, %3: the letter is there already if `known`.
  bool atNumbered(char letter) {
    skip();
    return current() == letter && at_ + 1 < text_.size() && isDigit(text_[at_ + 1]);
  }
  bool numbered(char letter, uint32_t& out, const char* expected) {
    if (!atNumbered(letter)) return fail(expected);
    size_t place = at_++;
    size_t end = at_;
    while (end < text_.size() && isDigit(text_[end])) ++end;
    bool canonical = text_[at_] != '0' || end == at_ + 1;
    auto [last, error] = std::from_chars(text_.data() + at_, text_.data() + end, out);
    if (error != std::errc() || last != text_.data() + end || !canonical || out == kNone ||
        (end < text_.size() && isWordChar(text_[end]))) {
      return failAt(place, expected);
    }
    return at_ = end, true;
  }
  bool axisName(uint32_t& out) { return numbered('i', out, "an axis"); }
  bool value(uint32_t& out) { return numbered('%', out, "a value"); }
  bool extent(Extent& out) {
    if (atNumbered('s')) return numbered('s', out.argument, "an argument");
    if (!atNumber()) return fail("an integer or an argument");
    return number(out.number);
  }
  bool dtype(DType& out) {
    skip();
    size_t place = at_;
    std::optional<DType> found = ir::dtypeFromName(word());
    if (!found) return failAt(place, "a type");
    return out = *found, true;
  }

  bool header() {
    if (!expectWord("kernel") || !expect('(')) return false;
    if (take(')')) return expect('{');
    Kernel& kernel = parsed_.kernel;
    do {
      uint32_t number = 0;
      skip();
      size_t place = at_;
      if (atNumbered('s')) {
        if (!numbered('s', number, "an argument")) return false;
        if (number != kernel.arguments) return failAt(place, "s" + std::to_string(kernel.arguments));
        if (!expect(':') || !expectWord("size")) return false;
        ++kernel.arguments;
        continue;
      }
      if (!numbered('b', number, "a buffer or an argument")) return false;
      if (kernel.arguments) return failAt(place, "arguments behind the buffers");
      if (number != kernel.buffers.size()) return failAt(place, "b" + std::to_string(kernel.buffers.size()));
      Buffer buffer;
      if (!expect(':')) return false;
      buffer.written = takeWord("out");
      if (!dtype(buffer.dtype)) return false;
      kernel.buffers.push_back(buffer);
    } while (take(','));
    return expect(')') && expect('{');
  }

  bool body() {
    Kernel& kernel = parsed_.kernel;
    while (true) {
      bool parallel = takeWord("parallel"), ordered = !parallel && takeWord("ordered");
      if (!parallel && !ordered && !takeWord("reduced")) break;
      if (!axis(!parallel && !ordered)) return false;
      kernel.axes.back().ordered = ordered;
    }
    if (takeWord("vector") && !axisName(kernel.vector)) return false;
    while (!take('}')) {
      Phase phase;
      phase.loop = takeWord("loop");
      if (!phase.loop && !takeWord("once")) return fail("'loop', 'once' or '}'");
      phase.begin = static_cast<uint32_t>(kernel.nodes.size());
      if (!expect('{')) return false;
      while (!take('}')) {
        if (!node()) return false;
      }
      phase.end = static_cast<uint32_t>(kernel.nodes.size());
      kernel.phases.push_back(phase);
    }
    skip();
    return true;
  }

  bool axis(bool reduced) {
    Kernel& kernel = parsed_.kernel;
    Axis axis;
    axis.reduced = reduced;
    skip();
    size_t place = at_;
    uint32_t number = 0;
    uint32_t own = static_cast<uint32_t>(kernel.axes.size());
    if (!axisName(number)) return false;
    if (number != own) return failAt(place, "i" + std::to_string(own));
    if (!expect('<') || !extent(axis.extent)) return false;
    if (takeWord("while")) {
      // The second way to say how long a chunk is must agree with the first.
      skip();
      size_t condition = at_;
      Extent again;
      uint32_t same = 0;
      if (!extent(again) || !expect('*') || !axisName(axis.chunkOf) || !expect('+') || !axisName(same)) return false;
      if (again != axis.extent || same != own) return failAt(condition, "the extent times an axis, plus this axis");
      if (!expect('<') || !extent(axis.total)) return false;
    }
    kernel.axes.push_back(axis);
    return true;
  }

  bool node() {
    Kernel& kernel = parsed_.kernel;
    skip();
    parsed_.nodePlaces.push_back(at_);
    Node node;
    if (takeWord("store")) {
      node.op = Op::Store;
      if (!place(node) || !expect(',') || !value(node.operands[0]) || !mask(node.operands[1])) return false;
      if (node.operands[0] >= kernel.nodes.size())
        return failAt(parsed_.nodePlaces.back(), "a value that stands before");
      node.dtype = kernel.nodes[node.operands[0]].dtype;
      kernel.nodes.push_back(std::move(node));
      return true;
    }
    size_t start = at_;
    uint32_t number = 0;
    if (!numbered('%', number, "a value, 'store' or '}'")) return false;
    if (number != kernel.nodes.size()) return failAt(start, "%" + std::to_string(kernel.nodes.size()));
    if (!expect(':') || !dtype(node.dtype) || !expect('=') || !right(node)) return false;
    kernel.nodes.push_back(std::move(node));
    return true;
  }

  bool right(Node& node) {
    skip();
    size_t start = at_;
    auto op = opNames().find(word());
    if (op == opNames().end() || op->second == Op::Store) return failAt(start, "an operation");
    node.op = op->second;
    switch (node.op) {
      case Op::Constant: {
        skip();
        size_t from = at_;
        while (at_ < text_.size() &&
               (isWordChar(text_[at_]) || std::string_view("+-.()").find(text_[at_]) != text_.npos)) {
          ++at_;
        }
        std::optional<uint64_t> bits = constantFromText(node.dtype, text_.substr(from, at_ - from));
        if (!bits) return failAt(from, "a constant of type " + std::string(ir::name(node.dtype)));
        return node.bits = *bits, true;
      }
      case Op::AxisIndex:
        return axisName(node.at);
      case Op::Argument:
        return numbered('s', node.at, "an argument");
      case Op::Load:
        return place(node) && mask(node.operands[0]);
      case Op::Reduce:
      case Op::Scan: {
        if (!expect('.')) return false;
        size_t from = at_;
        auto reduction = reductionNames().find(word());
        if (reduction == reductionNames().end()) return failAt(from, "a reduction");
        node.reduction = reduction->second;
        return value(node.operands[0]);
      }
      default:
        for (int i = 0; i < operandCount(node.op); ++i) {
          if ((i && !expect(',')) || !value(node.operands[i])) return false;
        }
        return true;
    }
  }

  bool mask(uint32_t& out) { return !takeWord("if") || value(out); }

  // b0[8 + 1024*i0 + s1*%3]
  bool place(Node& node) {
    if (!numbered('b', node.at, "a buffer") || !expect('[')) return false;
    Index& index = node.index;
    bool first = true;
    do {
      Extent stride{1, kNone};
      bool alone = false;
      skip();
      size_t start = at_;
      if (atNumber() || atNumbered('s')) {
        stride = {};
        if (!extent(stride)) return false;
        alone = !take('*');
      }
      if (alone) {
        if (!first) return failAt(start, "the offset in front");
        index.offset = stride;
      } else if (atNumbered('i')) {
        uint32_t axis = 0;
        if (!index.values.empty()) return fail("axes before values");
        if (!axisName(axis)) return false;
        index.axes.push_back({axis, stride});
      } else {
        uint32_t of = 0;
        if (!numbered('%', of, "an axis or a value")) return false;
        index.values.push_back({of, stride});
      }
      first = false;
    } while (take('+'));
    return expect(']');
  }

  std::string_view text_;
  size_t at_ = 0;
  Parsed parsed_;
};

}  // namespace

Parsed parse(std::string_view text) { return Parser(text).run(); }

ParseError errorAt(std::string_view text, size_t place, std::string message) {
  ParseError error{1, 1, std::move(message)};
  for (size_t i = 0; i < place && i < text.size(); ++i) {
    ++error.column;
    if (text[i] == '\n') ++error.line, error.column = 1;
  }
  return error;
}

}  // namespace saker::kernel
