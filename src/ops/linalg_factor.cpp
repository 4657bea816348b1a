// Factorisations and functions of one matrix. Strides are those of LAPACK's kernels; cuSOLVER's are the same where
// nothing else is said.
#include <optional>

#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/linalg.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

// (A, mode)
void qr(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  std::string_view mode = in.given(1) ? in.string(1) : "reduced";
  if (mode != "reduced" && mode != "complete" && mode != "r") refuse("linalg_qr: an unknown mode");
  Int m = rowsOf(a), n = columnsOf(a);
  Int k = mode == "complete" ? m : min(m, n);
  if (mode == "r") {
    noElements(in, a.dtype, a.device);
  } else {
    columnMajor(in, withBatch(batchOf(a), {m, k}), a);
  }
  columnMajor(in, withBatch(batchOf(a), {k, n}), a);
}

// (A, full_matrices, compute_uv, *, driver)
void svd(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  if (in.given(3) && a.device.type == DeviceType::CPU) refuse("linalg_svd: drivers are cuSOLVER's");
  bool full = in.boolean(1), vectors = in.boolean(2, true);
  Int m = rowsOf(a), n = columnsOf(a), k = min(m, n);
  if (vectors) {
    columnMajor(in, withBatch(batchOf(a), {m, full ? m : k}), a);
  } else {
    noElements(in, a.dtype, a.device);
  }
  in.contiguous(withBatch(batchOf(a), {k}), ir::toReal(a.dtype), a.device);
  if (vectors) {
    Dims sizes = withBatch(batchOf(a), {full ? n : k, n});
    // cuSOLVER gives V, of which this is the transpose.
    if (a.device.type == DeviceType::CPU) {
      columnMajor(in, sizes, a);
    } else {
      in.contiguous(sizes, a);
    }
  } else {
    noElements(in, a.dtype, a.device);
  }
}

// (A, UPLO, compute_v)
void eigh(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  std::string_view half = in.given(1) ? in.string(1) : "L";
  if (half != "L" && half != "U" && half != "l" && half != "u") refuse("linalg_eigh: UPLO is L or U");
  in.contiguous(a.sizes().first(a.rank - 1), ir::toReal(a.dtype), a.device);
  if (in.boolean(2, true)) {
    columnMajor(in, a.sizes(), a);
  } else {
    noElements(in, a.dtype, a.device);
  }
}

DType complexOf(DType dtype) { return ir::isComplex(dtype) ? dtype : ir::toComplex(dtype); }

void eigenvalues(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  in.contiguous(a.sizes().first(a.rank - 1), complexOf(a.dtype), a.device);
}

void eig(Infer& in) {
  eigenvalues(in);
  const TensorType& a = in.tensor(0);
  DType dtype = complexOf(a.dtype);
  if (a.device.type != DeviceType::CPU) return in.contiguous(a.sizes(), dtype, a.device);
  columnMajor(in, a.sizes(), dtype, a.device);
}

// A matrix like the input's and a code for each of the batch.
void factorWithInfo(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  columnMajor(in, a.sizes(), a);
  in.contiguous(batchOf(a), DType::Int32, a.device);
}

void cholesky(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  // out= gets a copy.
  if (in.op().variant == Variant::Out || isEmpty(a)) return in.contiguous(a.sizes(), a);
  columnMajor(in, a.sizes(), a);
}

void choleskyInverse(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  columnMajor(in, a.sizes(), a);
}

// What is left of the batch and the shorter side of the matrix.
Dims pivotSizes(const TensorType& a) { return withBatch(batchOf(a), {min(rowsOf(a), columnsOf(a))}); }

void requirePivoting(const TensorType& a, bool pivot) {
  if (!pivot && a.device.type == DeviceType::CPU && !isEmpty(a)) refuse("no LU without pivoting on the CPU");
}

// (A, *, pivot, check_errors)
void luFactor(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  requirePivoting(a, in.boolean(1, true));
  columnMajor(in, a.sizes(), a);
  in.contiguous(pivotSizes(a), DType::Int32, a.device);
  in.contiguous(batchOf(a), DType::Int32, a.device);
}

void unpacked(Infer& in, const TensorType& a, bool data, bool pivots) {
  Int m = rowsOf(a), n = columnsOf(a), k = min(m, n);
  if (pivots) {
    in.contiguous(withBatch(batchOf(a), {m, m}), a);
  } else {
    noElements(in, a.dtype, a.device);
  }
  if (data) {
    in.contiguous(withBatch(batchOf(a), {m, k}), a);
    in.contiguous(withBatch(batchOf(a), {k, n}), a);
  } else {
    noElements(in, a.dtype, a.device);
    noElements(in, a.dtype, a.device);
  }
}

// (A, *, pivot)
void lu(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  bool pivot = in.boolean(1, true);
  requirePivoting(a, pivot);
  unpacked(in, a, true, pivot);
}

// (LU_data, LU_pivots, unpack_data, unpack_pivots)
void luUnpack(Infer& in) {
  const TensorType& a = in.tensor(0);
  const TensorType& pivots = in.tensor(1);
  requireMatrices(in, a);
  require(in, kAll, a.dtype);
  bool wantsPivots = in.boolean(3, true);
  if (wantsPivots && pivots.dtype != DType::Int32) refuse("lu_unpack: pivots are int32");
  unpacked(in, a, in.boolean(2, true), wantsPivots);
}

void ldlFactor(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  columnMajor(in, a.sizes(), a);
  in.contiguous(a.sizes().first(a.rank - 1), DType::Int32, a.device);
  in.contiguous(batchOf(a), DType::Int32, a.device);
}

void luBeside(Infer& in, const TensorType& a) {
  columnMajor(in, a.sizes(), a);
  in.contiguous(a.sizes().first(a.rank - 1), DType::Int32, a.device);
}

void det(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  in.contiguous(batchOf(a), a);
  luBeside(in, a);
}

void slogdet(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  in.contiguous(batchOf(a), a);
  in.contiguous(batchOf(a), ir::toReal(a.dtype), a.device);
  luBeside(in, a);
}

void geqrf(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  columnMajor(in, a.sizes(), a);
  in.contiguous(pivotSizes(a), a);
}

// Can the batch be seen as one dimension without a copy?
bool hasFlatBatch(const TensorType& a) {
  std::optional<size_t> inner;
  for (size_t i = a.rank - 2; i-- > 0;) {
    if (a.size(i) == Int(1)) continue;
    if (inner && a.stride(i) != a.stride(*inner) * a.size(*inner)) return false;
    inner = i;
  }
  return true;
}

void matrixExp(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireSquare(in, a);
  require(in, kFloating, a.dtype);
  if (rowsOf(a) == Int(0)) return likeResult(in, a, a.dtype);
  if (rowsOf(a) == Int(1)) return elementwiseResult(in, {&a}, a.dtype);
  if (!isEmpty(a) && !hasFlatBatch(a)) refuse("linalg_matrix_exp: a batch that cannot be flattened");
  in.contiguous(a.sizes(), a);
}

void requireCpu(const TensorType& a) {
  if (a.device.type != DeviceType::CPU) unsupported("strides of cuSOLVER's results");
}

// The root of a Hermitian matrix.
void matrixRoot(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireLapackSquare(in, a);
  requireCpu(a);
  in.contiguous(a.sizes(), a);
}

// A matrix with orthonormal columns and a Hermitian one.
void polarFactors(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  requireCpu(a);
  if (rowsOf(a) < columnsOf(a)) refuse("linalg_polar: more columns than rows");
  in.contiguous(a.sizes(), a);
  in.contiguous(withBatch(batchOf(a), {columnsOf(a), columnsOf(a)}), a);
}

// (self, *, atol, rtol, hermitian)
void pinv(Infer& in) {
  const TensorType& a = in.tensor(0);
  requireMatrices(in, a);
  requireLapack(in, a.dtype);
  if (in.boolean(3)) requireSquare(in, a);
  Dims batch(batchOf(a));
  for (size_t i : {1, 2}) {
    const TensorType* tolerance = in.optionalTensor(i);
    if (!tolerance) continue;
    if (ir::isComplex(tolerance->dtype)) refuse("linalg_pinv: a complex tolerance");
    if (!isEmpty(a)) batch = broadcast(batch, tolerance->sizes());
  }
  in.contiguous(withBatch(batch, {columnsOf(a), rowsOf(a)}), a);
}

void trace(Infer& in) {
  const TensorType& a = in.tensor(0);
  if (a.rank != 2) refuse("trace takes a matrix");
  require(in, kNumbers, a.dtype);
  in.contiguous({}, ir::isIntegral(a.dtype, false) ? DType::Int64 : a.dtype, a.device);
}

// (info, api_name, *, is_matrix) -> (): raises where info says so
void checkErrors(Infer& in) { in.tensor(0); }

}  // namespace

void addFactorizations(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kFailsOnData) {
    rows.push_back({"aten::" + schema, rule, Cost::Library, traits});
  };
  add("linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)", qr, kNone);
  add("linalg_qr.out(Tensor A, str mode=\"reduced\", *, Tensor(a!) Q, Tensor(b!) R) -> (Tensor(a!) Q, Tensor(b!) R)",
      qr, kExactOut);
  add("_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None)"
      " -> (Tensor U, Tensor S, Tensor Vh)",
      svd);
  add("_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)", eigh);
  add("linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", eig);
  add("_linalg_eigvals(Tensor self) -> Tensor", eigenvalues);
  add("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
      factorWithInfo);
  add("cholesky(Tensor self, bool upper=False) -> Tensor", cholesky);
  add("cholesky_inverse(Tensor self, bool upper=False) -> Tensor", choleskyInverse);
  add("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False)"
      " -> (Tensor LU, Tensor pivots, Tensor info)",
      luFactor);
  add("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", lu, kNone);
  add("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)"
      " -> (Tensor P, Tensor L, Tensor U)",
      luUnpack);
  add("linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False)"
      " -> (Tensor LD, Tensor pivots, Tensor info)",
      ldlFactor);
  add("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", det, kNone);
  add("_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", slogdet, kNone);
  add("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", factorWithInfo);
  add("linalg_inv_ex.inverse(Tensor A, *, bool check_errors=False, Tensor(a!) inverse, Tensor(b!) info)"
      " -> (Tensor(a!) inverse, Tensor(b!) info)",
      factorWithInfo, kFailsOnData | kExactOut);
  // The out= forms that are not exact convert what was computed.
  add("linalg_eig.out(Tensor self, *, Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)"
      " -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)",
      eig);
  add("linalg_eigvals.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", eigenvalues);
  add("cholesky.out(Tensor self, bool upper=False, *, Tensor(a!) out) -> Tensor(a!)", cholesky);
  add("cholesky_inverse.out(Tensor self, bool upper=False, *, Tensor(a!) out) -> Tensor(a!)", choleskyInverse);
  add("geqrf.a(Tensor self, *, Tensor(a!) a, Tensor(b!) tau) -> (Tensor(a!) a, Tensor(b!) tau)", geqrf, kNone);
  add("linalg_matrix_exp.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", matrixExp, kCopiedOut);
  add("linalg_pinv.atol_rtol_tensor_out(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False,"
      " Tensor(a!) out) -> Tensor(a!)",
      pinv);
  add("trace.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", trace, kCopiedOut);
  add("_linalg_svd.U(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None, Tensor(a!) U,"
      " Tensor(b!) S, Tensor(c!) Vh) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)",
      svd, kFailsOnData | kExactOut);
  add("_linalg_eigh.eigenvalues(Tensor A, str UPLO=\"L\", bool compute_v=True, *, Tensor(a!) eigenvalues,"
      " Tensor(b!) eigenvectors) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)",
      eigh, kFailsOnData | kExactOut);
  add("linalg_cholesky_ex.L(Tensor self, *, bool upper=False, bool check_errors=False, Tensor(a!) L, Tensor(b!) info)"
      " -> (Tensor(a!) L, Tensor(b!) info)",
      factorWithInfo, kFailsOnData | kExactOut);
  add("linalg_lu_factor_ex.out(Tensor A, *, bool pivot=True, bool check_errors=False, Tensor(a!) LU, Tensor(b!) pivots,"
      " Tensor(c!) info) -> (Tensor(a!) LU, Tensor(b!) pivots, Tensor(c!) info)",
      luFactor, kFailsOnData | kExactOut);
  add("linalg_lu.out(Tensor A, *, bool pivot=True, Tensor(a!) P, Tensor(b!) L, Tensor(c!) U)"
      " -> (Tensor(a!) P, Tensor(b!) L, Tensor(c!) U)",
      lu, kExactOut);
  add("lu_unpack.out(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True, *, Tensor(a!) P,"
      " Tensor(b!) L, Tensor(c!) U) -> (Tensor(a!) P, Tensor(b!) L, Tensor(c!) U)",
      luUnpack, kFailsOnData | kExactOut);
  add("linalg_ldl_factor_ex.out(Tensor self, *, bool hermitian=False, bool check_errors=False, Tensor(a!) LD,"
      " Tensor(b!) pivots, Tensor(c!) info) -> (Tensor(a!) LD, Tensor(b!) pivots, Tensor(c!) info)",
      ldlFactor, kFailsOnData | kExactOut);
  add("_linalg_det.result(Tensor A, *, Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots)"
      " -> (Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots)",
      det, kExactOut);
  add("_linalg_slogdet.sign(Tensor A, *, Tensor(a!) sign, Tensor(b!) logabsdet, Tensor(c!) LU, Tensor(d!) pivots)"
      " -> (Tensor(a!) sign, Tensor(b!) logabsdet, Tensor(c!) LU, Tensor(d!) pivots)",
      slogdet, kExactOut);
  add("geqrf(Tensor self) -> (Tensor a, Tensor tau)", geqrf, kNone);
  add("linalg_matrix_exp(Tensor self) -> Tensor", matrixExp, kNone);
  add("linalg_matrix_sqrth(Tensor self) -> Tensor", matrixRoot);
  add("linalg_matrix_sqrth.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", matrixRoot, kFailsOnData | kExactOut);
  add("linalg_polar(Tensor A) -> (Tensor U, Tensor H)", polarFactors);
  add("linalg_polar.out(Tensor A, *, Tensor(a!) U, Tensor(b!) H) -> (Tensor(a!) U, Tensor(b!) H)", polarFactors,
      kFailsOnData | kExactOut);
  add("linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)"
      " -> Tensor",
      pinv);
  add("trace(Tensor self) -> Tensor", trace, kNone);
  add("_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()", checkErrors, kFailsOnData | kEffect);
}

}  // namespace saker::ops
