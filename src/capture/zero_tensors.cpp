#include "capture/zero_tensors.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "capture/run_now.h"

namespace saker::tracing {

namespace {

bool makesView(const Entry* entry) {
  if (!entry || entry->op->writes || entry->op->resultAlias.empty()) return false;
  const std::vector<int8_t>& alias = entry->op->resultAlias;
  return std::all_of(alias.begin(), alias.end(), [](int8_t argument) { return argument >= 0; });
}

at::Tensor withMemory(const at::Tensor& tensor) {
  if (!isZeroTensor(tensor)) return tensor;
  return at::zeros({}, tensor.options()).expand_symint(tensor.sym_sizes());
}

c10::IValue withMemory(const c10::IValue& value) {
  if (value.isTensor()) return withMemory(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> made;
  for (const at::Tensor& each : value.toTensorVector()) made.push_back(withMemory(each));
  return made;
}

// An operator of two tensors, one of which is zero.
class ZeroArithmetic {
 public:
  ZeroArithmetic(const at::Tensor& self, const at::Tensor& other)
      : self_(self),
        other_(other),
        sizes_(at::infer_size_symdimvector(self.sym_sizes(), other.sym_sizes())),
        options_(self.options().dtype(at::result_type(self, other))) {}

  at::Tensor zeros() const { return at::_efficientzerotensor_symint(sizes_, options_); }
  at::Tensor sum(const at::Scalar& alpha) const {
    if (!isZeroTensor(self_)) return copied(self_);
    if (isZeroTensor(other_)) return zeros();
    at::Tensor made = copied(other_);
    return alpha.equal(1) ? made : made.mul(alpha);
  }

 private:
  at::Tensor copied(const at::Tensor& tensor) const {
    return at::_to_copy(tensor.expand_symint(sizes_), at::TensorOptions().dtype(options_.dtype()));
  }

  const at::Tensor &self_, &other_;
  c10::SymDimVector sizes_;
  at::TensorOptions options_;
};

at::Scalar negated(const at::Scalar& number) { return -number; }

// What eager mode does apart from the others. Nothing: it takes zeros with memory.
std::optional<at::Tensor> special(const Call& call) {
  std::string name = nameOf(call.op);
  if (name == "aten::mul.Scalar") {
    const at::Tensor& self = call.values[0].toTensor();
    at::ScalarType type = at::result_type(self, call.values[1].toScalar());
    return at::_efficientzerotensor_symint(self.sym_sizes(), self.options().dtype(type));
  }
  bool sum = name == "aten::add.Tensor", difference = name == "aten::sub.Tensor";
  bool product = name == "aten::mul.Tensor", quotient = name == "aten::div.Tensor";
  if (!sum && !difference && !product && !quotient) return std::nullopt;
  ZeroArithmetic arithmetic(call.values[0].toTensor(), call.values[1].toTensor());
  if (sum) return arithmetic.sum(call.values[2].toScalar());
  if (difference) return arithmetic.sum(negated(call.values[2].toScalar()));
  return arithmetic.zeros();
}

// A quotient by such zeros, and operators whose kernels know them.
bool isRefused(const Call& call) {
  std::string name = nameOf(call.op);
  if (name == "aten::div.Tensor") {
    const at::Tensor &self = call.values[0].toTensor(), &other = call.values[1].toTensor();
    return isZeroTensor(other) || at::isIntegralType(at::result_type(self, other), /*includeBool=*/true);
  }
  return name == "aten::add.Scalar" || name == "aten::dot" || name == "aten::vdot" || name == "aten::linalg_cross";
}

}  // namespace

bool makesZeroTensor(const Call& call) { return call.op.operator_name().name == "aten::_efficientzerotensor"; }

bool isZeroTensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  TraceStorage* storage = traceStorage(*tensor.unsafeGetTensorImpl());
  return storage && storage->isZero();
}

void markZeroTensor(const at::Tensor& made) {
  if (TraceStorage* storage = traceStorage(*made.unsafeGetTensorImpl())) storage->setZero();
}

bool recordWithZeros(Trace& trace, const Call& call, const Entry* entry) {
  bool any = false;
  eachTensor(call.values, [&](const at::Tensor& each) { any |= isZeroTensor(each); });
  if (!any || makesView(entry)) return false;
  bool written = false;
  eachCounted(call, [&](const at::Tensor& each) { written |= isZeroTensor(each); });
  if (written || isRefused(call)) {
    refuse(trace, call, {ops::Reason::Unsupported, "it is given zeros without memory, which are a tangent"});
  }
  // As where the call came from, but below autograd: what is called now is recorded, without tensors too.
  constexpr c10::DispatchKeySet kAbove =
      c10::DispatchKeySet(c10::DispatchKeySet::FULL) - aten::kBelowTrace - aten::kResolving - aten::kTraceKeys;
  c10::impl::ForceDispatchKeyGuard below(call.surroundings.included_ - kAbove, call.surroundings.excluded_ | kAbove);
  torch::jit::Stack stack;
  if (std::optional<at::Tensor> made = special(call)) {
    stack.emplace_back(*made);
  } else {
    for (const c10::IValue& value : call.values) stack.push_back(withMemory(value));
    call.op.callBoxed(&stack);
  }
  call.replaceWith(std::move(stack));
  return true;
}

}  // namespace saker::tracing
