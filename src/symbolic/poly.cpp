#include "symbolic/poly.h"

#include <algorithm>
#include <numeric>

namespace saker::sym {

int64_t addChecked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw Overflow();
  return r;
}

int64_t mulChecked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw Overflow();
  return r;
}

int64_t divChecked(int64_t a, int64_t b) { return b == -1 ? mulChecked(a, -1) : a / b; }

int64_t gcdChecked(int64_t a, int64_t b) {
  auto magnitude = [](int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); };
  uint64_t g = std::gcd(magnitude(a), magnitude(b));
  if (g > static_cast<uint64_t>(Range::kInf)) throw Overflow();
  return static_cast<int64_t>(g);
}

int compareMonomials(const Term& a, const Term& b) {
  if (a.count != b.count) return a.count > b.count ? -1 : 1;
  auto x = a.atoms(), y = b.atoms();
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) return compare(x[i], y[i]);
  }
  return 0;
}

Term termOf(const Node* operand) {
  if (operand->kind != Kind::Mul) return {1, 1, operand, nullptr};
  if (operand->count == 1) return {operand->value, 1, operand->operands[0], nullptr};
  return {operand->value, operand->count, nullptr, operand->operands};
}

void readPoly(const Node* node, Poly& out) {
  out.constant = 0;
  out.terms.clear();
  if (node->kind == Kind::Const) {
    out.constant = node->value;
  } else if (node->kind == Kind::Add) {
    out.constant = node->value;
    out.terms.reserve(node->count);
    for (const Node* operand : node->args()) out.terms.push_back(termOf(operand));
  } else {
    out.terms.push_back(termOf(node));
  }
}

void addScaled(Poly& a, const Poly& b, int64_t scale) {
  a.constant = addChecked(a.constant, mulChecked(b.constant, scale));
  if (scale == 0 || b.terms.empty()) return;
  SmallVec<Term, 6> merged;
  merged.reserve(a.terms.size() + b.terms.size());
  const Term *x = a.terms.begin(), *xEnd = a.terms.end(), *y = b.terms.begin(), *yEnd = b.terms.end();
  while (x != xEnd || y != yEnd) {
    int order = x == xEnd ? 1 : y == yEnd ? -1 : compareMonomials(*x, *y);
    if (order < 0) {
      merged.push_back(*x++);
      continue;
    }
    Term term = *y++;
    term.coefficient = mulChecked(term.coefficient, scale);
    if (order == 0) term.coefficient = addChecked(term.coefficient, (x++)->coefficient);
    if (term.coefficient != 0) merged.push_back(term);
  }
  a.terms = std::move(merged);
}

void scale(Poly& a, int64_t by) {
  a.constant = mulChecked(a.constant, by);
  if (by == 0) a.terms.clear();
  for (Term& term : a.terms) term.coefficient = mulChecked(term.coefficient, by);
}

void normalize(Poly& a) {
  std::sort(a.terms.begin(), a.terms.end(), [](const Term& x, const Term& y) { return compareMonomials(x, y) < 0; });
  size_t kept = 0;
  for (size_t i = 0; i < a.terms.size();) {
    Term term = a.terms[i++];
    while (i < a.terms.size() && compareMonomials(term, a.terms[i]) == 0) {
      term.coefficient = addChecked(term.coefficient, a.terms[i++].coefficient);
    }
    if (term.coefficient != 0) a.terms[kept++] = term;
  }
  while (a.terms.size() > kept) a.terms.pop_back();
}

Term multiply(const Term& a, const Term& b, Arena& scratch) {
  uint32_t count = a.count + b.count;
  const Node** atoms = scratch.makeArray<const Node*>(count);
  auto x = a.atoms(), y = b.atoms();
  std::merge(x.begin(), x.end(), y.begin(), y.end(), atoms,
             [](const Node* p, const Node* q) { return compare(p, q) < 0; });
  return {mulChecked(a.coefficient, b.coefficient), count, count == 1 ? atoms[0] : nullptr, atoms};
}

bool divides(const Term& divisor, const Term& term) {
  auto x = divisor.atoms(), y = term.atoms();
  size_t at = 0;
  for (const Node* atom : x) {
    while (at < y.size() && y[at] != atom) ++at;
    if (at++ == y.size()) return false;
  }
  return true;
}

Term divide(const Term& term, const Term& divisor, Arena& scratch) {
  uint32_t count = term.count - divisor.count;
  const Node** left = scratch.makeArray<const Node*>(count);
  auto x = divisor.atoms();
  size_t at = 0, kept = 0;
  for (const Node* atom : term.atoms()) {
    if (at < x.size() && x[at] == atom) {
      ++at;
    } else {
      left[kept++] = atom;
    }
  }
  return {term.coefficient, count, count == 1 ? left[0] : nullptr, left};
}

Poly multiply(const Poly& a, const Poly& b, Arena& scratch) {
  Poly r;
  r.constant = mulChecked(a.constant, b.constant);
  for (const Term& x : a.terms) {
    for (const Term& y : b.terms) r.terms.push_back(multiply(x, y, scratch));
  }
  if (b.constant != 0) {
    for (Term x : a.terms) {
      x.coefficient = mulChecked(x.coefficient, b.constant);
      r.terms.push_back(x);
    }
  }
  if (a.constant != 0) {
    for (Term y : b.terms) {
      y.coefficient = mulChecked(y.coefficient, a.constant);
      r.terms.push_back(y);
    }
  }
  normalize(r);
  return r;
}

Term commonAtoms(const Term& a, const Term& b, Arena& scratch) {
  const Node** shared = scratch.makeArray<const Node*>(std::min(a.count, b.count));
  uint32_t count = 0;
  auto x = a.atoms(), y = b.atoms();
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    int order = compare(x[i], y[j]);
    if (order == 0) shared[count++] = x[i];
    i += order <= 0;
    j += order >= 0;
  }
  return {1, count, count == 1 ? shared[0] : nullptr, shared};
}

Term commonAtoms(const Poly& a, Arena& scratch) {
  Term shared{1, 0, nullptr, nullptr};
  if (a.constant != 0 || a.terms.empty()) return shared;
  shared = a.terms[0];
  shared.coefficient = 1;
  for (size_t i = 1; i < a.terms.size() && shared.count != 0; ++i) shared = commonAtoms(shared, a.terms[i], scratch);
  return shared;
}

void moveConstant(Poly& a) {
  if (a.terms.empty() || a.terms.back().count != 0) return;
  a.constant = addChecked(a.constant, a.terms.back().coefficient);
  a.terms.pop_back();
}

int64_t coefficientOf(const Poly& a, const Term& monomial) {
  for (const Term& term : a.terms) {
    if (term.count == monomial.count && compareMonomials(term, monomial) == 0) return term.coefficient;
  }
  return 0;
}

int64_t coefficientGcd(const Poly& a) {
  int64_t g = 0;
  for (const Term& term : a.terms) {
    g = gcdChecked(g, term.coefficient);
    if (g == 1) break;
  }
  return g;
}

}  // namespace saker::sym
