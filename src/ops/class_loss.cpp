// Losses over classes: negative log likelihood, margins, connectionist temporal classification.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

constexpr int64_t kUnreduced = 0;

void requireSame(const TensorType& self, const TensorType* other, const char* what) {
  if (other && other->dtype != self.dtype) refuse(std::string(what) + " is not of the input's dtype");
}

// A tensor of one element, whatever its rank.
void requireSingle(const TensorType& t, const char* what) {
  for (Int size : t.sizes()) {
    if (size != Int(1)) refuse(std::string(what) + " must be a single element");
  }
}

void requireClasses(const TensorType* weight, Int classes) {
  if (weight && (weight->rank != 1 || weight->size(0) != classes)) refuse("a weight for each class");
}

// (self, target, weight): a class for each of `rows`, or one for a single row.
void checkNll(const Infer& in, const TensorType& self, const TensorType& target, const TensorType* weight, Int rows) {
  if (self.rank < 1 || self.rank > 2) refuse("nll_loss: the input is (N, C) or (C)");
  if (target.rank > 1) refuse("nll_loss: the target is a class for each row");
  bool single = self.rank == 1 && target.rank == 0;
  if (!single && (target.rank != 1 || target.size(0) != rows))
    refuse("nll_loss: the target is not of the batch's size");
  if (target.dtype != DType::Int64 && target.dtype != DType::UInt8) refuse("nll_loss: classes are int64 or uint8");
  require(in, kFloats, self.dtype);
  requireClasses(weight, self.size(self.rank - 1));
  requireSame(self, weight, "nll_loss: the weight");
}

// (self, target, weight, reduction, ignore_index)
void nllForward(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType& target = in.tensor(1);
  checkNll(in, self, target, in.optionalTensor(2), self.rank == 2 ? self.size(0) : Int(1));
  bool perRow = in.fixed(3) == kUnreduced && self.rank == 2;
  in.contiguous(perRow ? Dims{self.size(0)} : Dims{}, self);
  in.contiguous({}, self);
}

// (grad_output, self, target, weight, reduction, ignore_index, total_weight)
void nllBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  const TensorType& self = in.tensor(1);
  checkNll(in, self, in.tensor(2), in.optionalTensor(3), self.rank > 0 ? self.size(0) : Int(1));
  requireSame(self, &grad, "nll_loss: the gradient");
  requireSingle(in.tensor(6), "nll_loss: the total weight");
  if (in.fixed(4) == kUnreduced && self.rank == 2) {
    if (grad.rank != 1 || grad.size(0) != self.size(0)) refuse("nll_loss: the gradient is not of the loss's shape");
  } else {
    requireSingle(grad, "nll_loss: the gradient");
  }
  in.contiguous(self.sizes(), self);
}

void checkNll2d(const Infer& in, const TensorType& self, const TensorType& target, const TensorType* weight) {
  if (target.rank != 3) refuse("nll_loss2d: the target is (N, H, W)");
  if (self.rank != 4) refuse("nll_loss2d: the input is (N, C, H, W)");
  if (self.size(0) != target.size(0) || self.size(2) != target.size(1) || self.size(3) != target.size(2)) {
    refuse("nll_loss2d: the target is not of the input's shape");
  }
  if (target.dtype != DType::Int64 && (target.dtype != DType::UInt8 || self.device.type == DeviceType::CPU)) {
    refuse("nll_loss2d: classes are int64");
  }
  if (weight && numel(*weight) != self.size(1)) refuse("nll_loss2d: a weight for each class");
  require(in, kFloats, self.dtype);
  requireSame(self, weight, "nll_loss2d: the weight");
}

void nll2dForward(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType& target = in.tensor(1);
  checkNll2d(in, self, target, in.optionalTensor(2));
  in.contiguous(in.fixed(3) == kUnreduced ? Dims(target.sizes()) : Dims{}, self);
  in.contiguous({}, self);
}

void nll2dBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  const TensorType& self = in.tensor(1);
  const TensorType& target = in.tensor(2);
  checkNll2d(in, self, target, in.optionalTensor(3));
  requireSame(self, &grad, "nll_loss2d: the gradient");
  if (in.fixed(4) == kUnreduced) {
    if (!sameSizes(grad.sizes(), target.sizes())) refuse("nll_loss2d: the gradient is not of the loss's shape");
  } else {
    requireSingle(grad, "nll_loss2d: the gradient");
  }
  TensorSpec spec;
  spec.dtype = self.dtype;
  spec.device = self.device;
  spec.sizes = Dims(self.sizes());
  spec.strides = denseStridesLike(self);
  const TensorType* result = in.context().types().tensor(spec);
  if (!isContiguous(*result)) refuse("nll_loss2d: the gradient is computed for row-major inputs only");
  in.result(*result);
}

// Margins take a vector or a matrix, whose batch may be empty.
void requireRows(const TensorType& self) {
  bool vector = self.rank == 0 || (self.rank == 1 && self.size(0) != Int(0));
  bool matrix = self.rank == 2 && self.size(1) != Int(0);
  if (!vector && !matrix) refuse("a margin loss takes a vector or a matrix");
}

Int rowsOf(const TensorType& self) { return self.rank == 2 ? self.size(0) : Int(1); }
Int classesOf(const TensorType& self) { return self.rank == 0 ? Int(1) : self.size(self.rank - 1); }

// (self, target, p, margin, weight, reduction), from `self` on
void checkMultiMargin(const Infer& in, size_t first) {
  const TensorType& self = in.tensor(first);
  const TensorType& target = in.tensor(first + 1);
  const TensorType* weight = in.optionalTensor(first + 4);
  Scalar p = in.scalar(first + 2);
  if (p.known && p.number != 1 && p.number != 2) refuse("multi_margin_loss: p is 1 or 2");
  requireRows(self);
  if (target.rank > 1 || numel(target) != rowsOf(self)) refuse("multi_margin_loss: a class for each row");
  if (weight && (weight->rank > 1 || numel(*weight) != classesOf(self)))
    refuse("multi_margin_loss: a weight for each class");
  if (self.device.type != DeviceType::CPU) return require(in, kFloats, self.dtype);
  require(in, kFull, self.dtype);
  if (target.dtype != DType::Int64) refuse("multi_margin_loss: classes are int64");
  requireSame(self, weight, "multi_margin_loss: the weight");
}

void multiMargin(Infer& in) {
  checkMultiMargin(in, 0);
  const TensorType& self = in.tensor(0);
  bool unreduced = in.fixed(5, 1) == kUnreduced;
  in.contiguous(unreduced ? Dims(in.tensor(1).sizes()) : Dims{}, self);
}

// (grad_output, self, target, p, margin, weight, reduction)
void multiMarginBackward(Infer& in) {
  checkMultiMargin(in, 1);
  const TensorType& self = in.tensor(1);
  requireSame(self, &in.tensor(0), "multi_margin_loss: the gradient");
  in.contiguous(self.sizes(), self);
}

void checkMultilabel(const Infer& in, const TensorType& self, const TensorType& target) {
  requireRows(self);
  if (!sameSizes(self.sizes(), target.sizes())) {
    if (self.rank > 1 || target.rank > 1 || numel(self) != numel(target)) refuse("a target of another shape");
  }
  if (self.device.type != DeviceType::CPU) return require(in, kFloats, self.dtype);
  require(in, kFull, self.dtype);
  if (target.dtype != DType::Int64) refuse("multilabel_margin_loss: classes are int64");
}

// (self, target, reduction)
void multilabelForward(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType& target = in.tensor(1);
  checkMultilabel(in, self, target);
  bool perRow = in.fixed(2) == kUnreduced && self.rank == 2;
  in.contiguous(perRow ? Dims{self.size(0)} : Dims{}, self);
  in.contiguous(target.sizes(), self);
}

// (grad_output, self, target, reduction, is_target)
void multilabelBackward(Infer& in) {
  const TensorType& self = in.tensor(1);
  const TensorType& target = in.tensor(2);
  checkMultilabel(in, self, target);
  requireSame(self, &in.tensor(0), "multilabel_margin_loss: the gradient");
  requireSame(self, &in.tensor(4), "multilabel_margin_loss: is_target");
  if (!sameSizes(in.tensor(4).sizes(), target.sizes())) refuse("multilabel_margin_loss: is_target is of another shape");
  in.contiguous(self.sizes(), self);
}

void requireTimes(const TensorType& logProbs, const TensorType& targets) {
  if (logProbs.rank != 3) refuse("ctc_loss: log probabilities are (T, N, C)");
  if (targets.dtype != DType::Int64 && targets.dtype != DType::Int32) refuse("ctc_loss: targets are int32 or int64");
  bool cpu = logProbs.device.type == DeviceType::CPU;
  if (cpu && logProbs.dtype != DType::Float32 && logProbs.dtype != DType::Float64)
    refuse("ctc_loss: float32 or float64");
}

// (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
void ctc(Infer& in) {
  const TensorType& logProbs = in.tensor(0);
  const TensorType& targets = in.tensor(1);
  requireTimes(logProbs, targets);
  Int batch = logProbs.size(1);
  Dims times = in.ints(2), lengths = in.ints(3);
  if (Int(times.size()) != batch || Int(lengths.size()) != batch) refuse("ctc_loss: a length for each sample");
  Int blank = in.integer(4, 0);
  if (blank < Int(0) || blank >= logProbs.size(2)) refuse("ctc_loss: the blank is no label");
  Int longest = 0, total = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < Int(0)) refuse("ctc_loss: a negative length");
    if (times[i] < Int(0) || times[i] > logProbs.size(0)) refuse("ctc_loss: an input is longer than the probabilities");
    longest = max(longest, lengths[i]);
    total += lengths[i];
  }
  if (targets.rank == 1 ? targets.size(0) != total
                        : targets.rank != 2 || targets.size(0) != batch || targets.size(1) < longest) {
    refuse("ctc_loss: targets are not of the lengths given");
  }
  in.contiguous(Dims{batch}, logProbs);
  in.contiguous(Dims{batch, logProbs.size(0), longest * Int(2) + Int(1)}, logProbs);
}

// (grad, log_probs, targets, ...)
void ctcBackward(Infer& in) {
  const TensorType& logProbs = in.tensor(1);
  requireTimes(logProbs, in.tensor(2));
  in.contiguous(logProbs.sizes(), logProbs);
}

}  // namespace

void addLosses(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Reduction, traits});
  };
  for (bool twoD : {false, true}) {
    std::string name = twoD ? "nll_loss2d" : "nll_loss";
    std::string forward = "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index";
    std::string backward =
        "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index,"
        " Tensor total_weight";
    InferFn rule = twoD ? nll2dForward : nllForward, reverse = twoD ? nll2dBackward : nllBackward;
    add(name + "_forward" + forward + ") -> (Tensor output, Tensor total_weight)", rule, kFailsOnData);
    add(name + "_forward.output" + forward +
            ", *, Tensor(a!) output, Tensor(b!) total_weight) -> (Tensor(a!), Tensor(b!))",
        rule, kFailsOnData | kExactOut);
    add(name + "_backward" + backward + ") -> Tensor", reverse, kFailsOnData);
    add(name + "_backward.grad_input" + backward + ", *, Tensor(a!) grad_input) -> Tensor(a!)", reverse,
        kFailsOnData | kExactOut);
  }
  add("multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1)"
      " -> Tensor",
      multiMargin, kFailsOnData);
  add("multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin,"
      " Tensor? weight=None, int reduction=1) -> Tensor",
      multiMarginBackward, kFailsOnData);
  add("multi_margin_loss.out(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None,"
      " int reduction=1, *, Tensor(a!) out) -> Tensor(a!)",
      multiMargin, kFailsOnData | kExactOut);
  add("multi_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin,"
      " Tensor? weight=None, int reduction=1, *, Tensor(a!) grad_input) -> Tensor(a!)",
      multiMarginBackward, kFailsOnData | kExactOut);
  add("multilabel_margin_loss_forward.output(Tensor self, Tensor target, int reduction, *, Tensor(a!) output,"
      " Tensor(b!) is_target) -> (Tensor(a!), Tensor(b!))",
      multilabelForward, kFailsOnData | kExactOut);
  add("multilabel_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, int reduction,"
      " Tensor is_target, *, Tensor(a!) grad_input) -> Tensor(a!)",
      multilabelBackward, kFailsOnData | kExactOut);
  add("multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)",
      multilabelForward, kFailsOnData);
  add("multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, Tensor is_target)"
      " -> Tensor",
      multilabelBackward, kFailsOnData);
  add("_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0,"
      " bool zero_infinity=False) -> (Tensor, Tensor)",
      ctc, kFailsOnData);
  add("_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths,"
      " Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
      ctcBackward, kFailsOnData);
  add("_ctc_loss_backward.Tensor(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths,"
      " Tensor target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False)"
      " -> Tensor",
      ctcBackward, kFailsOnData);
}

}  // namespace saker::ops
