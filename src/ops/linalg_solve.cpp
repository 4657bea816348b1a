// Linear equations, and products with matrices that are kept factored. Strides are those of
// LAPACK's kernels, and of cuSOLVER's.
#include <utility>

#include "ops/accept.h"
#include "ops/families.h"
#include "ops/linalg.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

void requireSameDType(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype) refuse("a linear equation of tensors of different dtypes");
}

// AX = B, or XA = B: sizes of X, in the batch of both.
Dims solutionSizes(const TensorType& a, const TensorType& b, bool left) {
  Int shared = left ? rowsOf(b) : columnsOf(b);
  if (rowsOf(a) != shared) refuse("a linear equation of matrices that do not fit");
  return withBatch(broadcast(batchOf(a), batchOf(b)), {rowsOf(b), columnsOf(b)});
}

void solution(Infer& in, IntSpan sizes, const TensorType& like, bool columns) {
  if (columns) {
    columnMajor(in, sizes, like);
  } else {
    in.contiguous(sizes, like);
  }
}

// Of AX = B in columns, of XA = B in rows.
void sidedSolution(Infer& in, IntSpan sizes, const TensorType& a, const TensorType& b, bool left) {
  if (left || !ir::isComplex(b.dtype) || isEmpty(a) || isEmpty(b)) return solution(in, sizes, b, left);
  // From the right the adjoint equation is solved, and the result conjugated by its mark alone.
  if (in.op().variant == Variant::Out) unsupported("the conjugation mark on out=");
  TensorSpec spec;
  spec.dtype = b.dtype;
  spec.device = b.device;
  spec.flags.conj = true;
  spec.sizes = Dims(sizes);
  spec.strides = ir::contiguousStrides(sizes);
  in.result(spec);
}

// A vector, or a batch of vectors of A's shape.
bool isVectorSide(const TensorType& a, const TensorType& b) {
  return b.rank == 1 || (b.rank + 1 == a.rank && sameSizes(b.sizes(), a.sizes().first(a.rank - 1)));
}

// (A, B, *, left, check_errors)
void solve(Infer& in) {
  const TensorType& a = in.tensor(0);
  const TensorType& b = in.tensor(1);
  requireLapackSquare(in, a);
  requireSameDType(a, b);
  bool left = in.boolean(2, true);
  Dims sizes;
  if (b.rank > 0 && isVectorSide(a, b)) {
    if (!left || b.size(b.rank - 1) != rowsOf(a)) refuse("a linear equation of a matrix and a vector that do not fit");
    sizes = withBatch(broadcast(batchOf(a), b.sizes().first(b.rank - 1)), {rowsOf(a)});
  } else {
    requireMatrices(in, b);
    sizes = solutionSizes(a, b, left);
  }
  sidedSolution(in, sizes, a, b, left);  // a batch of vectors is laid out as a matrix is
  columnMajor(in, a.sizes(), a);
  in.contiguous(a.sizes().first(a.rank - 1), DType::Int32, a.device);
  in.contiguous(batchOf(a), DType::Int32, a.device);
}

// (LU, pivots, B, *, left, adjoint)
void luSolve(Infer& in) {
  const TensorType& lu = in.tensor(0);
  const TensorType& pivots = in.tensor(1);
  const TensorType& b = in.tensor(2);
  requireLapackSquare(in, lu);
  requireMatrices(in, b);
  requireSameDType(lu, b);
  if (pivots.dtype != DType::Int32) refuse("linalg_lu_solve: pivots are int32");
  if (!sameSizes(pivots.sizes(), lu.sizes().first(lu.rank - 1))) refuse("linalg_lu_solve: pivots of another shape");
  bool left = in.boolean(3, true);
  Dims sizes = solutionSizes(lu, b, left);
  sidedSolution(in, sizes, lu, b, left);
}

// Are the matrices, each column after column, packed one after the other?
bool isColumnMajor(Infer& in, const TensorType& a) {
  TensorSpec spec(a);
  std::swap(spec.sizes[a.rank - 2], spec.sizes[a.rank - 1]);
  std::swap(spec.strides[a.rank - 2], spec.strides[a.rank - 1]);
  return isContiguous(*in.context().types().tensor(spec));
}

// (self, B, *, upper, left, unitriangular)
void solveTriangular(Infer& in) {
  const TensorType& a = in.tensor(0);
  const TensorType& b = in.tensor(1);
  requireLapackSquare(in, a);
  requireMatrices(in, b);
  Dims sizes = solutionSizes(a, b, in.boolean(3, true));
  // A conjugate of packed columns is solved for the conjugate, in rows.
  IntSpan batch = IntSpan(sizes).first(sizes.size() - 2);
  bool packed = a.flags.conj && (isEmpty(a) || (isColumnMajor(in, a) && sameSizes(batchOf(a), batch)));
  solution(in, sizes, a, !packed);
}

// (self, A, upper, transpose, unitriangular): here the equation's other side comes first.
void triangularSolve(Infer& in) {
  const TensorType& b = in.tensor(0);
  const TensorType& a = in.tensor(1);
  requireMatrices(in, b);
  requireLapackSquare(in, a);
  requireSameDType(a, b);
  Dims sizes = solutionSizes(a, b, true);
  columnMajor(in, sizes, b);
  columnMajor(in, withBatch(IntSpan(sizes).first(sizes.size() - 2), {rowsOf(a), columnsOf(a)}), a);
}

// (self, input2, upper); out= gets a copy
void choleskySolve(Infer& in) {
  const TensorType& b = in.tensor(0);
  const TensorType& a = in.tensor(1);
  requireMatrices(in, b);
  requireLapackSquare(in, a);
  requireSameDType(a, b);
  solution(in, solutionSizes(a, b, true), b, in.op().variant != Variant::Out);
}

// (LD, pivots, B, *, hermitian)
void ldlSolve(Infer& in) {
  const TensorType& ld = in.tensor(0);
  const TensorType& pivots = in.tensor(1);
  const TensorType& b = in.tensor(2);
  requireLapackSquare(in, ld);
  requireMatrices(in, b);
  requireSameDType(ld, b);
  if (!sameSizes(pivots.sizes(), ld.sizes().first(ld.rank - 1))) refuse("linalg_ldl_solve: pivots of another shape");
  if (!ir::isIntegral(pivots.dtype, false)) refuse("linalg_ldl_solve: pivots are integers");
  columnMajor(in, solutionSizes(ld, b, true), b);
}

struct LeastSquares {
  bool ranks, singularValues, residuals;
};

// What a LAPACK driver gives beside the solution.
LeastSquares driverOf(const Infer& in, bool tall) {
  bool cpu = in.tensor(0).device.type == DeviceType::CPU;
  std::string_view driver = in.given(3) ? in.string(3) : cpu ? "gelsy" : "gels";
  if (!cpu && driver != "gels") refuse("linalg_lstsq: CUDA knows the driver gels only");
  if (driver == "gelsy") return {true, false, false};
  if (driver == "gels") return {false, false, tall};
  if (driver != "gelsd" && driver != "gelss") refuse("linalg_lstsq: an unknown driver");
  if (tall) refuse(Reason::DataDependent, "linalg_lstsq: there are residuals if the rank is full");
  return {true, true, false};
}

// (self, b, rcond, *, driver)
void leastSquares(Infer& in) {
  const TensorType& a = in.tensor(0);
  const TensorType& b = in.tensor(1);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  requireSameDType(a, b);
  if (b.rank < 1 || b.rank > a.rank || b.rank + 1 < a.rank) refuse("linalg_lstsq: tensors of ranks that do not fit");
  bool vector = b.rank + 1 == a.rank;
  IntSpan rightBatch = b.sizes().first(vector ? b.rank - 1 : b.rank - 2);
  Int m = rowsOf(a), n = columnsOf(a), right = vector ? Int(1) : columnsOf(b);
  // Some vectors that do not fit are let through.
  if (vector && m != b.size(b.rank - 1)) unsupported("linalg_lstsq: a matrix and a vector that do not fit");
  if (!vector && m != rowsOf(b)) refuse("linalg_lstsq: matrices that do not fit");
  bool tall = static_cast<bool>(m > n);
  LeastSquares gives = driverOf(in, tall);
  Dims batch = broadcast(batchOf(a), rightBatch);

  // The solution is the upper part of a buffer as long as the longer side.
  Dims sizes = withBatch(batch, {tall ? m : n, right});
  Dims strides = columnMajorStrides(sizes);
  sizes[batch.size()] = n;
  if (vector) {
    sizes.pop_back();
    strides.pop_back();
  }
  in.strided(sizes, strides, a.dtype, a.device);
  DType real = ir::toReal(a.dtype);
  if (gives.residuals) {
    in.contiguous(withBatch(batch, {right}), real, a.device);
  } else {
    noElements(in, real, a.device);
  }
  if (gives.ranks) {
    in.contiguous(batchOf(a), DType::Int64, a.device);
  } else {
    noElements(in, DType::Int64, a.device);
  }
  if (gives.singularValues) {
    in.contiguous(withBatch(batchOf(a), {min(m, n)}), real, a.device);
  } else {
    noElements(in, real, a.device);
  }
}

void requireReflectors(const TensorType& a, const TensorType& tau) {
  if (tau.rank + 1 != a.rank || !sameSizes(batchOf(a), tau.sizes().first(tau.rank - 1))) {
    refuse("reflectors: tau does not fit the matrices");
  }
  requireSameDType(a, tau);
}

// (input, tau)
void householderProduct(Infer& in) {
  const TensorType& a = in.tensor(0);
  const TensorType& tau = in.tensor(1);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  if (rowsOf(a) < columnsOf(a)) refuse("linalg_householder_product: a wide matrix");
  requireReflectors(a, tau);
  if (columnsOf(a) < tau.size(tau.rank - 1)) refuse("linalg_householder_product: too many reflectors");
  columnMajor(in, a.sizes(), a);
}

// (self, input2, input3, left, transpose)
void ormqr(Infer& in) {
  const TensorType& a = in.tensor(0);
  const TensorType& tau = in.tensor(1);
  const TensorType& other = in.tensor(2);
  requireMatrices(in, a);
  requireMatrices(in, other);
  requireLapack(in, a.dtype);
  requireReflectors(a, tau);
  requireSameDType(a, other);
  Int side = in.boolean(3, true) ? rowsOf(other) : columnsOf(other);
  if (rowsOf(a) != side || tau.size(tau.rank - 1) != min(side, columnsOf(a))) refuse("ormqr: matrices that do not fit");
  if (other.rank != a.rank || !sameSizes(batchOf(a), batchOf(other))) refuse("ormqr: batches that do not fit");
  columnMajor(in, other.sizes(), other);
}

// (self, other, *, dim)
void cross(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType& other = in.tensor(1);
  if (self.rank != other.rank) refuse("linalg_cross: tensors of different ranks");
  size_t dim = static_cast<size_t>(wrapDim(in.fixed(2, -1), self.rank));
  if (self.rank == 0 || self.size(dim) != Int(3) || other.size(dim) != Int(3)) refuse("linalg_cross: vectors of three");
  require(in, kNumbers, self.dtype);
  if (self.dtype != other.dtype) unsupported("linalg_cross of different dtypes");
  in.contiguous(broadcast(self.sizes(), other.sizes()), self);
}

}  // namespace

void addSolvers(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Library, traits});
  };
  add("_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)"
      " -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
      solve, kFailsOnData);
  add("_linalg_solve_ex.result(Tensor A, Tensor B, *, bool left=True, bool check_errors=False, Tensor(a!) result,"
      " Tensor(b!) LU, Tensor(c!) pivots, Tensor(d!) info)"
      " -> (Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots, Tensor(d!) info)",
      solve, kFailsOnData | kExactOut);
  add("linalg_solve_triangular.out(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False,"
      " Tensor(a!) out) -> Tensor(a!)",
      solveTriangular, kExactOut);
  add("cholesky_solve.out(Tensor self, Tensor input2, bool upper=False, *, Tensor(a!) out) -> Tensor(a!)",
      choleskySolve, kFailsOnData);
  add("linalg_householder_product.out(Tensor input, Tensor tau, *, Tensor(a!) out) -> Tensor(a!)", householderProduct);
  add("ormqr.out(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False, *, Tensor(a!) out)"
      " -> Tensor(a!)",
      ormqr);
  add("linalg_lu_solve.out(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False, Tensor(a!) out)"
      " -> Tensor(a!)",
      luSolve, kExactOut);
  add("triangular_solve.X(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False, *,"
      " Tensor(a!) X, Tensor(b!) M) -> (Tensor(a!) solution, Tensor(b!) cloned_coefficient)",
      triangularSolve, kExactOut);
  add("linalg_ldl_solve.out(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False, Tensor(a!) out) -> Tensor(a!)",
      ldlSolve, kExactOut);
  add("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor", luSolve);
  add("linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> "
      "Tensor",
      solveTriangular);
  add("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)"
      " -> (Tensor solution, Tensor cloned_coefficient)",
      triangularSolve);
  add("cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", choleskySolve, kFailsOnData);
  add("_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor", choleskySolve, kFailsOnData);
  add("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", ldlSolve);
  add("linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None)"
      " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
      leastSquares, kFailsOnData | kDynamicShape);
  add("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", householderProduct);
  add("ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor", ormqr);
  add("linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", cross);
  add("linalg_cross.out(Tensor self, Tensor other, *, int dim=-1, Tensor(a!) out) -> Tensor(a!)", cross, kExactOut);
}

}  // namespace saker::ops
