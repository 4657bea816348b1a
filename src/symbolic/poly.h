// Polynomials under construction: what sums and products are while they are computed with. Terms point into nodes or
// into the scratch arena, so they live no longer than the operation that made them.
#pragma once

#include <cstdint>
#include <span>

#include "support/arena.h"
#include "support/small_vec.h"
#include "symbolic/expr.h"

namespace saker::sym {

// coefficient * atoms.
struct Term {
  int64_t coefficient;
  uint32_t count;
  const Node* single;       // where there is one atom
  const Node* const* many;  // where there are more

  std::span<const Node* const> atoms() const { return count == 1 ? std::span(&single, 1) : std::span(many, count); }
};

// Monomials in the order of the canonical form: higher degree first, then by their atoms. It is compatible with
// multiplication, which long division relies on.
int compareMonomials(const Term& a, const Term& b);

struct Poly {
  int64_t constant = 0;
  SmallVec<Term, 6> terms;  // sorted, no two with the same monomial, no zero coefficient

  bool isConst() const { return terms.empty(); }
};

int64_t addChecked(int64_t a, int64_t b);  // these throw Overflow
int64_t mulChecked(int64_t a, int64_t b);
int64_t divChecked(int64_t a, int64_t b);  // of a multiple
int64_t gcdChecked(int64_t a, int64_t b);

Term termOf(const Node* operand);  // of an atom or a product
void readPoly(const Node* node, Poly& out);

// a + scale * b
void addScaled(Poly& a, const Poly& b, int64_t scale);
void scale(Poly& a, int64_t by);
// Sorts and merges terms that were appended in any order.
void normalize(Poly& a);

// Products of monomials; the atoms go to `scratch`.
Term multiply(const Term& a, const Term& b, Arena& scratch);
bool divides(const Term& divisor, const Term& term);                 // atoms only
Term divide(const Term& term, const Term& divisor, Arena& scratch);  // atoms only; the coefficient stays
Poly multiply(const Poly& a, const Poly& b, Arena& scratch);
// The atoms that all terms share; none if there is a constant.
Term commonAtoms(const Poly& a, Arena& scratch);
// The atoms of both, each as often as in the one that has it less often.
Term commonAtoms(const Term& a, const Term& b, Arena& scratch);
// A term without atoms, left by a division, joins the constant.
void moveConstant(Poly& a);

// The coefficient of a monomial; 0 if it does not occur.
int64_t coefficientOf(const Poly& a, const Term& monomial);

// The greatest common divisor of the coefficients, without the constant; 0 if there are none.
int64_t coefficientGcd(const Poly& a);

}  // namespace saker::sym
