#include "symbolic/parse.h"

#include <charconv>
#include <initializer_list>
#include <vector>

#include "symbolic/context.h"
#include "symbolic/words.h"

namespace saker::sym {
namespace {

// Parentheses, calls and prefix operators inside each other; printed expressions stay far below.
constexpr int kMaxNesting = 400;

struct Failure {
  size_t position;
  std::string message;
};

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(Context& context, std::string_view text, size_t position) : context_(context), text_(text), at_(position) {}

  const Node* expression() { return disjunction(); }
  size_t end() const { return end_; }

 private:
  using Nodes = std::vector<const Node*>;

  // Counts nesting for as long as it lives.
  struct Deeper {
    explicit Deeper(Parser& parser) : parser(parser) {
      if (++parser.nesting_ > kMaxNesting) parser.fail(parser.at_, "the expression is nested too deeply");
    }
    ~Deeper() { --parser.nesting_; }
    Parser& parser;
  };

  [[noreturn]] void fail(size_t position, std::string message) { throw Failure{position, std::move(message)}; }

  // Construction can fail too: overflow, a zero divisor.
  template <typename Make>
  const Node* make(size_t position, Make&& build) {
    try {
      return build();
    } catch (const std::runtime_error& e) {
      fail(position, e.what());
    }
  }

  // Tokens.
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void skipSpace() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  bool accept(std::string_view token) {
    skipSpace();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    end_ = at_;
    return true;
  }
  bool acceptWord(std::string_view word) {
    skipSpace();
    if (text_.substr(at_, word.size()) != word) return false;
    char next = peek(word.size());
    if (isLetter(next) || isDigit(next)) return false;
    return accept(word);
  }
  void expect(char token) {
    if (!accept(std::string_view(&token, 1))) fail(at_, std::string("expected '") + token + "'");
  }

  // Types.
  const Node* wantInt(const Node* node, size_t position) {
    if (!node->isInt()) fail(position, "expected an integer");
    return node;
  }
  const Node* wantBool(const Node* node, size_t position) {
    if (!node->isBool()) fail(position, "expected a condition");
    return node;
  }
  const Node* wantFloat(const Node* node, size_t position) {
    if (node->isFloat()) return node;
    return floatOp(FloatOp::FromInt, position, {wantInt(node, position)});
  }
  const Node* floatOp(FloatOp op, size_t position, std::initializer_list<const Node*> operands) {
    return make(position, [&] { return context_.floatOp(op, std::span(operands.begin(), operands.size())); });
  }
  const Node* floatBinary(FloatOp op, size_t position, const Node* a, const Node* b) {
    return floatOp(op, position, {wantFloat(a, position), wantFloat(b, position)});
  }

  const Node* disjunction() { return chain(Kind::Or, "or", &Parser::conjunction); }
  const Node* conjunction() { return chain(Kind::And, "and", &Parser::negation); }

  const Node* chain(Kind kind, std::string_view word, const Node* (Parser::*next)()) {
    size_t start = at_;
    const Node* first = (this->*next)();
    if (!acceptWord(word)) return first;
    Nodes operands = {wantBool(first, start)};
    do {
      start = at_;
      operands.push_back(wantBool((this->*next)(), start));
    } while (acceptWord(word));
    return make(start, [&] { return context_.logical(kind, operands); });
  }

  const Node* negation() {
    if (!acceptWord("not")) return comparison();
    Deeper deeper(*this);
    size_t start = at_;
    const Node* operand = wantBool(negation(), start);
    return make(start, [&] { return context_.logicalNot(operand); });
  }

  const Node* comparison() {
    const Node* left = sum();
    skipSpace();
    size_t start = at_;
    static constexpr std::string_view kOperators[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (std::string_view op : kOperators) {
      if (!accept(op)) continue;
      const Node* right = sum();
      return make(start, [&] { return compare(op, left, right, start); });
    }
    return left;
  }

  const Node* compare(std::string_view op, const Node* a, const Node* b, size_t position) {
    if (op[0] == '>') {
      std::swap(a, b);
      op = op == ">=" ? "<=" : "<";
    }
    if (a->isFloat() || b->isFloat()) {
      Kind kind = op == "==" ? Kind::Eq : op == "!=" ? Kind::Ne : op == "<=" ? Kind::Le : Kind::Lt;
      a = wantFloat(a, position);
      b = wantFloat(b, position);
      return context_.floatCompare(kind, a, b);
    }
    wantInt(a, position);
    wantInt(b, position);
    return op == "=="   ? context_.eq(a, b)
           : op == "!=" ? context_.ne(a, b)
           : op == "<=" ? context_.le(a, b)
                        : context_.lt(a, b);
  }

  // An operator `+` or `-`, but not the arrow of the graph's text.
  char acceptSign() {
    skipSpace();
    char sign = peek();
    if ((sign != '+' && sign != '-') || (sign == '-' && peek(1) == '>')) return 0;
    accept(text_.substr(at_, 1));
    return sign;
  }

  // Integer terms are collected and added at once: the canonical form of the whole is then reached in one step.
  const Node* sum() {
    size_t start = at_;
    const Node* total = product(nullptr);
    Nodes terms;
    auto add = [&] {
      if (terms.empty()) return;
      total = make(start, [&] { return context_.sum(terms); });
      terms.clear();
    };
    while (char sign = acceptSign()) {
      size_t position = at_;
      bool signTaken = false;
      const Node* next = product(sign == '-' ? &signTaken : nullptr);
      if (total->isInt() && next->isInt()) {
        if (terms.empty()) terms.push_back(total);
        terms.push_back(sign == '-' && !signTaken ? negate(next, position) : next);
      } else {
        add();
        total = floatBinary(sign == '-' ? FloatOp::Sub : FloatOp::Add, position, total, next);
      }
    }
    add();
    return total;
  }

  // Integer factors are collected too. With `signTaken` a minus stands in front; it is used up by the one number that
  // exists only with it.
  const Node* product(bool* signTaken) {
    size_t start = at_;
    const Node* total = signTaken && acceptMostNegative() ? context_.intConst(Range::kNegInf) : nullptr;
    if (total) {
      *signTaken = true;
    } else {
      signTaken = nullptr;
      total = unary();
    }
    Nodes factors;
    auto multiply = [&] {
      if (factors.empty()) return;
      total = make(start, [&] { return context_.product(factors); });
      factors.clear();
    };
    for (;;) {
      skipSpace();
      size_t position = at_;
      std::string_view op = peek() == '*' && peek(1) != '*'   ? "*"
                            : peek() == '/' && peek(1) == '/' ? "//"
                            : peek() == '/'                   ? "/"
                            : peek() == '%'                   ? "%"
                                                              : "";
      if (op.empty()) break;
      accept(op);
      const Node* next = unary();
      if (op == "*" && total->isInt() && next->isInt()) {
        if (factors.empty()) factors.push_back(total);
        factors.push_back(next);
      } else {
        if (signTaken != nullptr) fail(start, "the number does not fit in 64 bits");
        multiply();
        total = divide(op, total, next, position);
      }
    }
    multiply();
    return total;
  }

  const Node* divide(std::string_view op, const Node* a, const Node* b, size_t position) {
    bool floats = a->isFloat() || b->isFloat();
    if (op == "*") return floatBinary(FloatOp::Mul, position, a, b);
    if (floats) {
      return floatBinary(op == "/" ? FloatOp::Div : op == "//" ? FloatOp::FloorDiv : FloatOp::Mod, position, a, b);
    }
    wantInt(a, position);
    wantInt(b, position);
    if (op == "/") return floatOp(FloatOp::IntDiv, position, {a, b});
    return make(position, [&] { return op == "//" ? context_.floorDiv(a, b) : context_.mod(a, b); });
  }

  const Node* unary() {
    skipSpace();
    size_t start = at_;
    if (peek() != '-' || peek(1) == '>' || !accept("-")) return power();
    if (acceptMostNegative()) return context_.intConst(Range::kNegInf);
    Deeper deeper(*this);
    return negate(unary(), start);
  }

  const Node* negate(const Node* node, size_t position) {
    if (node->isFloat()) return floatOp(FloatOp::Neg, position, {node});
    wantInt(node, position);
    return make(position, [&] { return context_.neg(node); });
  }

  const Node* power() {
    size_t start = at_;
    const Node* base = atom();
    if (!accept("**")) return base;
    Deeper deeper(*this);
    return floatBinary(FloatOp::Pow, start, base, unary());
  }

  // 2**63, which is only a number behind a minus.
  bool acceptMostNegative() {
    static constexpr std::string_view kDigits = "9223372036854775808";
    skipSpace();
    char next = peek(kDigits.size());
    if (isDigit(next) || next == '.' || next == 'e' || next == 'E') return false;
    return accept(kDigits);
  }

  const Node* atom() {
    skipSpace();
    if (isDigit(peek())) return number();
    if (isLetter(peek())) return word();
    size_t start = at_;
    if (!accept("(")) fail(start, "expected an expression");
    Deeper deeper(*this);
    const Node* inner = disjunction();
    expect(')');
    return inner;
  }

  const Node* number() {
    size_t last = at_;
    auto digits = [&] {
      while (last < text_.size() && isDigit(text_[last])) ++last;
    };
    auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
    digits();
    bool whole = true;
    if (at(last) == '.') {
      whole = false;
      ++last;
      digits();
    }
    if (at(last) == 'e' || at(last) == 'E') {
      size_t exponent = last + 1;
      if (at(exponent) == '+' || at(exponent) == '-') ++exponent;
      if (isDigit(at(exponent))) {
        whole = false;
        last = exponent;
        digits();
      }
    }
    std::string_view text = text_.substr(at_, last - at_);
    int64_t integer = 0;
    double real = 0;
    auto result =
        whole ? std::from_chars(text.begin(), text.end(), integer) : std::from_chars(text.begin(), text.end(), real);
    if (result.ec != std::errc()) fail(at_, "the number does not fit in 64 bits");
    accept(text);
    return whole ? context_.intConst(integer) : context_.floatConst(real);
  }

  const Node* word() {
    size_t start = at_, last = at_;
    while (last < text_.size() && (isLetter(text_[last]) || isDigit(text_[last]))) ++last;
    std::string_view name = text_.substr(at_, last - at_);
    if (name == "True" || name == "False") {
      accept(name);
      return context_.boolConst(name == "True");
    }
    if (name == "inf" || name == "nan") {
      accept(name);
      return context_.floatConst(name == "inf" ? std::numeric_limits<double>::infinity()
                                               : std::numeric_limits<double>::quiet_NaN());
    }
    // A symbol may be called like a function: the parenthesis tells.
    const Symbol* symbol = last < text_.size() && text_[last] == '(' ? nullptr : context_.find(name);
    if (symbol) {
      accept(name);
      return symbol->node;
    }
    at_ = last;
    skipSpace();
    bool isCall = peek() == '(';
    at_ = start;
    if (!isCall) fail(start, "unknown symbol '" + std::string(name) + "'");
    accept(name);
    return call(name, start);
  }

  const Node* call(std::string_view name, size_t start) {
    Deeper deeper(*this);
    expect('(');
    Nodes operands;
    bool floats = false;
    do {
      size_t position = at_;
      operands.push_back(disjunction());
      if (operands.back()->isBool()) fail(position, "expected a number");
      floats |= operands.back()->isFloat();
    } while (accept(","));
    expect(')');
    if ((name == "min" || name == "max") && !floats) {
      return make(start, [&] { return context_.minMax(name == "min" ? Kind::Min : Kind::Max, operands); });
    }
    for (size_t i = 0; i < kFloatOpCount; ++i) {
      FloatOp op = static_cast<FloatOp>(i);
      bool toInteger = integerRoundingName(op) == name;
      if (!toInteger && floatFunctionName(op) != name) continue;
      if (operands.size() != arityOf(op)) fail(start, "wrong number of operands");
      if (op == FloatOp::FromInt) return floatOp(op, start, {wantInt(operands[0], start)});
      const Node* first = wantFloat(operands[0], start);
      if (toInteger) return make(start, [&] { return context_.toInt(op, first); });
      if (operands.size() == 1) return floatOp(op, start, {first});
      return floatOp(op, start, {first, wantFloat(operands[1], start)});
    }
    fail(start, "unknown function '" + std::string(name) + "'");
  }

  Context& context_;
  std::string_view text_;
  size_t at_;
  size_t end_ = 0;
  int nesting_ = 0;
};

}  // namespace

const Node* parseExpression(Context& context, std::string_view text, size_t& position, std::string& error) {
  Parser parser(context, text, position);
  try {
    const Node* node = parser.expression();
    position = parser.end();
    return node;
  } catch (const Failure& failure) {
    position = failure.position;
    error = failure.message;
    return nullptr;
  }
}

}  // namespace saker::sym
