// Internal to the parser: the position in the text, tokens, and the first error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/parse.h"
#include "ir/text.h"

namespace saker::ir::detail {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Every failing function returns false and leaves the error here; later ones do not replace it.
  bool fail(std::string_view expected) { return failAt(at_, expected); }  // "expected ..., found ..."
  bool failAt(size_t offset, std::string_view expected);
  bool refuseAt(size_t offset, std::string message);  // the whole message
  std::optional<ParseError> error() const;

  size_t at() const { return at_; }
  void seek(size_t at) { at_ = at; }
  std::string_view text() const { return text_; }
  std::string_view slice(size_t from) const { return text_.substr(from, at_ - from); }
  bool atEnd() const { return at_ >= text_.size(); }
  char current() const { return atEnd() ? '\0' : text_[at_]; }
  char ahead(size_t n) const { return at_ + n < text_.size() ? text_[at_ + n] : '\0'; }

  // Over white space and comments (# to the end of the line).
  void skip() {
    while (!atEnd()) {
      char c = text_[at_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        size_t end = text_.find('\n', at_);
        at_ = end == text_.npos ? text_.size() : end;
      } else {
        return;
      }
    }
  }
  void skipBlanks() {
    while (current() == ' ' || current() == '\t') ++at_;
  }

  bool peek(char c) { return skip(), !atEnd() && text_[at_] == c; }
  bool take(char c) { return peek(c) ? ++at_, true : false; }
  bool expect(char c);
  // A whole word, not the beginning of a longer one.
  bool peekWord(std::string_view word);
  bool takeWord(std::string_view word) { return peekWord(word) ? at_ += word.size(), true : false; }

  // At the current position, without skipping; empty if there is none.
  std::string_view identifier() {
    size_t start = at_;
    if (isIdentifierStart(current())) {
      while (!atEnd() && isIdentifierChar(text_[at_])) ++at_;
    }
    return slice(start);
  }
  // After skipping. `out` keeps its capacity.
  bool quoted(std::string& out);
  bool integer(int64_t& out, std::string_view expected);
  bool number(double& out);  // as appendFloat writes it
  // True where what stands here makes a longer expression of a number or a name that was just read.
  bool expressionContinues() const;

 private:
  std::string found(size_t offset) const;

  std::string_view text_;
  size_t at_ = 0;
  size_t errorAt_ = 0;
  std::string message_;
};

}  // namespace saker::ir::detail
