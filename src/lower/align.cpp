// Where the elements of a result are stored, if its dimensions are not those of the kernel's space: found by asking
// which element of a value that has those dimensions each element of the result is made of, and turning that around.
#include <algorithm>

#include "lower/builder.h"

namespace saker::lower {

using ops::Place;
using ops::Places;

namespace {

// A value of the wanted sizes was read at these places.
struct Found {
  Places places;
};

bool hasSizes(const ir::TensorType& type, const ir::Dims& sizes) {
  if (type.rank != sizes.size()) return false;
  for (size_t d = 0; d < type.rank; ++d) {
    if (!surelyEqual(type.size(d), sizes[d])) return false;
  }
  return true;
}

}  // namespace

void KernelBuilder::watch(const ir::Value* value, const Places& places) const {
  if (watched_ && hasSizes(*value->tensor(), *watched_)) throw Found{places};
}

std::optional<Places> KernelBuilder::alignedPlaces(const ir::Value* value) {
  const ir::TensorType& type = *value->tensor();
  Space own;
  own.sizes = ir::Dims(type.sizes());
  Axes axes(own);
  std::optional<Places> found;
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts && !found; ++attempt) {
    try {
      KernelBuilder probe(context_, source_, axes);
      probe.watched_ = &axes_.space().sizes;
      probe.compute(value, axes.places());
      return std::nullopt;
    } catch (const Found& at) {
      found = at.places;
    } catch (const Split& split) {
      axes.split(split);
    } catch (const NeedsMemory&) {
      return std::nullopt;
    }
  }
  if (!found) return std::nullopt;
  // Each axis of the result is a part of one dimension of the space: (place / stride) % extent.
  Places parts(axes.count()), here = axes_.places();
  std::vector<bool> known(axes.count());
  for (size_t d = 0; d < found->size(); ++d) {
    const Place& place = (*found)[d];
    if (!place.numbers.empty() || !place.offset.isConst(0)) return std::nullopt;
    std::vector<Place::Term> terms = place.axes;
    std::sort(terms.begin(), terms.end(), [](const Place::Term& a, const Place::Term& b) {
      return a.stride.isConst() && b.stride.isConst() ? a.stride.constant() > b.stride.constant()
                                                      : !a.stride.isConst() && b.stride.isConst();
    });
    Int stride = 1;
    for (size_t i = terms.size(); i-- > 0;) {
      uint32_t axis = terms[i].id;
      if (known[axis] || !surelyEqual(terms[i].stride, stride)) return std::nullopt;
      known[axis] = true;
      Place from = divide(here[d], stride).first;
      stride *= axes.extent(axis);
      parts[axis] = i == 0 ? from : divide(from, axes.extent(axis)).second;
    }
    if (!surelyEqual(stride, axes_.space().sizes[d])) return std::nullopt;
  }
  if (!std::all_of(known.begin(), known.end(), [](bool is) { return is; })) return std::nullopt;
  Places places(type.rank);
  Places sums = axes.places();
  for (size_t d = 0; d < type.rank; ++d) {
    for (const Place::Term& term : sums[d].axes) places[d] = places[d] + parts[term.id] * term.stride;
  }
  return places;
}

}  // namespace saker::lower
