// What one element is: activations and their derivatives, as the CPU computes them.
#include <limits>
#include <numbers>

#include "ops/element.h"
#include "ops/element_bounds.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

// Operands in the dtype of the result.
Num own(Element& e, size_t i = 0) { return e.operand(i, e.type().dtype); }

constexpr const char* kOfNan = "what eager mode gives for nan at the ends of rows";

Num sigmoidOf(Num x) { return 1 / (1 + exp(-x)); }

Num relu(Element& e) {
  Num x = own(e);
  return max(0, x);
}

Num silu(Element& e) {
  Num x = own(e);
  return x / (1 + exp(-x));
}

// (grad, self)
Num siluBackward(Element& e) {
  Num grad = own(e), x = own(e, 1), s = sigmoidOf(x);
  return grad * s * fma(x, 1 - s, e.constant(x.dtype, 1));
}

bool isTanh(const Element& e, size_t i) { return e.in.given(i) && e.in.string(i) == "tanh"; }

constexpr double kBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * 2 * 0.5;
constexpr double kKappa = 0.044715;

bool surelyContiguous(const TensorType& type) {
  ir::Dims dense = ir::contiguousStrides(type.sizes());
  for (size_t d = 0; d < type.rank; ++d) {
    if (!surelyOne(type.size(d)) && !dense[d].same(type.stride(d))) return false;
  }
  return true;
}

// Does eager mode give this to oneDNN?
bool byOneDnn(const Element& e) {
  const ir::Ambient& ambient = e.in.context().ambient();
  DType dtype = e.type().dtype;
  bool takes = dtype == DType::Float32 || (dtype == DType::BFloat16 && ambient.oneDnnTakesBFloat16) ||
               (dtype == DType::Float16 && ambient.oneDnnTakesHalf);
  return takes && surelyContiguous(e.in.tensor(0)) && !ir::numel(e.type().sizes()).isConst(1);
}

// (self, approximate). oneDNN doubles before it halves, and gives nan for infinity.
Num gelu(Element& e) {
  Num x = own(e);
  if (isTanh(e, 1)) return 0.5 * x * (1 + tanh(kBeta * (x + kKappa * (x * x * x))));
  bool library = byOneDnn(e);
  DType rounded = e.type().dtype == DType::Float16 && !library ? DType::Float16 : x.dtype;
  Num both = 1 + erfAs(rounded, x * (1 / std::numbers::sqrt2));
  if (!library) return x * 0.5 * both;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return select(abs(x) == kInfinity, std::numeric_limits<double>::quiet_NaN(), x * both * 0.5);
}

// (grad, self, approximate)
Num geluBackward(Element& e) {
  Num grad = own(e), x = own(e, 1);
  if (isTanh(e, 2)) {
    Num inner = kBeta * (x + kKappa * (x * x * x)), t = tanh(inner);
    Num left = 0.5 * x, right = 1 + t;
    Num slope = kBeta * (1 + 3 * kKappa * (x * x));
    return grad * (0.5 * right + left * (1 - t * t) * slope);
  }
  constexpr double kDensity = 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  Num cdf = 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2)));
  Num pdf = kDensity * exp(x * x * -0.5);
  return grad * (cdf + x * pdf);
}

// (grad_output, output)
Num sigmoidBackward(Element& e) {
  Num grad = own(e), y = own(e, 1);
  bool isHalf = e.type().dtype == DType::Float16;  // rounded step by step
  auto step = [&](Num number) { return isHalf ? e.rounded(number, DType::Float16) : number; };
  return step(grad * step(1 - y)) * y;
}

Num tanhBackward(Element& e) {
  Num grad = own(e), y = own(e, 1);
  return grad * fma(-y, y, e.constant(y.dtype, 1));
}

// (grad_output, self, threshold)
Num thresholdBackward(Element& e) {
  Num grad = own(e), x = own(e, 1);
  return select(x <= e.scalar(2, x), 0, grad);
}

// (self, threshold, value)
Num threshold(Element& e) {
  Num x = own(e);
  return select(x <= e.scalar(1, x), e.scalar(2, x), x);
}

Num leakyRelu(Element& e) {
  Num x = own(e);
  return select(x > 0, x, x * e.scalar(1, x));
}

// (grad_output, self, negative_slope, self_is_result)
Num leakyReluBackward(Element& e) {
  Num grad = own(e), x = own(e, 1);
  return select(x > 0, grad, grad * e.scalar(2, x));
}

// (self, min_val, max_val)
Num hardtanh(Element& e) {
  for (size_t i : {1, 2}) requireBound(e.in, i, e.type().dtype);
  Num x = own(e);
  return min(e.scalar(2, x), max(e.scalar(1, x), x));
}

// (grad_output, self, min_val, max_val)
Num hardtanhBackward(Element& e) {
  e.onlyNear(kOfNan);
  Num grad = own(e), x = own(e, 1);
  return select((x > e.scalar(2, x)) & (x < e.scalar(3, x)), grad, 0);
}

Num hardsigmoid(Element& e) { return min(max(own(e) + 3, 0), 6) / 6; }

// The sixth is one of f32, whatever the dtype.
Num hardsigmoidBackward(Element& e) {
  Num grad = own(e), x = own(e, 1);
  return select((x > -3) & (x < 3), grad * double{1.0f / 6.0f}, 0);
}

Num hardswish(Element& e) {
  Num x = own(e);
  return x * min(max(x + 3, 0), 6) / 6;
}

Num hardswishBackward(Element& e) {
  e.onlyNear(kOfNan);
  Num grad = own(e), x = own(e, 1);
  return select(x <= -3, 0, select(x >= 3, grad, grad * (x / 3 + 0.5)));
}

// (self, beta, threshold)
Num softplus(Element& e) {
  Num x = own(e), beta = e.scalar(1, x);
  Num scaled = x * beta;
  return select(scaled > e.scalar(2, x), x, log1p(exp(scaled)) / beta);
}

// (grad_output, self, beta, threshold)
Num softplusBackward(Element& e) {
  Num grad = own(e), x = own(e, 1), beta = e.scalar(2, x);
  Num scaled = x * beta, z = exp(scaled);
  return select(scaled > e.scalar(3, x), grad, grad * z / (z + 1));
}

// (self, alpha, scale, input_scale)
Num elu(Element& e) {
  Num x = own(e);
  if (x.dtype != DType::Float32 && x.dtype != DType::Float64) notLowered("elu of this dtype");
  Num negative = expm1(x * e.scalar(3, x)) * (e.scalar(1, x) * e.scalar(2, x));
  return select(x <= 0, negative, x * e.scalar(2, x));
}

// (grad_output, alpha, scale, input_scale, is_result, self_or_result)
Num eluBackward(Element& e) {
  Num grad = own(e), x = own(e, 5);
  if (e.type().dtype != DType::Float32 && e.type().dtype != DType::Float64) notLowered("elu of this dtype");
  Num below = e.scalar(1, x) * e.scalar(2, x), inner = e.scalar(3, x);
  Num negative = e.in.boolean(4) ? grad * inner * (x + below) : grad * inner * below * exp(x * inner);
  return select(x <= 0, negative, grad * e.scalar(2, x));
}

Num mish(Element& e) {
  Num x = own(e);
  return x * tanh(log1p(exp(x)));
}

// (grad_output, self)
Num mishBackward(Element& e) {
  Num grad = own(e), x = own(e, 1);
  Num t = tanh(log1p(exp(x)));
  return grad * (t + x * sigmoidOf(x) * (1 - t * t));
}

// The second result is kept for the backward.
Num logSigmoid(Element& e) {
  Num x = e.operand(0, e.in.tensor(0).dtype), z = exp(-abs(x));
  return e.result == 0 ? min(x, 0) - log1p(z) : z;
}

// (grad_output, self, buffer)
Num logSigmoidBackward(Element& e) {
  Num grad = own(e), x = own(e, 1), z = own(e, 2);
  Num part = z / (1 + z);
  return grad * select(x < 0, 1 - part, part);
}

// (self, weight)
Num prelu(Element& e) {
  Num x = own(e);
  return select(x > 0, x, own(e, 1) * x);
}

// (grad_output, self, weight): of self, and of the weight before it is summed
Num preluBackward(Element& e) {
  Num grad = own(e), x = own(e, 1);
  if (e.result == 0) return select(x > 0, grad, own(e, 2) * grad);
  return select(x > 0, 0, x * grad);
}

}  // namespace

void addActivationElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  add("relu", relu);
  add("silu", silu);
  add("silu_backward", siluBackward);
  add("gelu", gelu);
  add("gelu_backward", geluBackward);
  add("sigmoid_backward", sigmoidBackward);
  add("tanh_backward", tanhBackward);
  add("threshold", threshold);
  add("threshold_backward", thresholdBackward);
  add("leaky_relu", leakyRelu);
  add("leaky_relu_backward", leakyReluBackward);
  add("hardtanh", hardtanh);
  add("hardtanh_backward", hardtanhBackward);
  add("hardsigmoid", hardsigmoid);
  add("hardsigmoid_backward", hardsigmoidBackward);
  add("hardswish", hardswish);
  add("hardswish_backward", hardswishBackward);
  add("softplus", softplus);
  add("softplus_backward", softplusBackward);
  add("elu", elu);
  add("elu_backward", eluBackward);
  add("mish", mish);
  add("mish_backward", mishBackward);
  add("log_sigmoid_forward", logSigmoid);
  add("log_sigmoid_backward", logSigmoidBackward);
  add("_prelu_kernel", prelu);
  add("_prelu_kernel_backward", preluBackward);
}

}  // namespace saker::ops
