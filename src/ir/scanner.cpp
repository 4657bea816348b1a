#include "ir/scanner.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace saker::ir::detail {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isOperator(char c) { return std::string_view("+-*/%<>=!").find(c) != std::string_view::npos; }

int hexDigit(char c) {
  if (isDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The end of a number that starts at `at`.
size_t numberEnd(std::string_view text, size_t at) {
  while (at < text.size() && (isIdentifierChar(text[at]) || text[at] == '.' ||
                              ((text[at] == '+' || text[at] == '-') && (text[at - 1] == 'e' || text[at - 1] == 'E')))) {
    ++at;
  }
  return at;
}

}  // namespace

std::string Scanner::found(size_t offset) const {
  if (offset >= text_.size()) return "the end of the text";
  size_t end = offset;
  while (end < text_.size() && end - offset < 32 && isIdentifierChar(text_[end])) ++end;
  if (end == offset) ++end;
  // A character of several bytes is shown whole.
  while (end < text_.size() && (static_cast<uint8_t>(text_[end]) & 0xC0) == 0x80) ++end;
  if (text_[offset] == '"') return "'\"'";
  std::string out;
  appendQuoted(out, text_.substr(offset, end - offset));
  return "'" + out.substr(1, out.size() - 2) + "'";
}

bool Scanner::failAt(size_t offset, std::string_view expected) {
  return refuseAt(offset, "expected " + std::string(expected) + ", found " + found(offset));
}

bool Scanner::refuseAt(size_t offset, std::string message) {
  if (message_.empty()) {
    errorAt_ = offset;
    message_ = std::move(message);
  }
  return false;
}

std::optional<ParseError> Scanner::error() const {
  if (message_.empty()) return std::nullopt;
  return errorAt(text_, errorAt_, message_);
}

bool Scanner::expect(char c) {
  if (take(c)) return true;
  const char expected[] = {'\'', c, '\'', '\0'};
  return fail(expected);
}

bool Scanner::peekWord(std::string_view word) {
  skip();
  return text_.substr(at_).starts_with(word) && !isIdentifierChar(ahead(word.size()));
}

bool Scanner::quoted(std::string& out) {
  out.clear();
  size_t start = at_;
  if (!take('"')) return fail("a string");
  while (!atEnd()) {
    char c = text_[at_++];
    if (c == '"') return true;
    if (c == '\n') break;
    if (c != '\\') {
      out += c;
      continue;
    }
    char escape = current();
    switch (escape) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '"':
      case '\\':
        out += escape;
        break;
      case 'x': {
        int high = hexDigit(ahead(1)), low = hexDigit(ahead(2));
        if (high < 0 || low < 0) return refuseAt(at_ - 1, "expected two hexadecimal digits after \\x");
        out += static_cast<char>(high * 16 + low);
        at_ += 2;
        break;
      }
      default:
        return refuseAt(at_ - 1, "expected one of the escapes \\n \\t \\r \\\" \\\\ \\xNN");
    }
    ++at_;
  }
  return refuseAt(start, "expected a string that ends on its line");
}

bool Scanner::integer(int64_t& out, std::string_view expected) {
  skip();
  size_t digits = at_ + (current() == '-');
  size_t end = digits;
  while (end < text_.size() && isDigit(text_[end])) ++end;
  if (end == digits || (end < text_.size() && isIdentifierStart(text_[end]))) return fail(expected);
  if (std::from_chars(text_.data() + at_, text_.data() + end, out).ec != std::errc()) {
    return refuseAt(at_, "expected an integer of 64 bits, found " + std::string(text_.substr(at_, end - at_)));
  }
  at_ = end;
  return true;
}

bool Scanner::number(double& out) {
  skip();
  size_t start = at_;
  bool negative = current() == '-';
  size_t word = at_ + negative;
  std::string_view rest = text_.substr(word);
  if (rest.starts_with("inf") && (rest.size() == 3 || !isIdentifierChar(rest[3]))) {
    out = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    at_ = word + 3;
    return true;
  }
  if (!negative && rest.starts_with("nan") && (rest.size() == 3 || !isIdentifierChar(rest[3]))) {
    at_ += 3;
    out = std::numeric_limits<double>::quiet_NaN();
    if (current() != '(') return true;
    uint64_t bits = 0;
    const char* end = text_.data() + text_.size();
    if (!text_.substr(at_).starts_with("(0x")) return refuseAt(at_, "expected the bits of a NaN: nan(0x...)");
    auto [last, error] = std::from_chars(text_.data() + at_ + 3, end, bits, 16);
    out = std::bit_cast<double>(bits);
    if (error != std::errc() || last == end || *last != ')' || !std::isnan(out)) {
      return refuseAt(at_, "expected the bits of a NaN: nan(0x...)");
    }
    at_ = static_cast<size_t>(last - text_.data()) + 1;
    return true;
  }
  size_t end = numberEnd(text_, word);
  if (end == word || !isDigit(text_[word])) return fail("a number");
  auto [last, error] = std::from_chars(text_.data() + at_, text_.data() + end, out);
  if (error != std::errc() || last != text_.data() + end) {
    return refuseAt(start,
                    "expected a number, found " + std::string(text_.substr(start, std::min<size_t>(end - start, 40))));
  }
  at_ = end;
  return true;
}

bool Scanner::expressionContinues() const {
  size_t at = at_;
  while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
  if (at >= text_.size()) return false;
  if (isOperator(text_[at]) || text_[at] == '(') return true;
  std::string_view rest = text_.substr(at);
  return rest.starts_with("and ") || rest.starts_with("or ");
}

}  // namespace saker::ir::detail
