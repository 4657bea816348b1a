// Products of matrices and vectors. Results are fresh row-major tensors whatever the memory order of the operands.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/promote.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

void requireRank(const TensorType& t, uint32_t rank, const char* what) {
  if (t.rank != rank) refuse(std::string(what) + " must have " + std::to_string(rank) + " dimensions");
}

void requireSame(Int a, Int b, const char* what) {
  if (a != b) refuse(std::string(what) + " do not fit: " + sym::toString(a) + " and " + sym::toString(b));
}

void requireOneDevice(const TensorType& a, const TensorType& b) {
  if (a.device != b.device) refuse("operands on " + ir::toString(a.device) + " and " + ir::toString(b.device));
}

// Dtypes: all operands alike, of a type the library multiplies.
void requireOneDType(Infer& in, std::initializer_list<const TensorType*> operands, uint8_t more = 0) {
  DType dtype = (*operands.begin())->dtype;
  bool onCpu = (*operands.begin())->device.type == DeviceType::CPU;
  require(in, onCpu ? kNumbers | more : kFloating, dtype);
  for (const TensorType* t : operands) {
    if (t->dtype != dtype) {
      refuse(in.op().qualified + ": operands of types " + std::string(ir::name(dtype)) + " and " +
             std::string(ir::name(t->dtype)));
    }
    requireOneDevice(**operands.begin(), *t);
  }
}

// `bias` must expand to the product's sizes.
void requireExpands(const TensorType& bias, IntSpan sizes) {
  if (bias.rank > sizes.size()) refuse("the tensor that is added has more dimensions than the product");
  size_t shift = sizes.size() - bias.rank;
  for (size_t i = 0; i < bias.rank; ++i) {
    Int size = bias.size(i);
    if (!size.same(sizes[shift + i]) && size != Int(1) && size != sizes[shift + i]) {
      refuse("the tensor that is added does not expand to the product's sizes");
    }
  }
}

// beta and alpha, which follow the three tensors: real products take no complex factor.
void requireFactors(Infer& in, DType dtype) {
  for (size_t i : {3, 4}) {
    if (!ir::isComplex(dtype) && in.given(i) && in.scalar(i).kind == Scalar::Kind::Complex) {
      refuse("a complex factor for real tensors");
    }
  }
}

Dims productSizes(const TensorType& a, const TensorType& b) {
  requireRank(a, 2, "the first matrix");
  requireRank(b, 2, "the second matrix");
  requireSame(a.size(1), b.size(0), "the inner sizes of the matrices");
  return {a.size(0), b.size(1)};
}

Dims batchProductSizes(const TensorType& a, const TensorType& b) {
  requireRank(a, 3, "the first batch of matrices");
  requireRank(b, 3, "the second batch of matrices");
  requireSame(a.size(0), b.size(0), "the batch sizes");
  requireSame(a.size(2), b.size(1), "the inner sizes of the matrices");
  return {a.size(0), a.size(1), b.size(2)};
}

// Matrices of 8-bit floats have a kernel, those of mere exponents have not.
uint8_t narrowFloats(const TensorType& a) { return a.dtype == DType::Float8E8M0FNU ? 0 : kFloat8; }

void mm(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  Dims sizes = productSizes(a, b);
  requireOneDType(in, {&a, &b}, narrowFloats(a));
  in.contiguous(sizes, a);
}

void bmm(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  Dims sizes = batchProductSizes(a, b);
  requireOneDType(in, {&a, &b});
  in.contiguous(sizes, b);
}

void addmm(Infer& in) {
  const TensorType &bias = in.tensor(0), &a = in.tensor(1), &b = in.tensor(2);
  Dims sizes = productSizes(a, b);
  requireExpands(bias, sizes);
  requireOneDType(in, {&a, &b, &bias}, narrowFloats(a));
  requireFactors(in, bias.dtype);
  in.contiguous(sizes, bias);
}

// The product followed by relu or gelu.
void addmmActivation(Infer& in) {
  DType dtype = in.tensor(0).dtype;
  bool gelu = in.boolean(5);
  if (ir::isComplex(dtype) || (gelu && !ir::isFloat(dtype))) refuse("no activation for this dtype");
  addmm(in);
}

void baddbmm(Infer& in) {
  const TensorType &bias = in.tensor(0), &a = in.tensor(1), &b = in.tensor(2);
  Dims sizes = batchProductSizes(a, b);
  requireExpands(bias, sizes);
  requireOneDType(in, {&a, &b, &bias});
  requireFactors(in, bias.dtype);
  in.contiguous(sizes, bias);
}

void addbmm(Infer& in) {
  const TensorType &bias = in.tensor(0), &a = in.tensor(1), &b = in.tensor(2);
  Dims batched = batchProductSizes(a, b);
  Dims sizes{batched[1], batched[2]};
  requireExpands(bias, sizes);
  requireOneDType(in, {&a, &b, &bias});
  requireFactors(in, bias.dtype);
  in.contiguous(sizes, bias);
}

void mv(Infer& in) {
  const TensorType &matrix = in.tensor(0), &vector = in.tensor(1);
  requireRank(matrix, 2, "the matrix");
  requireRank(vector, 1, "the vector");
  requireSame(matrix.size(1), vector.size(0), "the inner sizes");
  requireOneDType(in, {&matrix, &vector});
  in.contiguous(Dims{matrix.size(0)}, vector);
}

void addmv(Infer& in) {
  const TensorType &bias = in.tensor(0), &matrix = in.tensor(1), &vector = in.tensor(2);
  requireRank(matrix, 2, "the matrix");
  requireRank(vector, 1, "the vector");
  requireSame(matrix.size(1), vector.size(0), "the inner sizes");
  Dims sizes{matrix.size(0)};
  requireExpands(bias, sizes);
  requireOneDType(in, {&matrix, &vector, &bias});
  requireFactors(in, bias.dtype);
  bool spread = bias.rank == 0 || !bias.size(0).same(sizes[0]);
  if (spread && numel(matrix) == Int(0)) unsupported("addmv of an empty matrix");
  in.contiguous(sizes, vector);
}

// The library conjugates at most one operand; where both (of dot) or only the second (of vdot) carry a conjugation that
// was not carried out, it multiplies without and leaves it to the result.
template <bool conjugatesFirst>
void dot(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  requireRank(a, 1, "the first vector");
  requireRank(b, 1, "the second vector");
  requireOneDType(in, {&a, &b});
  requireSame(a.size(0), b.size(0), "the lengths of the vectors");
  TensorSpec spec;
  spec.dtype = a.dtype;
  spec.device = a.device;
  spec.flags.conj = b.flags.conj && a.flags.conj != conjugatesFirst && in.op().variant == Variant::Functional;
  in.result(spec);
}

// A vector seen as a matrix of one column.
const TensorType* standing(Infer& in, const TensorType& vector) {
  TensorSpec spec = in.viewOf(vector);
  spec.sizes = {vector.size(0), Int(1)};
  spec.strides = {vector.size(0) == Int(0) ? Int(1) : vector.stride(0), Int(1)};
  return in.context().types().tensor(spec);
}

const TensorType* expanded(Infer& in, const TensorType& t, IntSpan sizes) {
  if (sameSizes(t.sizes(), sizes)) return &t;
  TensorSpec spec = in.viewOf(t);
  size_t shift = sizes.size() - t.rank;
  spec.sizes = Dims(sizes);
  spec.strides = Dims(sizes.size());
  for (size_t i = 0; i < t.rank; ++i) {
    if (t.size(i) == sizes[shift + i]) spec.strides[shift + i] = t.stride(i);
  }
  return in.context().types().tensor(spec);
}

// The elementwise sum of `self` and a column times a row: the memory order follows `self`'s.
void addr(Infer& in) {
  const TensorType &self = in.tensor(0), &column = in.tensor(1), &row = in.tensor(2);
  requireRank(column, 1, "the first vector");
  requireRank(row, 1, "the second vector");
  Dims sizes{column.size(0), row.size(0)};
  requireExpands(self, sizes);
  const TensorType* operands[] = {expanded(in, self, sizes), standing(in, column), &row};
  DType dtype = resultType(in.context(), operands);
  require(in, kAll, dtype);
  for (size_t i : {3, 4}) {
    Scalar::Kind kind = in.given(i) ? in.scalar(i).kind : Scalar::Kind::Int;
    if (kind == Scalar::Kind::Bool && dtype != DType::Bool) refuse("a bool factor needs bool tensors");
    if (kind == Scalar::Kind::Float && ir::isIntegral(dtype, true)) refuse("a float factor for integer tensors");
    if (kind == Scalar::Kind::Complex && !ir::isComplex(dtype)) refuse("a complex factor for real tensors");
  }
  elementwiseResult(in, operands, dtype);
}

void outer(Infer& in) {
  const TensorType &column = in.tensor(0), &row = in.tensor(1);
  requireRank(column, 1, "the first vector");
  requireRank(row, 1, "the second vector");
  const TensorType* operands[] = {&column, &row};
  elementwiseResult(in, {standing(in, column), &row}, resultType(in.context(), operands));
}

// Batches broadcast; a vector is a row on the left and a column on the right, and its dimension goes away.
void matmul(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  if (a.rank == 0 || b.rank == 0) refuse("both operands need a dimension");
  requireOneDType(in, {&a, &b});
  requireSame(a.size(a.rank - 1), b.size(b.rank == 1 ? 0 : b.rank - 2), "the inner sizes");
  IntSpan batchA = a.sizes().first(a.rank > 2 ? a.rank - 2 : 0), batchB = b.sizes().first(b.rank > 2 ? b.rank - 2 : 0);
  Dims sizes = broadcast(batchA, batchB);
  if (a.rank > 1) sizes.push_back(a.size(a.rank - 2));
  if (b.rank > 1) sizes.push_back(b.size(b.rank - 1));
  in.contiguous(sizes, a);
}

// Can the first `count` dimensions be seen as one?
bool folds(const TensorType& t, size_t count) {
  std::optional<Int> expected;
  for (size_t i = count; i-- > 0;) {
    if (t.size(i) == Int(1)) continue;
    if (expected && t.stride(i) != *expected) return false;
    expected = t.stride(i) * t.size(i);
  }
  return true;
}

// A batch is folded into rows where it lies in memory so; then the rows of out= must, too.
void requireFoldable(const TensorType& input, const TensorType& target, IntSpan sizes) {
  size_t batch = input.rank - 1;
  if (batch < 2 || !sameSizes(target.sizes(), sizes) || numel(target) == Int(0)) return;
  if (folds(input, batch) && !folds(target, batch)) refuse("linear cannot write a batch into this layout of out=");
}

void linear(Infer& in) {
  const TensorType &input = in.tensor(0), &weight = in.tensor(1);
  const TensorType* bias = in.optionalTensor(2);
  if (input.rank == 0 || weight.rank == 0 || weight.rank > 2) refuse("linear needs a matrix of weights");
  requireOneDType(in, {&input, &weight});
  requireSame(input.size(input.rank - 1), weight.size(weight.rank - 1), "the inner sizes");
  Dims sizes(input.sizes().first(input.rank - 1));
  if (weight.rank == 2) sizes.push_back(weight.size(0));
  if (bias) {
    if (weight.rank == 1) refuse("a bias needs a matrix of weights");
    requireOneDType(in, {&input, bias});
    requireExpands(*bias, sizes);
  }
  if (in.op().variant == Variant::Out) requireFoldable(input, in.tensor(3), sizes);
  in.contiguous(sizes, input);
}

// 8-bit integers, summed in 32 bits.
void intMm(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  Dims sizes = productSizes(a, b);
  bool unsignedLeft = a.dtype == DType::UInt8 && a.device.type == DeviceType::CPU;
  if ((a.dtype != DType::Int8 && !unsignedLeft) || b.dtype != DType::Int8) refuse("_int_mm takes int8 matrices");
  requireOneDevice(a, b);
  bool aligned = a.device.type == DeviceType::CPU || (a.size(0) > Int(16) && a.size(1) > Int(0) &&
                                                      a.size(1) % Int(8) == Int(0) && b.size(1) % Int(8) == Int(0));
  if (!aligned) refuse("CUDA needs more than 16 rows and widths that are multiples of 8");
  in.contiguous(sizes, DType::Int32, a.device);
}

// Three factors broadcast against each other after dimensions of size 1 were put in, then summed over `sumdim`.
void trilinear(Infer& in) {
  Dims sum = in.ints(6);
  size_t rank = 0;
  for (size_t i = 0; i < 3; ++i) rank = std::max<size_t>(rank, in.tensor(i).rank + in.ints(3 + i).size());
  if (rank > 64) unsupported("more than 64 dimensions");
  Dims sizes(rank, Int(1));
  DType dtype = in.tensor(0).dtype;
  for (size_t i = 0; i < 3; ++i) {
    const TensorType& factor = in.tensor(i);
    uint64_t inserted = 0;
    for (Int dim : in.ints(3 + i)) inserted |= uint64_t{1} << wrapDim(dim.guard(), static_cast<int64_t>(rank));
    Dims own;
    size_t next = 0;
    for (size_t d = 0; d < rank; ++d) {
      if (!(inserted >> d & 1) && next >= factor.rank) refuse("_trilinear: the factors' ranks do not fit");
      own.push_back(inserted >> d & 1 ? Int(1) : factor.size(next++));
    }
    sizes = broadcast(sizes, own);
    dtype = promoteTypes(dtype, factor.dtype);
    requireOneDevice(in.tensor(0), factor);
  }
  require(in, kNumbers, dtype);
  uint64_t summed = dimSet(sum, static_cast<int64_t>(rank));
  Dims left;
  for (size_t d = 0; d < rank; ++d) {
    if (!(summed >> d & 1)) left.push_back(sizes[d]);
  }
  in.contiguous(left, dtype, in.tensor(0).device);
}

struct Form {
  const char* name;
  const char* arguments;
  InferFn rule;
  bool inplace;
  uint32_t outTraits = kExactOut;
};

}  // namespace

void addMatmul(Rows& rows) {
  const Form forms[] = {
      {"mm", "Tensor self, Tensor mat2", mm, false},
      {"bmm", "Tensor self, Tensor mat2", bmm, false},
      {"addmm", "Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1", addmm, true},
      {"baddbmm", "Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1", baddbmm, true},
      {"addbmm", "Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1", addbmm, true},
      {"mv", "Tensor self, Tensor vec", mv, false},
      {"addmv", "Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1", addmv, true},
      {"dot", "Tensor self, Tensor tensor", dot<false>, false},
      {"vdot", "Tensor self, Tensor other", dot<true>, false},
      {"outer", "Tensor self, Tensor vec2", outer, false, kNone},
      {"ger", "Tensor self, Tensor vec2", outer, false, kNone},
      {"matmul", "Tensor self, Tensor other", matmul, false},
      {"linear", "Tensor input, Tensor weight, Tensor? bias=None", linear, false},
      {"_int_mm", "Tensor self, Tensor mat2", intMm, false},
      {"_addmm_activation",
       "Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False", addmmActivation,
       false},
      {"_trilinear",
       "Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1",
       trilinear, false},
  };
  for (const Form& form : forms) {
    std::string name = std::string("aten::") + form.name, arguments = form.arguments;
    bool keywords = arguments.find("*, ") != std::string::npos;
    rows.push_back({name + "(" + arguments + ") -> Tensor", form.rule, Cost::Matmul});
    rows.push_back({name + ".out(" + arguments + (keywords ? "" : ", *") + ", Tensor(a!) out) -> Tensor(a!)", form.rule,
                    Cost::Matmul, form.outTraits});
    if (form.inplace) {
      rows.push_back({name + "_(Tensor(a!)" + arguments.substr(6) + ") -> Tensor(a!)", form.rule, Cost::Matmul});
    }
  }
  const char* addrArguments = "Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1";
  rows.push_back({std::string("aten::addr(Tensor self, ") + addrArguments + ") -> Tensor", addr, Cost::Pointwise});
  rows.push_back(
      {std::string("aten::addr_(Tensor(a!) self, ") + addrArguments + ") -> Tensor(a!)", addr, Cost::Pointwise});
  rows.push_back({std::string("aten::addr.out(Tensor self, ") + addrArguments + ", Tensor(a!) out) -> Tensor(a!)", addr,
                  Cost::Pointwise});
}

}  // namespace saker::ops
