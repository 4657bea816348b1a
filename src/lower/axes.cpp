#include "lower/axes.h"

#include <algorithm>

namespace saker::lower {

using ops::Place;
using ops::Places;

Axes::Axes(const Space& space) : space_(space) {
  for (size_t i = 0; i < space.sizes.size(); ++i) {
    if (ops::surelyOne(space.sizes[i])) continue;
    dim_.push_back(i);
    extents_.push_back(space.sizes[i]);
    reduced_.push_back(space.isReduced(i));
  }
}

bool Axes::hasReduced() const { return std::find(reduced_.begin(), reduced_.end(), true) != reduced_.end(); }

Places Axes::places() const {
  Places places(space_.sizes.size());
  std::vector<Int> stride(space_.sizes.size(), Int(1));
  for (size_t axis = count(); axis-- > 0;) {
    size_t dim = dim_[axis];
    Place term;
    term.axes.push_back({static_cast<uint32_t>(axis), stride[dim]});
    places[dim] = places[dim] + term;
    stride[dim] *= extents_[axis];
  }
  return places;
}

Place Axes::linear(std::optional<bool> reduced) const {
  Place sum;
  Int stride = 1;
  for (size_t axis = count(); axis-- > 0;) {
    if (reduced && reduced_[axis] != *reduced) continue;
    Place term;
    term.axes.push_back({static_cast<uint32_t>(axis), stride});
    sum = sum + term;
    stride *= extents_[axis];
  }
  return sum;
}

bool Axes::dependsOnReduced(const Place& place) const {
  return std::any_of(place.axes.begin(), place.axes.end(), [&](const Place::Term& term) { return reduced_[term.id]; });
}

namespace {

// The quotient, where there is no remainder whatever the symbols are.
std::optional<Int> dividesExactly(Int a, Int b) {
  if (a.isConst() && b.isConst()) return a.constant() % b.constant() == 0 ? std::optional(a / b) : std::nullopt;
  if (a.isConst(0)) return Int(0);
  Int quotient = a / b;
  return surelyEqual(quotient * b, a) ? std::optional(quotient) : std::nullopt;
}

}  // namespace

std::optional<std::pair<Place, Place>> Axes::divide(const Place& place, Int by) const {
  Place quotient, rest;
  auto put = [&](const Place::Term& term, std::vector<Place::Term> Place::* kind) {
    if (std::optional<Int> exact = dividesExactly(term.stride, by)) {
      (quotient.*kind).push_back({term.id, *exact});
    } else {
      (rest.*kind).push_back(term);
    }
  };
  for (const Place::Term& term : place.axes) put(term, &Place::axes);
  for (const Place::Term& term : place.numbers) put(term, &Place::numbers);
  if (std::optional<Int> exact = dividesExactly(place.offset, by)) {
    quotient.offset = *exact;
  } else if (place.offset.isConst() && by.isConst()) {
    quotient.offset = place.offset / by;
    rest.offset = place.offset % by;
  } else {
    rest.offset = place.offset;
  }
  if (!rest.numbers.empty()) return std::nullopt;
  Int least = rest.offset, most = rest.offset;
  for (const Place::Term& term : rest.axes) {
    Int last = term.stride * (extents_[term.id] - Int(1));
    if ((term.stride >= Int(0)).provablyTrue()) {
      most += last;
    } else if ((term.stride < Int(0)).provablyTrue()) {
      least += last;
    } else {
      return std::nullopt;
    }
  }
  if ((least >= Int(0)).provablyTrue() && (most < by).provablyTrue()) return std::pair(quotient, rest);
  for (const Place::Term& term : rest.axes) {
    std::optional<Int> inner = dividesExactly(by, term.stride);
    if (!inner || inner->isConst(1) || inner->isConst(-1) || (*inner <= Int(0)).provablyTrue()) continue;
    if (surelyEqual(*inner, extents_[term.id]) || !dividesExactly(extents_[term.id], *inner)) continue;
    throw Split{term.id, *inner};
  }
  return std::nullopt;
}

void Axes::split(const Split& split) {
  Int outer = extents_[split.axis] / split.inner;
  extents_[split.axis] = outer;
  auto at = static_cast<std::ptrdiff_t>(split.axis);
  extents_.insert(extents_.begin() + at + 1, split.inner);
  dim_.insert(dim_.begin() + at + 1, dim_[split.axis]);
  reduced_.insert(reduced_.begin() + at + 1, reduced_[split.axis]);
}

}  // namespace saker::lower
