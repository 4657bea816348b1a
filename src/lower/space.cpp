#include "lower/space.h"

namespace saker::lower {

Int Space::count(bool reducedOnes) const {
  Int product = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (isReduced(i) == reducedOnes) product *= sizes[i];
  }
  return product;
}

Space Space::collapsed() const {
  Space out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (ops::surelyOne(sizes[i])) continue;
    size_t last = out.sizes.size();
    if (last > 0 && out.isReduced(last - 1) == isReduced(i)) {
      out.sizes[last - 1] *= sizes[i];
    } else {
      out.sizes.push_back(sizes[i]);
      if (isReduced(i)) out.reduced |= uint64_t{1} << last;
    }
  }
  return out;
}

bool sameSpace(const Space& a, const Space& b) {
  Space x = a.collapsed(), y = b.collapsed();
  if (x.sizes.size() != y.sizes.size() || x.reduced != y.reduced) return false;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    if (!surelyEqual(x.sizes[i], y.sizes[i])) return false;
  }
  return true;
}

Space spaceOf(const ops::Along& along) {
  Space space;
  space.sizes = Dims(along.tensor->sizes());
  space.reduced = along.dims;
  return space;
}

}  // namespace saker::lower
