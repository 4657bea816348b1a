// Floor division and modulo.
#include <numeric>

#include "symbolic/builder.h"

namespace saker::sym {
namespace {

[[noreturn]] void divisionByZero() { throw Undecided("division of a symbolic size by zero"); }

int64_t negate(int64_t value) { return mulChecked(value, -1); }

}  // namespace

const Node* Builder::divideByConst(const Node* numerator, int64_t divisor) {
  Poly rest;
  readPoly(numerator, rest);
  if (divisor < 0) {
    scale(rest, -1);
    divisor = negate(divisor);
  }
  // Multiples of the divisor come out.
  Poly quotient, left;
  quotient.constant = sym::floorDiv(rest.constant, divisor);
  left.constant = floorMod(rest.constant, divisor);
  for (Term t : rest.terms) {
    int64_t q = t.coefficient / divisor, r = t.coefficient % divisor;
    t.coefficient = q;
    if (q != 0) quotient.terms.push_back(t);
    t.coefficient = r;
    if (r != 0) left.terms.push_back(t);
  }
  // What is common to the rest and the divisor is cancelled; the constant keeps its whole part.
  int64_t common = std::gcd(coefficientGcd(left), divisor);
  for (Term& t : left.terms) t.coefficient /= common;
  left.constant = sym::floorDiv(left.constant, common);
  divisor /= common;

  Range fixed = sym::floorDiv(rangeOf(left), Range::exactly(divisor));
  if (left.isConst() || fixed.isExact()) {
    quotient.constant = addChecked(quotient.constant, fixed.low);
    return node(quotient);
  }
  const Node* atom = nullptr;
  if (left.terms.size() == 1 && left.terms[0].coefficient == 1 && left.terms[0].count == 1) {
    // (x//a + c)//b is (x + a*c)//(a*b).
    const Node* inner = left.terms[0].single;
    if (inner->kind == Kind::FloorDiv && inner->operands[1]->kind == Kind::Const && inner->operands[1]->value > 0) {
      int64_t by = inner->operands[1]->value;
      const Node* shifted[] = {inner->operands[0], constant(mulChecked(left.constant, by))};
      atom = divideByConst(sum(shifted), mulChecked(by, divisor));
    }
  }
  if (!atom) {
    const Node* operands[] = {node(left), constant(divisor)};
    atom = intern(Kind::FloorDiv, 0, operands);
  }
  const Node* parts[] = {node(quotient), atom};
  return sum(parts);
}

const Node* Builder::modByConst(const Node* numerator, int64_t divisor) {
  Poly rest;
  readPoly(numerator, rest);
  if (divisor < 0) {
    // x % -k is -(-x % k).
    scale(rest, -1);
    const Node* positive[] = {constant(-1), modByConst(node(rest), negate(divisor))};
    return product(positive);
  }
  Poly left;
  left.constant = floorMod(rest.constant, divisor);
  for (Term t : rest.terms) {
    t.coefficient %= divisor;
    if (t.coefficient != 0) left.terms.push_back(t);
  }
  // g*x + c modulo g*k is g*((x + c//g) % k) + c%g.
  int64_t common = left.isConst() ? 1 : std::gcd(coefficientGcd(left), divisor);
  int64_t extra = left.constant % common;
  for (Term& t : left.terms) t.coefficient /= common;
  left.constant /= common;
  divisor /= common;

  Poly result;
  Range fixed = sym::floorDiv(rangeOf(left), Range::exactly(divisor));
  if (left.isConst()) {
    result.constant = left.constant % divisor;
  } else if (fixed.isExact()) {
    result = std::move(left);
    result.constant = addChecked(result.constant, negate(mulChecked(fixed.low, divisor)));
  } else {
    const Node* operands[] = {node(left), constant(divisor)};
    result.terms.push_back(termOf(intern(Kind::Mod, 0, operands)));
  }
  scale(result, common);
  result.constant = addChecked(result.constant, extra);
  return node(result);
}

const Node* Builder::floorDiv(const Node* a, const Node* b) {
  if (b->kind == Kind::Const) {
    if (b->value == 0) divisionByZero();
    return divideByConst(a, b->value);
  }
  if (a == b && nonZero(b)) return constant(1);
  const Node* operands[] = {a, b};
  return intern(Kind::FloorDiv, 0, operands);
}

const Node* Builder::mod(const Node* a, const Node* b) {
  if (b->kind == Kind::Const) {
    if (b->value == 0) divisionByZero();
    return modByConst(a, b->value);
  }
  if (a == b && nonZero(b)) return constant(0);
  const Node* operands[] = {a, b};
  return intern(Kind::Mod, 0, operands);
}

}  // namespace saker::sym
