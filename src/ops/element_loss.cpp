// What one element is: losses, which are sums or means of what they are element by element, and their derivatives.
#include "ops/element.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

enum class Taken : int64_t { Each = 0, Mean = 1, Sum = 2 };

Taken taken(const Infer& in, size_t argument) { return static_cast<Taken>(in.fixed(argument, 1)); }

// Along all of `tensor`, unless each element is a result.
template <size_t tensor, size_t argument>
std::optional<Along> alongAll(const Infer& in, size_t) {
  if (taken(in, argument) == Taken::Each) return std::nullopt;
  const TensorType& all = in.tensor(tensor);
  return Along{&all, allDims(all.rank)};
}

Int countOf(const TensorType& tensor) { return ir::numel(tensor.sizes()); }

void requireSame(const Infer& in, size_t i, size_t j) {
  const TensorType &a = in.tensor(i), &b = in.tensor(j);
  bool same = a.rank == b.rank && a.dtype == b.dtype;
  for (size_t d = 0; same && d < a.rank; ++d)
    same = a.size(d).same(b.size(d)) || (a.size(d) == b.size(d)).provablyTrue();
  if (!same) notLowered("tensors of different sizes or dtypes");
  if (!ir::isFloat(a.dtype)) notLowered("a loss of integers");
}

// Input and target at the element, or where the loop is.
struct Pair {
  Element& e;
  Taken how;
  Places places;
  DType dtype = e.in.tensor(0).dtype;

  Pair(Element& element, size_t argument) : e(element), how(taken(element.in, argument)) {
    requireSame(e.in, 0, 1);
    const TensorType& all = e.in.tensor(0);
    places = how == Taken::Each ? e.places() : e.inside(all, allDims(all.rank), {});
  }
  Num at(size_t i) { return e.rounded(e.at(i, places), e.in.tensor(i).dtype); }
  // Broadcast over the element.
  Num broadcast(size_t i) {
    const TensorType& tensor = e.in.tensor(i);
    return e.rounded(e.at(i, placesInBroadcast(tensor, e.in.tensor(0).sizes(), places)), tensor.dtype);
  }
  // Where eager mode rounds between the steps of a loss; its kernels for f16 and bf16 are not alike.
  Num step(Num number) { return e.rounded(number, dtype); }
  Num constant(double number) { return e.rounded(e.constant(computed(dtype), number), dtype); }
  Num overall(Num loss) {
    if (how == Taken::Each) return loss;
    Num sum = e.reduce(Reduction::Sum, e.rounded(loss, dtype));
    return how == Taken::Sum ? sum : sum / e.convert(e.number(Place(countOf(e.in.tensor(0)))), sum.dtype);
  }
};

// (self, target, reduction)
Num squared(Element& e) {
  Pair pair(e, 2);
  Num off = pair.step(pair.at(0) - pair.at(1));
  return pair.overall(off * off);
}

// (self, target, reduction, beta)
Num smooth(Element& e) {
  Pair pair(e, 2);
  double beta = e.in.number(3, 1);
  if (beta == 0) notLowered("smooth_l1_loss of beta 0");
  Num z = abs(pair.at(0) - pair.at(1));
  if (pair.dtype != DType::Float16) return pair.overall(select(z < beta, 0.5 * z * z / beta, z - 0.5 * beta));
  z = pair.step(z);
  Num inner = pair.step(pair.step(0.5 * z) * z) / pair.constant(beta);
  return pair.overall(select(z < pair.constant(beta), inner, z - pair.step(0.5 * pair.constant(beta))));
}

// (self, target, reduction, delta)
Num huber(Element& e) {
  Pair pair(e, 2);
  double delta = e.in.number(3, 1);
  Num z = abs(pair.at(0) - pair.at(1));
  if (pair.dtype != DType::BFloat16) return pair.overall(select(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta)));
  z = pair.step(z);
  Num bound = pair.constant(delta);
  return pair.overall(select(z <= bound, pair.step(0.5 * z) * z, bound * pair.step(z - pair.step(0.5 * bound))));
}

// (self, target, weight, reduction): eager mode raises where the input is no probability
Num crossEntropy(Element& e) {
  Pair pair(e, 3);
  Num x = pair.at(0), t = pair.at(1);
  e.check((x >= 0) & (x <= 1));
  Num ofZero = pair.step(pair.step(t - 1) * max(pair.step(log1p(-x)), -100));
  Num loss = pair.step(ofZero - pair.step(t * max(pair.step(log(x)), -100)));
  if (e.in.given(2)) loss = loss * pair.broadcast(2);
  return pair.overall(loss);
}

// (self, target, weight, pos_weight, reduction): several operators in eager mode, each of which rounds
Num crossEntropyOfLogits(Element& e) {
  Pair pair(e, 4);
  auto step = [&](Num number) { return pair.step(number); };
  Num x = pair.at(0), t = pair.at(1);
  Num logSigmoid = step(min(x, 0) - log1p(exp(-abs(x))));
  if (e.in.given(3)) logSigmoid = step(step(step(step(pair.broadcast(3) - 1) * t) + 1) * logSigmoid);
  Num loss = step(step(step(1 - t) * x) - logSigmoid);
  if (e.in.given(2)) loss = loss * pair.broadcast(2);
  return pair.overall(loss);
}

// ---- derivatives: (grad_output, self, target, ...) ----

struct Backward {
  Element& e;
  Num grad, x, t;
  std::optional<Int> count = std::nullopt;  // of elements, of a mean

  Backward(Element& element, size_t argument) : e(element) {
    requireSame(e.in, 1, 2);
    if (e.in.tensor(0).dtype != e.in.tensor(1).dtype) notLowered("a gradient of another dtype");
    if (computed(e.type().dtype) != e.type().dtype)
      e.onlyNear("half precision that is rounded otherwise at ends of rows");
    grad = e.broadcast(0, e.type().dtype);
    grad = e.rounded(grad, e.type().dtype);
    x = e.x(1);
    t = e.x(2);
    if (taken(e.in, argument) == Taken::Mean) count = countOf(e.in.tensor(1));
  }
  // How much an element counts, so many times.
  Num each(double times = 1) {
    Num number = e.constant(DType::Float64, times);
    if (count) number = number / e.convert(e.number(Place(*count)), DType::Float64);
    return e.convert(number, x.dtype);
  }
  Num step(Num number) { return e.rounded(number, e.type().dtype); }
  Num constant(double number) { return step(e.constant(x.dtype, number)); }
};

Num squaredBackward(Element& e) {
  Backward b(e, 3);
  return b.step(b.step(b.each(2)) * b.step(b.x - b.t)) * b.grad;
}

// (..., reduction, beta)
Num smoothBackward(Element& e) {
  Backward b(e, 3);
  double beta = e.in.number(4, 1);
  if (beta == 0) notLowered("smooth_l1_loss of beta 0");
  Num off = b.x - b.t;
  Num each = b.each(), inner = each * (off / beta) * b.grad;
  return select(off <= -beta, -(each * b.grad), select(off >= beta, each * b.grad, inner));
}

// (..., reduction, delta)
Num huberBackward(Element& e) {
  Backward b(e, 3);
  double delta = e.in.number(4, 1);
  Num off = b.step(b.x - b.t), each = b.step(b.each()), bound = b.constant(delta);
  Num outer = b.step(each * bound) * b.grad, inner = b.step(each * off) * b.grad;
  return select(off <= -bound, -outer, select(off >= bound, outer, inner));
}

// (..., weight, reduction)
Num crossEntropyBackward(Element& e) {
  Backward b(e, 4);
  Num below = max(b.step(b.step(1 - b.x) * b.x), 1e-12);
  Num slope = b.step(b.grad * b.step(b.x - b.t)) / below;
  if (e.in.given(3)) slope = e.rounded(slope, e.type().dtype) * e.operand(3, e.type().dtype);
  return b.count ? b.step(slope) / e.convert(e.number(Place(*b.count)), slope.dtype) : slope;
}

// ---- classes ----

// (self, target, weight, reduction, ignore_index): self has the classes in dimension 1, target is the same without
std::optional<Along> alongTargets(const Infer& in, size_t) {
  const TensorType& target = in.tensor(1);
  return Along{&target, allDims(target.rank)};
}

struct Class {
  Num target, counts, weight;
};
// `at`: the place of the target.
Class classAt(Element& e, size_t self, size_t target, size_t weight, size_t ignored, const Places& at) {
  const TensorType& x = e.in.tensor(self);
  if (x.rank < 2) notLowered("a loss of one example without a batch");
  if (x.dtype != DType::Float32 && x.dtype != DType::Float64) notLowered("classes in half precision");
  Num index = e.convert(e.at(target, at), DType::Int64);
  Num counts = index != e.number(Place(e.in.integer(ignored)));
  Num within = (index >= 0) & (index < e.number(Place(x.size(1))));
  e.check((!counts) | within);
  counts = counts & within;
  Num own = e.constant(x.dtype, 1);
  if (e.in.given(weight)) {
    own = e.where(counts, [&] { return e.at(weight, {e.place(index)}); }, e.constant(x.dtype, 0));
  }
  return {index, counts, own};
}

Num classes(Element& e) {
  if (taken(e.in, 3) == Taken::Each) notLowered("losses one by one");
  const TensorType& target = e.in.tensor(1);
  Places at = e.inside(target, allDims(target.rank), {});
  Class one = classAt(e, 0, 1, 2, 4, at);
  Num zero = e.constant(one.weight.dtype, 0);
  Num total = e.reduce(Reduction::Sum, select(one.counts, one.weight, zero));
  if (e.result == 1) return total;
  at.insert(at.begin() + 1, e.place(one.target));
  Num loss = e.where(one.counts, [&] { return -e.at(0, at) * one.weight; }, zero);
  Num sum = e.reduce(Reduction::Sum, loss);
  return taken(e.in, 3) == Taken::Mean ? sum / total : sum;
}

// (grad_output, self, target, weight, reduction, ignore_index, total_weight)
Num classesBackward(Element& e) {
  Places at = e.places();
  if (at.size() < 2) notLowered("a loss of one example without a batch");
  Place own = at[1];
  at.erase(at.begin() + 1);
  Class one = classAt(e, 1, 2, 3, 5, at);
  Taken how = taken(e.in, 4);
  Num grad = e.at(0, how == Taken::Each ? at : Places());
  if (how == Taken::Mean) grad = grad / e.at(6, {});
  Num here = one.counts & (one.target == e.number(own));
  return select(here, -(one.weight * grad), 0);
}

}  // namespace

void addLossElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule, AlongFn along = nullptr) {
    rows.push_back({std::string("aten::") + name, rule, along});
  };
  add("mse_loss", squared, alongAll<0, 2>);
  add("smooth_l1_loss", smooth, alongAll<0, 2>);
  add("huber_loss", huber, alongAll<0, 2>);
  add("binary_cross_entropy", crossEntropy, alongAll<0, 3>);
  add("binary_cross_entropy_with_logits", crossEntropyOfLogits, alongAll<0, 4>);
  add("mse_loss_backward", squaredBackward);
  add("smooth_l1_loss_backward", smoothBackward);
  add("huber_loss_backward", huberBackward);
  add("binary_cross_entropy_backward", crossEntropyBackward);
  for (const char* name : {"nll_loss_forward", "nll_loss2d_forward"}) add(name, classes, alongTargets);
  for (const char* name : {"nll_loss_backward", "nll_loss2d_backward"}) add(name, classesBackward);
}

}  // namespace saker::ops
