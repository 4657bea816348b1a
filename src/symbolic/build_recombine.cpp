// x = k*(x//k) + x%k. A sum in which two of the three occur can often do with fewer: x - k*(x//k) is x%k. Multiples of
// that equation are subtracted as long as the sum gets lighter; so there is an end, and what is done stays done.
#include <cmath>

#include "symbolic/builder.h"

namespace saker::sym {
namespace {

constexpr int kMaxSteps = 16;

int64_t numberDivisor(const Node* atom) {
  if (atom->kind != Kind::FloorDiv && atom->kind != Kind::Mod) return 0;
  const Node* divisor = atom->operands[1];
  return divisor->kind == Kind::Const ? divisor->value : 0;
}

// How much a sum says: k*(x//k) weighs what x weighs.
double weightOf(const Poly& poly) {
  double total = 0;
  for (const Term& t : poly.terms) {
    double weight = std::fabs(static_cast<double>(t.coefficient));
    for (const Node* atom : t.atoms()) {
      if (atom->kind == Kind::FloorDiv && numberDivisor(atom) > 0) weight /= static_cast<double>(numberDivisor(atom));
    }
    total += weight;
  }
  return total;
}

int64_t roundedQuotient(int64_t a, int64_t b) {
  __int128 twice = static_cast<__int128>(a) * 2, wide = b;
  __int128 q = (twice + (((a < 0) != (b < 0)) ? -wide : wide)) / (wide * 2);
  return static_cast<int64_t>(q);
}

}  // namespace

bool Builder::recombine(Poly& poly) {
  if (poly.terms.size() < 2 && !askRemainders_) return false;
  bool ever = false;
  for (int step = 0; step < kMaxSteps; ++step) {
    bool changed = false;
    for (size_t i = 0; i < poly.terms.size() && !changed; ++i) {
      Term t = poly.terms[i];
      const Node* before = nullptr;
      for (const Node* atom : t.atoms()) {
        if (atom == before || numberDivisor(atom) <= 0) continue;
        before = atom;
        changed = recombineAt(poly, t, atom);
        if (changed) break;
      }
    }
    if (!changed) break;
    ever = true;
  }
  return ever;
}

bool Builder::recombineAt(Poly& poly, const Term& t, const Node* atom) {
  int64_t k = numberDivisor(atom);
  Poly x;
  readPoly(atom->operands[0], x);
  if (x.isConst()) return false;
  bool isDiv = atom->kind == Kind::FloorDiv;
  Term single{1, 1, atom, nullptr};
  Term cofactor = divide(t, single, context_.scratch_);
  cofactor.coefficient = 1;
  Term lead = multiply(x.terms[0], cofactor, context_.scratch_);
  int64_t present = coefficientOf(poly, lead);
  // Fewer than half of k quotients, or a remainder alone: nothing to gain.
  __int128 twice = static_cast<__int128>(t.coefficient) * 2;
  if (isDiv ? twice < k && -twice < k : present == 0) return false;
  try {
    const Node* quotient = isDiv ? atom : divideByConst(x, k);
    const Node* remainder = isDiv ? modByConst(x, k) : atom;
    Poly relation = x, part;
    readPoly(quotient, part);
    addScaled(relation, part, mulChecked(k, -1));
    readPoly(remainder, part);
    addScaled(relation, part, -1);
    bool exact = isDiv && askRemainders_ && remainder->kind == Kind::Const && t.coefficient % k == 0;
    if (cofactor.count != 0) {
      Poly factor;
      factor.terms.push_back(cofactor);
      relation = times(relation, factor);
    }
    int64_t candidates[] = {roundedQuotient(present, x.terms[0].coefficient),
                            isDiv ? mulChecked(roundedQuotient(t.coefficient, k), -1) : mulChecked(t.coefficient, -1)};
    double best = weightOf(poly) * (1 - 1e-9);
    Poly lighter;
    bool found = false;
    for (int64_t times : candidates) {
      if (times == 0) continue;
      Poly attempt;
      addScaled(attempt, poly, 1);
      addScaled(attempt, relation, mulChecked(times, -1));
      double weight = weightOf(attempt);
      if (weight >= best && !(exact && times == candidates[1])) continue;
      best = weight;
      lighter = std::move(attempt);
      found = true;
    }
    if (found) poly = std::move(lighter);
    return found;
  } catch (const Overflow&) {
    return false;
  }
}

}  // namespace saker::sym
