// Bounds of expressions from the bounds of what they are made of: the declared ones, or those of `known` where given.
#pragma once

#include <span>

#include "symbolic/poly.h"

namespace saker::sym {

class Knowledge;

Range boundsOf(const Term& term, const Knowledge* known);
Range boundsOf(const Poly& poly, const Knowledge* known);
Range boundsOf(Kind kind, int64_t value, std::span<const Node* const> operands, const Knowledge* known);

}  // namespace saker::sym
