// Text of expressions: what parseExpression() reads back to the same node.
#include <charconv>
#include <cmath>

#include "symbolic/context.h"
#include "symbolic/words.h"

namespace saker::sym {
namespace {

// How tightly an operator binds.
enum Level { kOr, kAnd, kNot, kCompare, kSum, kProduct, kUnary, kPower, kAtom };

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void print(const Node* node, Level level) {
    if (level > levelOf(node)) {
      out_ += '(';
      print(node, kOr);
      out_ += ')';
      return;
    }
    switch (node->kind) {
      case Kind::Const:
        out_ += std::to_string(node->value);
        break;
      case Kind::Symbol:
      case Kind::BoolSymbol:
      case Kind::FloatSymbol:
        if (static_cast<size_t>(node->value) < node->context->symbols().size()) {
          out_ += node->context->symbolOf(node).name;
        } else {
          out_ += "?" + std::to_string(node->value);  // internal to the facts, or rolled back
        }
        break;
      case Kind::Add:
        printSum(node->value, node->args());
        break;
      case Kind::Mul:
        if (node->value < 0) out_ += '-';
        printProduct(node, node->value < 0);
        break;
      case Kind::FloorDiv:
        printBinary(node, "//", kUnary, kUnary);
        break;
      case Kind::Mod:
        printBinary(node, " % ", kUnary, kUnary);
        break;
      case Kind::Min:
      case Kind::Max:
        printCall(node->kind == Kind::Min ? "min" : "max", node->args());
        break;
      case Kind::ToInt:
        printCall(integerRoundingName(static_cast<FloatOp>(node->value)), node->args());
        break;
      case Kind::BoolConst:
        out_ += node->value ? "True" : "False";
        break;
      case Kind::Eq:
      case Kind::Ne:
      case Kind::Le:
      case Kind::Lt:
        printComparison(node);
        break;
      case Kind::And:
      case Kind::Or: {
        const char* separator = "";
        for (const Node* operand : node->args()) {
          out_ += separator;
          print(operand, node->kind == Kind::And ? kNot : kAnd);
          separator = node->kind == Kind::And ? " and " : " or ";
        }
        break;
      }
      case Kind::Not:
        out_ += "not ";
        print(node->operands[0], kNot);
        break;
      case Kind::FloatConst:
        out_ += floatText(node->number);
        break;
      case Kind::Float:
        printFloat(node);
        break;
    }
  }

 private:
  static Level levelOf(const Node* node) {
    switch (node->kind) {
      case Kind::Const:
        return node->value < 0 ? kUnary : kAtom;
      case Kind::FloatConst:
        return std::signbit(node->number) && !std::isnan(node->number) ? kUnary : kAtom;
      case Kind::Add:
        return kSum;
      case Kind::Mul:
      case Kind::FloorDiv:
      case Kind::Mod:
        return kProduct;
      case Kind::Eq:
      case Kind::Ne:
      case Kind::Le:
      case Kind::Lt:
        return kCompare;
      case Kind::And:
        return kAnd;
      case Kind::Or:
        return kOr;
      case Kind::Not:
        return kNot;
      case Kind::Float:
        switch (static_cast<FloatOp>(node->value)) {
          case FloatOp::Add:
          case FloatOp::Sub:
            return kSum;
          case FloatOp::Mul:
          case FloatOp::Div:
          case FloatOp::FloorDiv:
          case FloatOp::Mod:
          case FloatOp::IntDiv:
            return kProduct;
          case FloatOp::Neg:
            return kUnary;
          case FloatOp::Pow:
            return kPower;
          default:
            return kAtom;
        }
      default:
        return kAtom;
    }
  }

  void printBinary(const Node* node, const char* op, Level left, Level right) {
    print(node->operands[0], left);
    out_ += op;
    print(node->operands[1], right);
  }

  void printCall(std::string_view name, std::span<const Node* const> operands) {
    out_ += name;
    const char* separator = "(";
    for (const Node* operand : operands) {
      out_ += separator;
      print(operand, kOr);
      separator = ", ";
    }
    out_ += ')';
  }

  // Without the sign. Behind a minus that starts an expression a division needs its parentheses: -(a//b).
  void printProduct(const Node* node, bool behindMinus = false) {
    if (node->kind != Kind::Mul) return print(node, kProduct);
    uint64_t magnitude = node->value < 0 ? 0 - static_cast<uint64_t>(node->value) : static_cast<uint64_t>(node->value);
    const char* separator = "";
    if (magnitude != 1) {
      out_ += std::to_string(magnitude);
      separator = "*";
    }
    bool alone = magnitude == 1 && node->count == 1 && !behindMinus;
    for (const Node* factor : node->args()) {
      out_ += separator;
      print(factor, alone ? kProduct : kUnary);
      separator = "*";
    }
  }

  static bool isNegative(const Node* term) { return term->kind == Kind::Mul && term->value < 0; }

  // What is added comes before what is subtracted.
  void printSum(int64_t constant, std::span<const Node* const> terms) {
    bool first = true;
    auto lead = [&](bool negative) {
      if (negative) {
        out_ += first ? "-" : " - ";
      } else if (!first) {
        out_ += " + ";
      }
      first = false;
    };
    auto number = [&](bool negative) {
      if (constant == 0 || (constant < 0) != negative) return;
      lead(negative);
      out_ += std::to_string(negative ? 0 - static_cast<uint64_t>(constant) : static_cast<uint64_t>(constant));
    };
    for (bool negative : {false, true}) {
      for (const Node* term : terms) {
        if (isNegative(term) != negative) continue;
        bool starts = first;
        lead(negative);
        printProduct(term, negative && starts);
      }
      number(negative);
    }
  }

  // One side of a comparison: terms of one sign, printed without it.
  void printSide(uint64_t constant, std::span<const Node* const> terms, bool negative) {
    const char* separator = "";
    for (const Node* term : terms) {
      if (isNegative(term) != negative) continue;
      out_ += separator;
      printProduct(term);
      separator = " + ";
    }
    if (constant != 0 || !*separator) out_ += separator + std::to_string(constant);
  }

  // d == 0 and the like, with what is subtracted moved to the other side.
  void printComparison(const Node* node) {
    std::string_view op = node->kind == Kind::Eq   ? " == "
                          : node->kind == Kind::Ne ? " != "
                          : node->kind == Kind::Le ? " <= "
                                                   : " < ";
    if (node->count == 2) {
      print(node->operands[0], kSum);
      out_ += op;
      print(node->operands[1], kSum);
      return;
    }
    const Node* d = node->operands[0];
    bool isSum = d->kind == Kind::Add;
    std::span<const Node* const> terms = isSum ? d->args() : std::span(&d, 1);
    int64_t constant = isSum ? d->value : 0;
    size_t negatives = 0;
    bool extreme = constant == Range::kNegInf;
    for (const Node* term : terms) {
      negatives += isNegative(term);
      extreme |= isNegative(term) && term->value == Range::kNegInf;
    }
    if (extreme) {  // a number that has no opposite stays where it is
      print(d, kSum);
      out_ += std::string(op) + "0";
      return;
    }
    if (negatives == 0 || negatives == terms.size()) {
      // All terms on the left, the number on the right.
      bool flip = negatives != 0;
      printSide(0, terms, flip);
      out_ += flip && node->kind == Kind::Le ? " >= " : op;
      bool minus = (constant > 0) != flip && constant != 0;
      uint64_t magnitude = constant < 0 ? 0 - static_cast<uint64_t>(constant) : static_cast<uint64_t>(constant);
      out_ += (minus ? "-" : "") + std::to_string(magnitude);
      return;
    }
    if (node->kind == Kind::Le && constant == 1) {
      op = " < ";
      constant = 0;
    }
    printSide(constant > 0 ? static_cast<uint64_t>(constant) : 0, terms, false);
    out_ += op;
    printSide(constant < 0 ? 0 - static_cast<uint64_t>(constant) : 0, terms, true);
  }

  void printFloat(const Node* node) {
    switch (static_cast<FloatOp>(node->value)) {
      case FloatOp::Add:
        return printBinary(node, " + ", kSum, kProduct);
      case FloatOp::Sub:
        return printBinary(node, " - ", kSum, kProduct);
      case FloatOp::Mul:
        return printBinary(node, "*", kUnary, kUnary);
      case FloatOp::Div:
      case FloatOp::IntDiv:
        return printBinary(node, " / ", kUnary, kUnary);
      case FloatOp::FloorDiv:
        return printBinary(node, "//", kUnary, kUnary);
      case FloatOp::Mod:
        return printBinary(node, " % ", kUnary, kUnary);
      case FloatOp::Pow:
        return printBinary(node, "**", kAtom, kUnary);
      case FloatOp::Neg:
        out_ += '-';
        return print(node->operands[0], kAtom);
      default:
        printCall(floatFunctionName(static_cast<FloatOp>(node->value)), node->args());
    }
  }

  std::string out_;
};

}  // namespace

std::string toString(const Node* node) {
  Printer printer;
  printer.print(node, kOr);
  return printer.take();
}

std::string floatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace saker::sym
