// Bounds of expressions from the bounds of what they are made of. `of` says what is known about an operand.
#pragma once

#include "symbolic/poly.h"

namespace saker::sym {

template <typename Of>
Range termBounds(const Term& term, Of&& of) {
  auto atoms = term.atoms();
  Range r = Range::exactly(term.coefficient);
  for (size_t i = 0; i < atoms.size();) {
    unsigned repeated = 1;
    while (i + repeated < atoms.size() && atoms[i + repeated] == atoms[i]) ++repeated;
    Range atom = of(atoms[i]);
    r = r * (repeated == 1 ? atom : power(atom, repeated));
    i += repeated;
  }
  return r;
}

template <typename Of>
Range polyBounds(const Poly& poly, Of&& of) {
  Range r = Range::exactly(poly.constant);
  for (const Term& term : poly.terms) r = r + termBounds(term, of);
  return r;
}

template <typename Of>
Range nodeBounds(Kind kind, int64_t value, std::span<const Node* const> operands, Of&& of) {
  switch (kind) {
    case Kind::Const:
      return Range::exactly(value);
    case Kind::Mul: {
      Term term{value, static_cast<uint32_t>(operands.size()), operands[0], operands.data()};
      return termBounds(term, of);
    }
    case Kind::Add: {
      Range r = Range::exactly(value);
      for (const Node* operand : operands) r = r + of(operand);
      return r;
    }
    case Kind::FloorDiv:
      return floorDiv(of(operands[0]), of(operands[1]));
    case Kind::Mod:
      return mod(of(operands[0]), of(operands[1]));
    case Kind::Min:
    case Kind::Max: {
      Range r = of(operands[0]);
      for (const Node* operand : operands.subspan(1)) {
        r = kind == Kind::Min ? minOf(r, of(operand)) : maxOf(r, of(operand));
      }
      return r;
    }
    default:
      return Range::all();
  }
}

}  // namespace saker::sym
