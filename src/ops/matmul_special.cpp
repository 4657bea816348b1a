// Products with an output dtype of their own, in groups of rows, of 8-bit floats, and of packed weights.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

bool isNarrowFloat(DType dtype) { return ir::isFloat(dtype) && ir::byteSize(dtype) == 1; }

void requireMatrices(const TensorType& a, const TensorType& b, uint32_t rank) {
  if (a.rank != rank || b.rank != rank) refuse("the operands must have " + std::to_string(rank) + " dimensions");
  if (rank == 3 && a.size(0) != b.size(0)) refuse("the batch sizes differ");
  if (a.size(rank - 1) != b.size(rank - 2)) refuse("the inner sizes of the matrices differ");
  if (a.device != b.device) refuse("the matrices are on different devices");
}

// mm.dtype and its kin: f16 and bf16 summed and stored in f32, on CUDA.
template <uint32_t rank, bool adds>
void withDType(Infer& in) {
  constexpr size_t first = adds ? 1 : 0;
  const TensorType &a = in.tensor(first), &b = in.tensor(first + 1);
  requireMatrices(a, b, rank);
  if (a.device.type != DeviceType::CUDA) refuse("an output dtype of its own needs CUDA");
  DType dtype = in.dtype(first + 2).value_or(a.dtype);
  bool widens = dtype == DType::Float32 && ir::isFloat(a.dtype) && ir::byteSize(a.dtype) == 2;
  if (a.dtype != b.dtype || (dtype != a.dtype && !widens)) refuse("the output dtype must be f32 or the operands'");
  Dims sizes(a.sizes());
  sizes[rank - 1] = b.size(rank - 1);
  if (adds) broadcast(sizes, in.tensor(0).sizes());
  in.contiguous(sizes, dtype, a.device);
}

bool isAligned(const TensorType& t) {
  Int elements = Int(16 / ir::byteSize(t.dtype));
  bool rows = static_cast<bool>(t.stride(t.rank - 1) == Int(1));
  Int leading = t.stride(rows ? t.rank - 2 : t.rank - 1);
  if (!rows && t.stride(t.rank - 2) != Int(1)) return false;
  return static_cast<bool>(leading % elements == Int(0));
}

// self, mat2, offs, bias, out_dtype: a product for each group of rows, columns or summands that `offs` ends, or of a
// batch
void grouped(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  const TensorType* ends = in.optionalTensor(2);
  if ((a.rank != 2 && a.rank != 3) || (b.rank != 2 && b.rank != 3))
    refuse("grouped products take two or three dimensions");
  bool batched = a.rank == 3 && b.rank == 3;
  if ((ends != nullptr) == batched) refuse("offsets go with an operand of two dimensions");
  if (ends && (ends->rank != 1 || ends->dtype != DType::Int32)) refuse("offsets must be a vector of i32");
  bool floats = a.dtype == DType::BFloat16 || a.dtype == DType::Float16 || a.dtype == DType::Float32;
  if (!floats || a.dtype != b.dtype) refuse("grouped products take bf16, f16 or f32, both alike");
  if (in.given(3)) refuse("grouped products have no bias yet");
  DType dtype = in.dtype(4).value_or(a.dtype);
  if (dtype != a.dtype) refuse("the output dtype must be the operands'");
  if (a.size(a.rank - 1) != b.size(b.rank - 2)) refuse("the inner sizes of the matrices differ");
  if (!isAligned(a) || !isAligned(b)) refuse("rows must be aligned to 16 bytes");
  Int rows = a.size(a.rank - 2), columns = b.size(b.rank - 1);
  Dims sizes{rows, columns};
  if (a.rank == 2 && b.rank == 2) {
    sizes.insert(0, ends->size(0));
  } else if (batched) {
    if (a.size(0) != b.size(0)) refuse("the batch sizes differ");
    sizes.insert(0, a.size(0));
  } else if (ends->size(0) != (a.rank == 3 ? a : b).size(0)) {
    refuse("there must be an offset for each matrix");
  }
  Int elements = Int(16 / ir::byteSize(dtype));
  Dims padded(sizes);
  padded[padded.size() - 1] = ceilDiv(columns, elements) * elements;
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = a.device;
  spec.sizes = sizes;
  spec.strides = ir::contiguousStrides(padded);
  in.result(spec);
}

// self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum
void scaled(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1), &scaleA = in.tensor(2), &scaleB = in.tensor(3);
  requireMatrices(a, b, 2);
  if (!isNarrowFloat(a.dtype) || !isNarrowFloat(b.dtype)) refuse("_scaled_mm takes 8-bit floats");
  bool perTensor = static_cast<bool>(numel(scaleA) == Int(1)) && static_cast<bool>(numel(scaleB) == Int(1));
  if (scaleA.dtype != DType::Float32 || scaleB.dtype != DType::Float32) unsupported("block scales");
  if (!perTensor) {
    bool perRow = scaleA.rank == 2 && scaleB.rank == 2 && scaleA.size(0) == a.size(0) && scaleA.size(1) == Int(1) &&
                  scaleB.size(0) == Int(1) && scaleB.size(1) == b.size(1);
    if (!perRow) unsupported("scales that are neither one nor one a row");
  }
  if (a.device.type == DeviceType::CUDA) {
    bool aligned = a.size(1) % Int(16) == Int(0) && b.size(0) % Int(16) == Int(0) && b.size(1) % Int(16) == Int(0);
    if (!aligned) refuse("widths must be multiples of 16");
    if (a.stride(1) != Int(1) || b.stride(0) != Int(1))
      refuse("_scaled_mm takes a row-major and a column-major matrix");
  }
  in.contiguous(Dims{a.size(0), b.size(1)}, in.dtype(6).value_or(a.dtype), a.device);
}

// self, mat2, scales: weights of i8, one scale for each row of them
void int8Packed(Infer& in) {
  const TensorType &x = in.tensor(0), &w = in.tensor(1), &scales = in.tensor(2);
  if (x.rank != 2 || w.rank != 2 || x.size(1) != w.size(1)) refuse("the matrices do not fit");
  if (w.dtype != DType::Int8 || !accepts(kFloats, x.dtype) || x.dtype == DType::Float64)
    refuse("the dtypes do not fit");
  if (scales.rank != 1 || scales.size(0) != w.size(0)) refuse("there must be a scale for each row of the weights");
  if (scales.dtype != x.dtype) refuse("the scales are of another dtype than the matrix");
  if (x.stride(1) != Int(1) || !isContiguous(w)) refuse("_weight_int8pack_mm takes row-major matrices");
  in.contiguous(Dims{x.size(0), w.size(0)}, x);
}

}  // namespace

void addSpecialMatmul(Rows& rows) {
  const char* matrices = "(Tensor self, Tensor mat2, ScalarType out_dtype";
  const char* factors = ", ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor";
  rows.push_back({std::string("aten::mm.dtype") + matrices + ") -> Tensor", withDType<2, false>, Cost::Matmul});
  rows.push_back({std::string("aten::bmm.dtype") + matrices + ") -> Tensor", withDType<3, false>, Cost::Matmul});
  rows.push_back({std::string("aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2") + factors, withDType<2, true>,
                  Cost::Matmul});
  rows.push_back({std::string("aten::baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2") + factors,
                  withDType<3, true>, Cost::Matmul});
  rows.push_back(
      {"aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, "
       "ScalarType? out_dtype=None) -> Tensor",
       grouped, Cost::Matmul});
  rows.push_back(
      {"aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
       "Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
       scaled, Cost::Matmul});
  rows.push_back(
      {"aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", int8Packed, Cost::Matmul});
}

}  // namespace saker::ops
