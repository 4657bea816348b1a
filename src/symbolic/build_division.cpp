// Floor division and modulo. Every rule holds wherever the original is defined; one that drops a divisor which may be
// zero is not used, so that a division by zero stays one.
#include "symbolic/builder.h"

namespace saker::sym {
namespace {

[[noreturn]] void divisionByZero() { throw Undecided("division of a symbolic size by zero"); }

bool isZero(const Poly& poly) { return poly.isConst() && poly.constant == 0; }

// A divisor of `atom` that is a positive number, or 0.
int64_t numberDivisor(const Node* atom) {
  const Node* divisor = atom->operands[1];
  return divisor->kind == Kind::Const ? divisor->value : 0;
}

}  // namespace

const Node* Builder::floorDiv(const Node* a, const Node* b) {
  Poly numerator, divisor;
  readPoly(a, numerator);
  if (b->kind == Kind::Const) {
    if (b->value == 0) divisionByZero();
    return divideByConst(std::move(numerator), b->value);
  }
  readPoly(b, divisor);
  return divideByPoly(std::move(numerator), std::move(divisor), Kind::FloorDiv);
}

const Node* Builder::mod(const Node* a, const Node* b) {
  Poly numerator, divisor;
  readPoly(a, numerator);
  if (b->kind == Kind::Const) {
    if (b->value == 0) divisionByZero();
    return modByConst(std::move(numerator), b->value);
  }
  readPoly(b, divisor);
  return divideByPoly(std::move(numerator), std::move(divisor), Kind::Mod);
}

const Node* Builder::divideByConst(Poly numerator, int64_t divisor) {
  if (divisor < 0) {
    scale(numerator, -1);
    divisor = mulChecked(divisor, -1);
  }
  // Multiples of the divisor come out. Coefficients are cut towards zero: then both parts keep the sign of the term,
  // and the bounds of the whole stay as good as they were.
  Poly quotient, rest;
  quotient.constant = sym::floorDiv(numerator.constant, divisor);
  rest.constant = floorMod(numerator.constant, divisor);
  for (Term t : numerator.terms) {
    int64_t q = t.coefficient / divisor, r = t.coefficient % divisor;
    t.coefficient = q;
    if (q != 0) quotient.terms.push_back(t);
    t.coefficient = r;
    if (r != 0) rest.terms.push_back(t);
  }
  // What is common to the rest and the divisor is cancelled; the constant keeps its whole part.
  int64_t common = gcdChecked(coefficientGcd(rest), divisor);
  for (Term& t : rest.terms) t.coefficient /= common;
  rest.constant /= common;
  divisor /= common;
  auto plusQuotient = [&](const Node* node) {
    if (isZero(quotient)) return node;
    Poly last;
    readPoly(node, last);
    addScaled(quotient, last, 1);
    return sum(quotient);
  };
  if (recombine(rest)) return plusQuotient(divideByConst(std::move(rest), divisor));

  Range fixed = rest.isConst() ? Range::exactly(0) : sym::floorDiv(rangeOf(rest), Range::exactly(divisor));
  if (fixed.isExact()) {
    quotient.constant = addChecked(quotient.constant, fixed.low);
    return sum(quotient);
  }
  const Node* divisorNode = constant(divisor);
  const Node* atom = nestedDivision(rest, divisorNode);
  if (!atom) {
    const Node* operands[] = {node(rest), divisorNode};
    atom = intern(Kind::FloorDiv, 0, operands);
  }
  return plusQuotient(atom);
}

// (x//a + c)//b is (x + a*c)//(a*b) for positive b.
const Node* Builder::nestedDivision(const Poly& numerator, const Node* divisor) {
  if (numerator.terms.size() != 1) return nullptr;
  const Term& t = numerator.terms[0];
  if (t.coefficient != 1 || t.count != 1 || t.single->kind != Kind::FloorDiv || rangeOf(divisor).low <= 0) {
    return nullptr;
  }
  const Node* inner = t.single->operands[1];
  if (!nonZero(inner)) return nullptr;
  try {
    const Node* shift[] = {inner, constant(numerator.constant)};
    const Node* shifted[] = {t.single->operands[0], product(shift)};
    const Node* divisors[] = {inner, divisor};
    return floorDiv(sum(shifted), product(divisors));
  } catch (const Overflow&) {
    return nullptr;
  }
}

// c*(x % k) can be c*x where c*k is a multiple of the divisor.
void Builder::unwrapMods(Poly& numerator, int64_t divisor) {
  for (size_t i = 0; i < numerator.terms.size();) {
    Term t = numerator.terms[i];
    int64_t period;
    bool unwrap = t.count == 1 && t.single->kind == Kind::Mod && numberDivisor(t.single) != 0 &&
                  !__builtin_mul_overflow(t.coefficient, numberDivisor(t.single), &period) && period % divisor == 0;
    if (!unwrap) {
      ++i;
      continue;
    }
    Poly inside;
    readPoly(t.single->operands[0], inside);
    numerator.terms.erase(i);
    addScaled(numerator, inside, t.coefficient);
    i = 0;
  }
}

const Node* Builder::modByConst(Poly numerator, int64_t divisor) {
  if (divisor < 0) {
    // x % -k is -(-x % k).
    scale(numerator, -1);
    const Node* positive[] = {constant(-1), modByConst(std::move(numerator), mulChecked(divisor, -1))};
    return product(positive);
  }
  unwrapMods(numerator, divisor);
  Poly rest;
  rest.constant = floorMod(numerator.constant, divisor);
  for (Term t : numerator.terms) {
    t.coefficient %= divisor;
    if (t.coefficient != 0) rest.terms.push_back(t);
  }
  // g*x + c modulo g*k is g*((x + c//g) % k) + c%g.
  int64_t common = rest.isConst() ? 1 : gcdChecked(coefficientGcd(rest), divisor);
  int64_t extra = rest.constant % common;
  for (Term& t : rest.terms) t.coefficient /= common;
  rest.constant /= common;
  divisor /= common;

  Poly result;
  if (recombine(rest)) {
    readPoly(modByConst(std::move(rest), divisor), result);
  } else if (rest.isConst() || divisor == 1) {
    result.constant = rest.constant % divisor;
  } else if (Range fixed = sym::floorDiv(rangeOf(rest), Range::exactly(divisor)); fixed.isExact()) {
    result = std::move(rest);
    result.constant = addChecked(result.constant, mulChecked(mulChecked(fixed.low, divisor), -1));
  } else {
    const Node* operands[] = {node(rest), constant(divisor)};
    std::optional<int64_t> remainder =
        askRemainders_ ? known_->remainder(operands[0], divisor) : std::optional<int64_t>();
    if (remainder) {
      result.constant = *remainder;
    } else {
      result.terms.push_back({1, 1, intern(Kind::Mod, 0, operands), nullptr});
    }
  }
  scale(result, common);
  result.constant = addChecked(result.constant, extra);
  return sum(result);
}

// Divides both by what they share and cannot be zero; returns it.
Term Builder::cancelCommon(Poly& a, Poly& b) {
  Term shared = commonAtoms(commonAtoms(a, context_.scratch_), commonAtoms(b, context_.scratch_), context_.scratch_);
  SmallVec<const Node*, 8> safe;
  for (const Node* atom : shared.atoms()) {
    if (nonZero(atom)) safe.push_back(atom);
  }
  std::span<const Node*> kept = context_.scratch_.copy(std::span<const Node* const>(safe));
  shared = {1, static_cast<uint32_t>(kept.size()), kept.size() == 1 ? kept[0] : nullptr, kept.data()};
  int64_t number = gcdChecked(gcdChecked(coefficientGcd(a), a.constant), gcdChecked(coefficientGcd(b), b.constant));
  for (Poly* poly : {&a, &b}) {
    poly->constant /= number;
    for (Term& t : poly->terms) {
      if (shared.count != 0) t = divide(t, shared, context_.scratch_);
      t.coefficient /= number;
    }
    moveConstant(*poly);
  }
  shared.coefficient = number;
  return shared;
}

// numerator = quotient * divisor + rest, as polynomials. False where that is no gain.
bool Builder::longDivide(const Poly& numerator, const Poly& divisor, Poly& quotient, Poly& rest) {
  const Term& lead = divisor.terms[0];
  Poly work;
  addScaled(work, numerator, 1);
  rest.constant = 0;
  try {
    for (int step = 0; !work.isConst(); ++step) {
      if (step == 64) return false;
      Term t = work.terms[0];
      if (t.count < lead.count || !divides(lead, t) || t.coefficient % lead.coefficient != 0) {
        rest.terms.push_back(t);
        work.terms.erase(0);
        continue;
      }
      Poly part;
      part.terms.push_back(divide(t, lead, context_.scratch_));
      part.terms[0].coefficient /= lead.coefficient;
      moveConstant(part);
      addScaled(quotient, part, 1);
      addScaled(work, times(part, divisor), -1);
    }
  } catch (const Overflow&) {
    return false;
  }
  rest.constant = work.constant;
  return isZero(rest) || rest.terms.size() < numerator.terms.size();
}

// The divisor is no number.
const Node* Builder::divideByPoly(Poly numerator, Poly divisor, Kind kind) {
  bool isDiv = kind == Kind::FloorDiv;
  bool flipped = divisor.terms[0].coefficient < 0;
  if (flipped) {
    scale(numerator, -1);
    scale(divisor, -1);
  }
  // n//d is (-n)//(-d), and n % d is -(-n % -d); (c*n) % (c*d) is c*(n % d).
  Term shared = cancelCommon(numerator, divisor);
  if (flipped) shared.coefficient = mulChecked(shared.coefficient, -1);
  auto finish = [&](const Node* result) {
    if (isDiv || (shared.count == 0 && shared.coefficient == 1)) return result;
    const Node* factors[] = {term(shared), result};
    return product(factors);
  };
  if (divisor.isConst()) {
    return finish(isDiv ? divideByConst(std::move(numerator), divisor.constant)
                        : modByConst(std::move(numerator), divisor.constant));
  }
  bool changed = recombine(numerator);
  if (recombine(divisor) || changed) {
    const Node* operands[] = {node(numerator), node(divisor)};
    return finish(isDiv ? floorDiv(operands[0], operands[1]) : mod(operands[0], operands[1]));
  }
  Range divisorRange = rangeOf(divisor);
  if (!divisorRange.contains(0)) {
    if (isZero(numerator)) return constant(0);
    Poly quotient, rest;
    if (longDivide(numerator, divisor, quotient, rest)) {
      const Node* last = divideByPoly(std::move(rest), std::move(divisor), kind);
      if (!isDiv) return finish(last);
      Poly remaining;
      readPoly(last, remaining);
      addScaled(quotient, remaining, 1);
      return sum(quotient);
    }
    Range fixed = sym::floorDiv(rangeOf(numerator), divisorRange);
    if (fixed.isExact()) {
      if (isDiv) return constant(fixed.low);
      addScaled(numerator, divisor, mulChecked(fixed.low, -1));
      return finish(sum(numerator));
    }
  }
  const Node* operands[] = {node(numerator), node(divisor)};
  if (isDiv) {
    if (const Node* nested = nestedDivision(numerator, operands[1])) return nested;
  } else if (operands[0]->kind == Kind::Mod && operands[0]->operands[1] == operands[1]) {
    return finish(operands[0]);
  }
  return finish(intern(kind, 0, operands));
}

}  // namespace saker::sym
