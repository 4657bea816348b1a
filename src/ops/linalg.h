// Batches of matrices, and the column-major order that LAPACK gives results in.
#pragma once

#include "ops/accept.h"
#include "ops/infer.h"
#include "ops/shape.h"

namespace saker::ops {

inline Int rowsOf(const TensorType& t) { return t.size(t.rank - 2); }
inline Int columnsOf(const TensorType& t) { return t.size(t.rank - 1); }
inline IntSpan batchOf(const TensorType& t) { return t.sizes().first(t.rank - 2); }
Dims withBatch(IntSpan batch, std::initializer_list<Int> last);

void requireMatrices(const Infer& in, const TensorType& t);
void requireSquare(const Infer& in, const TensorType& t);
// float32, float64 and their complex types: what LAPACK knows.
inline void requireLapack(const Infer& in, DType dtype) { require(in, kFull | kComplex, dtype); }
inline void requireLapackSquare(const Infer& in, const TensorType& t) {
  requireSquare(in, t);
  requireLapack(in, t.dtype);
}

// The last two dimensions column by column, the batch row-major. A vector stays one.
Dims columnMajorStrides(IntSpan sizes);
void columnMajor(Infer& in, IntSpan sizes, DType dtype, Device device);
inline void columnMajor(Infer& in, IntSpan sizes, const TensorType& like) {
  columnMajor(in, sizes, like.dtype, like.device);
}

// A result that was not asked for: a vector of no elements.
inline void noElements(Infer& in, DType dtype, Device device) { in.contiguous(Dims{Int(0)}, dtype, device); }

}  // namespace saker::ops
