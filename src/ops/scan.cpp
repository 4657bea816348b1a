// Cumulative operators along a dimension.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

// (self, dim, *, dtype)
void accumulate(Infer& in) {
  const TensorType& self = in.tensor(0);
  wrapDim(in.fixed(1), self.rank);
  std::optional<DType> given = in.dtype(2);
  DType dtype = ir::isIntegral(self.dtype, true) ? DType::Int64 : self.dtype;
  if (given) {
    dtype = *given;
  } else if (in.op().variant == Variant::Inplace) {
    dtype = self.dtype;
  } else if (std::optional<DType> out = outDType(in)) {
    dtype = *out;
  }
  if (in.op().variant == Variant::Inplace && dtype != self.dtype)
    refuse("a cumulative operator in place keeps the dtype");
  // There is no kernel to choose for no elements or for one.
  if (!accepts(kNumbers, dtype) && self.rank > 0 && !isEmpty(self)) require(in, kNumbers, dtype);
  in.contiguous(self.sizes(), dtype, self.device);
}

template <uint16_t accepted>
void accumulateSame(Infer& in) {
  const TensorType& self = in.tensor(0);
  wrapDim(in.fixed(1), self.rank);
  require(in, accepted, self.dtype);
  in.contiguous(self.sizes(), self);
}

void extremeSoFar(Infer& in) {
  accumulateSame<kBool | kReal>(in);
  const TensorType& self = in.tensor(0);
  in.contiguous(self.sizes(), DType::Int64, self.device);
}

// (self, values!, indices!, dim) -> ()
void extremeSoFarInto(Infer& in) { in.tensor(0); }

}  // namespace

void addScans(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Scan, traits});
  };
  for (std::string name : {"cumsum", "cumprod"}) {
    add(name + "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", accumulate);
    add(name + "_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)", accumulate);
    add(name + ".out(Tensor self, int dim, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)", accumulate,
        kExactOut);
  }
  for (std::string name : {"logcumsumexp", "_logcumsumexp"}) {
    add(name + "(Tensor self, int dim) -> Tensor", accumulateSame<kFloating>);
    add(name + ".out(Tensor self, int dim, *, Tensor(a!) out) -> Tensor(a!)", accumulateSame<kFloating>, kExactOut);
  }
  for (std::string name : {"cummax", "cummin"}) {
    add(name + "(Tensor self, int dim) -> (Tensor values, Tensor indices)", extremeSoFar);
    add(name +
            ".out(Tensor self, int dim, *, Tensor(a!) values, Tensor(b!) indices)"
            " -> (Tensor(a!) values, Tensor(b!) indices)",
        extremeSoFar, kExactOut);
    add("_" + name + "_helper(Tensor self, Tensor(a!) values, Tensor(b!) indices, int dim) -> ()", extremeSoFarInto);
  }
}

}  // namespace saker::ops
