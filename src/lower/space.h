// What a kernel iterates over: the elements of a tensor, along some of whose dimensions it reduces. Kernels are made of
// results that share a space; two are the same where they are once neighbouring dimensions are taken together.
#pragma once

#include <string>

#include "ir/type.h"
#include "ops/element.h"
#include "ops/shape.h"

namespace saker::lower {

using ir::Dims;
using sym::Int;

struct Space {
  Dims sizes;
  uint64_t reduced = 0;  // bit i: dimension i
  uint64_t ordered = 0;  // whose steps are done one after the other

  bool isReduced(size_t dim) const { return reduced >> dim & 1; }
  Int rows() const { return count(false); }     // elements of what is not reduced
  Int all() const { return ir::numel(sizes); }  // elements of everything
  Space collapsed() const;                      // without dimensions of one element, neighbours of one kind as one

 private:
  Int count(bool reducedOnes) const;
};

bool sameSpace(const Space& a, const Space& b);
Space spaceOf(const ops::Along& along);
using ops::surelyEqual;

}  // namespace saker::lower
