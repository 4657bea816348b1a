#include "symbolic/bounds.h"

#include "symbolic/knowledge.h"

namespace saker::sym {
namespace {

using Wide = __int128;

Range of(const Node* node, const Knowledge* known) { return known ? known->rangeOf(node) : node->range; }

// Intervals forget that two terms share a symbol: they see nothing in s0*s1 - s0. Written in the distances of the
// symbols from an end of their ranges, s0 = 2 + x and s1 = 2 + y, it is x*y + x + 2*y + 2, which is at least 2.
class ShiftedPoly {
 public:
  // False if it is not worth it or an atom has no finite end.
  bool build(const Poly& poly, const Knowledge* known) {
    constant_ = poly.constant;
    for (const Term& term : poly.terms) {
      if (!expand(term, known)) return false;
    }
    return true;
  }

  Range bounds() const {
    Range r = {clamp(constant_), clamp(constant_)};
    for (const Entry& entry : entries_) {
      if (entry.coefficient == 0) continue;
      Range monomial = Range::exactly(1);
      for (uint32_t i = 0; i < entry.count; ++i) monomial = monomial * distances_[entry.atoms[i]].range;
      r = r + monomial * Range{clamp(entry.coefficient), clamp(entry.coefficient)};
    }
    return r;
  }

 private:
  static constexpr uint32_t kMaxDegree = 4;
  static constexpr size_t kMaxEntries = 48;
  static constexpr Wide kLimit = Wide{1} << 100;

  struct Distance {
    const Node* atom;
    int64_t end;
    int sign;
    Range range;  // of the distance: from 0
  };
  struct Entry {
    Wide coefficient;
    uint32_t count;
    uint8_t atoms[kMaxDegree];  // indices into distances_, sorted
  };

  // A clamped end is infinite or, on the far side, still a bound.
  static int64_t clamp(Wide value) {
    return value > Range::kInf ? Range::kInf : value < Range::kNegInf ? Range::kNegInf : static_cast<int64_t>(value);
  }

  int distanceOf(const Node* atom, const Knowledge* known) {
    for (size_t i = 0; i < distances_.size(); ++i) {
      if (distances_[i].atom == atom) return static_cast<int>(i);
    }
    Range range = of(atom, known);
    bool fromLow = range.low != Range::kNegInf;
    if (!fromLow && range.high == Range::kInf) return -1;
    Wide width = static_cast<Wide>(range.high) - range.low;
    bool finite = fromLow && range.high != Range::kInf;
    distances_.push_back(
        {atom, fromLow ? range.low : range.high, fromLow ? 1 : -1, {0, finite ? clamp(width) : Range::kInf}});
    return static_cast<int>(distances_.size() - 1);
  }

  // coefficient * prod(end + sign*x): one entry for each choice between `end` and `x`.
  bool expand(const Term& term, const Knowledge* known) {
    if (term.count > kMaxDegree) return false;
    int index[kMaxDegree];
    auto atoms = term.atoms();
    for (uint32_t i = 0; i < term.count; ++i) {
      index[i] = distanceOf(atoms[i], known);
      if (index[i] < 0 || distances_.size() > 200) return false;
    }
    for (uint32_t choice = 0; choice < (1u << term.count); ++choice) {
      Entry entry{term.coefficient, 0, {}};
      for (uint32_t i = 0; i < term.count; ++i) {
        const Distance& distance = distances_[static_cast<size_t>(index[i])];
        Wide factor = choice >> i & 1 ? distance.sign : distance.end;
        if (__builtin_mul_overflow(entry.coefficient, factor, &entry.coefficient)) return false;
        if (choice >> i & 1) insert(entry, static_cast<uint8_t>(index[i]));
      }
      if (entry.coefficient > kLimit || entry.coefficient < -kLimit || !merge(entry)) return false;
    }
    return true;
  }

  static void insert(Entry& entry, uint8_t atom) {
    uint32_t at = entry.count++;
    for (; at > 0 && entry.atoms[at - 1] > atom; --at) entry.atoms[at] = entry.atoms[at - 1];
    entry.atoms[at] = atom;
  }

  bool merge(const Entry& entry) {
    if (entry.count == 0) {
      constant_ += entry.coefficient;
      return true;
    }
    for (Entry& other : entries_) {
      if (other.count != entry.count || std::memcmp(other.atoms, entry.atoms, entry.count) != 0) continue;
      other.coefficient += entry.coefficient;
      return true;
    }
    entries_.push_back(entry);
    return entries_.size() <= kMaxEntries;
  }

  Wide constant_ = 0;
  SmallVec<Distance, 8> distances_;
  SmallVec<Entry, 16> entries_;
};

}  // namespace

Range boundsOf(const Term& term, const Knowledge* known) {
  auto atoms = term.atoms();
  Range r = Range::exactly(term.coefficient);
  for (size_t i = 0; i < atoms.size();) {
    unsigned repeated = 1;
    while (i + repeated < atoms.size() && atoms[i + repeated] == atoms[i]) ++repeated;
    Range atom = of(atoms[i], known);
    r = r * (repeated == 1 ? atom : power(atom, repeated));
    i += repeated;
  }
  return r;
}

Range boundsOf(const Poly& poly, const Knowledge* known) {
  Range r = Range::exactly(poly.constant);
  for (const Term& term : poly.terms) r = r + boundsOf(term, known);
  // Linear polynomials have each atom once: intervals are exact. The highest degree comes first.
  if (poly.terms.size() < 2 || poly.terms[0].count < 2) return r;
  ShiftedPoly shifted;
  if (shifted.build(poly, known)) r = intersect(r, shifted.bounds());
  return r;
}

Range boundsOf(Kind kind, int64_t value, std::span<const Node* const> operands, const Knowledge* known) {
  switch (kind) {
    case Kind::Const:
      return Range::exactly(value);
    case Kind::Mul: {
      Term term{value, static_cast<uint32_t>(operands.size()), operands[0], operands.data()};
      return boundsOf(term, known);
    }
    case Kind::Add: {
      Poly poly;
      poly.constant = value;
      for (const Node* operand : operands) poly.terms.push_back(termOf(operand));
      return boundsOf(poly, known);
    }
    case Kind::FloorDiv:
      return floorDiv(of(operands[0], known), of(operands[1], known));
    case Kind::Mod:
      return mod(of(operands[0], known), of(operands[1], known));
    case Kind::Min:
    case Kind::Max: {
      Range r = of(operands[0], known);
      for (const Node* operand : operands.subspan(1)) {
        r = kind == Kind::Min ? minOf(r, of(operand, known)) : maxOf(r, of(operand, known));
      }
      return r;
    }
    default:
      return Range::all();
  }
}

}  // namespace saker::sym
