// Tensors made from nothing, and what is shaped like another tensor.
#include "ops/factory.h"

#include <algorithm>

#include "ops/accept.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

void empty(Infer& in) {
  Options options = readOptions(in, 1);
  Dims sizes = in.ints(0);
  requireSizes(sizes);
  TensorSpec spec;
  spec.dtype = options.dtype;
  spec.device = options.device;
  spec.strides = stridesIn(sizes, in.memoryFormat(isOut(in) ? 1 : 5).value_or(MemoryFormat::Contiguous));
  spec.sizes = sizes;
  in.result(spec);
}

void strided(Infer& in, Dims sizes, Dims strides, Options options) {
  if (sizes.size() != strides.size()) refuse("as many strides as sizes are needed");
  requireSizes(sizes);
  requireSizes(strides);
  TensorSpec spec;
  spec.dtype = options.dtype;
  spec.device = options.device;
  spec.sizes = sizes;
  spec.strides = strides;
  in.result(spec);
}

void emptyStrided(Infer& in) { strided(in, in.ints(0), in.ints(1), readOptions(in, 2)); }

// Row-major as seen through a permutation.
void emptyPermuted(Infer& in) {
  Dims sizes = in.ints(0), layout = in.ints(1);
  if (sizes.size() != layout.size()) refuse("a physical layout names every dimension once");
  Dims physical(sizes.size()), strides(sizes.size());
  uint64_t seen = 0;
  for (size_t i = 0; i < layout.size(); ++i) {
    int64_t dim = layout[i].guard();
    if (dim < 0 || dim >= static_cast<int64_t>(sizes.size()) || (seen >> dim & 1)) refuse("no permutation");
    seen |= uint64_t{1} << dim;
    physical[i] = sizes[static_cast<size_t>(dim)];
  }
  Dims physicalStrides = ir::contiguousStrides(physical);
  for (size_t i = 0; i < layout.size(); ++i) strides[static_cast<size_t>(layout[i].constant())] = physicalStrides[i];
  strided(in, sizes, strides, readOptions(in, 2));
}

void filled(Infer& in) { fresh(in, in.ints(0), readOptions(in, 1)); }

// A single element is written without a kernel.
void requireFilled(const Infer& in, DType dtype) {
  if (dtype != DType::BComplex32) return;
  Dims sizes = in.ints(0);
  bool single = std::all_of(sizes.begin(), sizes.end(), [](Int size) { return static_cast<bool>(size == Int(1)); });
  if (!single) requireFillable(in, dtype);
}

void ones(Infer& in) {
  Options options = readOptions(in, 1);
  requireFilled(in, options.dtype);
  fresh(in, in.ints(0), options);
}

void full(Infer& in) {
  Options options = readOptions(in, 2, dtypeOf(in, in.scalar(1).kind), in.context().ambient().defaultDevice);
  requireFilled(in, options.dtype);
  requireFits(in, 1, options.dtype);
  fresh(in, in.ints(0), options);
}

void scalarTensor(Infer& in) {
  Options options = readOptions(in, 1);
  // On the CPU, an element of a narrow type takes any number.
  bool narrow = ir::isFloat(options.dtype) && ir::byteSize(options.dtype) <= 2;
  if (!narrow || in.scalar(0).kind == Scalar::Kind::Complex) requireFits(in, 0, options.dtype);
  fresh(in, {}, options);
}

void newLike(Infer& in) { fresh(in, in.ints(1), readOptions(in, 2, in.tensor(0))); }

void newStrided(Infer& in) { strided(in, in.ints(1), in.ints(2), readOptions(in, 3, in.tensor(0))); }

void newFull(Infer& in) {
  Options options = readOptions(in, 3, in.tensor(0));
  requireFits(in, 2, options.dtype);
  fresh(in, in.ints(1), options);
}

void like(Infer& in) {
  const TensorType& self = in.tensor(0);
  freshLike(in, self, readOptions(in, 1, self), in.memoryFormat(isOut(in) ? 1 : 5));
}

void fullLike(Infer& in) {
  const TensorType& self = in.tensor(0);
  Options options = readOptions(in, 2, self);
  requireFits(in, 1, options.dtype);
  freshLike(in, self, options, in.memoryFormat(isOut(in) ? 2 : 6));
}

void eye(Infer& in) {
  bool square = in.op().parsed.arguments[1].name != "m";
  Dims sizes = {in.integer(0), in.integer(square ? 0 : 1)};
  Options options = readOptions(in, square ? 1 : 2);
  DType dtype = options.dtype;
  if (dtype == DType::Complex32 || (ir::isIntegral(dtype, false) && dtype >= DType::UInt16)) {
    refuse("eye is not implemented for " + std::string(ir::name(dtype)));
  }
  fresh(in, sizes, options);
}

}  // namespace

void addFactories(Rows& rows) {
  auto add = [&](const char* schema, InferFn rule) { addWithOut(rows, schema, rule, Cost::Fill); };
  rows.push_back(
      {"aten::empty.memory_format(SymInt[] size, *, " SAKER_OPTIONS SAKER_FORMAT ") -> Tensor", empty, Cost::Fill});
  rows.push_back({"aten::empty.out(SymInt[] size, *, MemoryFormat? memory_format=None, Tensor(a!) out) -> Tensor(a!)",
                  empty, Cost::Fill});
  add("aten::empty_strided(SymInt[] size, SymInt[] stride, *, " SAKER_OPTIONS ") -> Tensor", emptyStrided);
  add("aten::empty_permuted(SymInt[] size, int[] physical_layout, *, " SAKER_OPTIONS ") -> Tensor", emptyPermuted);
  add("aten::zeros(SymInt[] size, *, " SAKER_OPTIONS ") -> Tensor", filled);
  add("aten::ones(SymInt[] size, *, " SAKER_OPTIONS ") -> Tensor", ones);
  add("aten::full(SymInt[] size, Scalar fill_value, *, " SAKER_OPTIONS ") -> Tensor", full);
  add("aten::scalar_tensor(Scalar s, *, " SAKER_OPTIONS ") -> Tensor", scalarTensor);
  add("aten::eye(SymInt n, *, " SAKER_OPTIONS ") -> Tensor", eye);
  add("aten::eye.m(SymInt n, SymInt m, *, " SAKER_OPTIONS ") -> Tensor", eye);
  for (const char* name : {"new_empty", "new_zeros", "new_ones"}) {
    addWithOut(rows, std::string("aten::") + name + "(Tensor self, SymInt[] size, *, " SAKER_OPTIONS ") -> Tensor",
               newLike, Cost::Fill);
  }
  add("aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, " SAKER_OPTIONS ") -> Tensor", newFull);
  add("aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, " SAKER_OPTIONS ") -> Tensor",
      newStrided);
  for (const char* name : {"empty_like", "zeros_like", "ones_like"}) {
    addWithOut(rows, std::string("aten::") + name + "(Tensor self, *, " SAKER_OPTIONS SAKER_FORMAT ") -> Tensor", like,
               Cost::Fill);
  }
  add("aten::full_like(Tensor self, Scalar fill_value, *, " SAKER_OPTIONS SAKER_FORMAT ") -> Tensor", fullLike);
}

}  // namespace saker::ops
