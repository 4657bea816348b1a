// Pieces of the text form that the printer, the parser and messages share.
#pragma once

#include <string>
#include <string_view>

#include "ir/type.h"

namespace saker::ir {

// Letters, digits and underscores, and no digit first.
bool isIdentifier(std::string_view text);
inline bool isIdentifierStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool isIdentifierChar(char c) { return isIdentifierStart(c) || (c >= '0' && c <= '9'); }

// "a \"b\"\n": quotes, backslashes and control characters escaped; other bytes as they are.
void appendQuoted(std::string& out, std::string_view text);

// The shortest text that reads back as the same number and as nothing but a float: 1.0, 1e+20, inf, -inf, nan. A NaN
// other than the usual one shows its bits: nan(0x7ff8000000000001).
void appendFloat(std::string& out, double number);

void appendInt(std::string& out, int64_t number);
void appendInt(std::string& out, const Int& number);

void appendType(std::string& out, const Type* type);

}  // namespace saker::ir
