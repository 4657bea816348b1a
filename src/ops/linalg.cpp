#include "ops/linalg.h"

namespace saker::ops {

Dims withBatch(IntSpan batch, std::initializer_list<Int> last) {
  Dims sizes(batch);
  for (Int size : last) sizes.push_back(size);
  return sizes;
}

void requireMatrices(const Infer& in, const TensorType& t) {
  if (t.rank < 2) refuse(in.op().qualified + " takes matrices or batches of them");
}

void requireSquare(const Infer& in, const TensorType& t) {
  requireMatrices(in, t);
  if (!rowsOf(t).same(columnsOf(t)) && rowsOf(t) != columnsOf(t)) refuse(in.op().qualified + " takes square matrices");
}

Dims columnMajorStrides(IntSpan sizes) {
  Dims strides = ir::contiguousStrides(sizes);
  size_t rank = sizes.size();
  if (rank < 2) return strides;
  strides[rank - 2] = 1;
  strides[rank - 1] = max(sizes[rank - 2], Int(1));
  return strides;
}

void columnMajor(Infer& in, IntSpan sizes, DType dtype, Device device) {
  in.strided(sizes, columnMajorStrides(sizes), dtype, device);
}

}  // namespace saker::ops
