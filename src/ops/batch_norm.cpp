// Batch normalisation in its several forms.
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/normalization.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

bool contiguousSomehow(const TensorType& t) {
  return isContiguous(t) || isContiguous(t, MemoryFormat::ChannelsLast) ||
         isContiguous(t, MemoryFormat::ChannelsLast3d);
}

// The format in which t is contiguous, row-major first.
MemoryFormat contiguousFormat(const TensorType& t) {
  if (isContiguous(t)) return MemoryFormat::Contiguous;
  return t.rank == 5 ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
}

bool contiguousOrNone(const TensorType* t) { return !t || isContiguous(*t); }

// The format of a result on the CPU is that of dense inputs, else the one the strides suggest. CUDA keeps all strides.
void resultLike(Infer& in, const TensorType& like, bool dense) {
  if (like.device.type != DeviceType::CPU) return likeResult(in, like, like.dtype);
  MemoryFormat format = dense ? contiguousFormat(like) : suggestMemoryFormat(like);
  in.strided(like.sizes(), stridesIn(like.sizes(), format), like.dtype, like.device);
}

struct Parameters {
  const TensorType* weight = nullptr;
  const TensorType* bias = nullptr;
  const TensorType* mean = nullptr;
  const TensorType* var = nullptr;
};

// An out= form on the CPU: the result is row-major where it is resized, statistics are left alone if not computed.
void forwardInto(Infer& in, const TensorType& input, DType statistics, bool training, size_t out) {
  if (input.device.type != DeviceType::CPU) unsupported("batch norm with out= on another device");
  in.contiguous(input.sizes(), input);
  for (size_t i : {out + 1, out + 2}) {
    if (training) {
      in.contiguous(Dims{input.size(1)}, statistics, input.device);
    } else {
      in.result(in.tensor(i));
    }
  }
}

// The normalised input and the statistics that the backward needs. `out`: where out= stands, if there is one.
void forward(Infer& in, const Parameters& p, bool training, size_t out) {
  const TensorType& input = in.tensor(0);
  if (input.rank < 2) refuse("batch norm: no dimension of channels");
  if (training && isEmpty(input)) refuse("batch norm: no element to take statistics of");
  if (!training && (!p.mean || !p.var)) refuse("batch norm: no statistics to use");
  DType statistics = statisticsDType(input, {p.weight, p.bias, p.mean, p.var});
  if (in.op().variant == Variant::Out) return forwardInto(in, input, statistics, training, out);
  bool cpu = input.device.type == DeviceType::CPU;
  bool dense = contiguousSomehow(input) && contiguousOrNone(p.weight) && contiguousOrNone(p.bias) &&
               contiguousOrNone(p.mean) && contiguousOrNone(p.var);
  resultLike(in, input, dense);
  Dims saved{training || !cpu ? input.size(1) : Int(0)};
  in.contiguous(saved, statistics, input.device);
  in.contiguous(saved, statistics, input.device);
}

Parameters parameters(Infer& in) {
  return {in.optionalTensor(1), in.optionalTensor(2), in.optionalTensor(3), in.optionalTensor(4)};
}

// (input, weight, bias, running_mean, running_var, training, momentum, eps)
void batchNorm(Infer& in) { forward(in, parameters(in), in.boolean(5), 8); }

// (input, weight, bias, training, momentum, eps)
void batchNormNoStatistics(Infer& in) {
  forward(in, {in.optionalTensor(1), in.optionalTensor(2), nullptr, nullptr}, in.boolean(3), 6);
}

// (input, weight, bias, running_mean, running_var, momentum, eps)
void batchNormNoTraining(Infer& in) { forward(in, parameters(in), false, 7); }

void addReserve(Infer& in) {
  const TensorType& input = in.tensor(0);
  if (input.device.type != DeviceType::CPU) unsupported("batch norm: the size of the reserve is the library's");
  in.contiguous(Dims{Int(0)}, DType::UInt8, input.device);
}

void batchNormUpdate(Infer& in) {
  forward(in, parameters(in), true, 7);
  addReserve(in);
}

void batchNormNoUpdate(Infer& in) {
  forward(in, parameters(in), false, 7);
  addReserve(in);
}

// The running statistics after the update, as new tensors: copies keep the strides they can.
void addRunning(Infer& in) {
  for (size_t i : {3, 4}) {
    const TensorType& running = in.tensor(i);
    in.contiguous(running.sizes(), running);
  }
}

void batchNormFunctional(Infer& in) {
  batchNorm(in);
  addRunning(in);
}

void batchNormUpdateFunctional(Infer& in) {
  batchNormUpdate(in);
  addRunning(in);
}

// (input, running_mean, running_var, momentum)
void updateStatistics(Infer& in) {
  const TensorType& input = in.tensor(0);
  if (input.rank < 2) refuse("batch norm: no dimension of channels");
  if (isEmpty(input)) refuse("batch norm: no element to take statistics of");
  DType statistics = statisticsDType(input, {in.optionalTensor(1), in.optionalTensor(2)});
  in.contiguous(Dims{input.size(1)}, statistics, input.device);
  in.contiguous(Dims{input.size(1)}, statistics, input.device);
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)
void backward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  const TensorType& input = in.tensor(1);
  const TensorType *weight = in.optionalTensor(2), *mean = in.optionalTensor(3), *var = in.optionalTensor(4),
                   *savedMean = in.optionalTensor(5), *savedStd = in.optionalTensor(6);
  bool training = in.boolean(7);
  if (input.rank < 2) refuse("batch norm: no dimension of channels");
  if (!sameSizes(grad.sizes(), input.sizes())) refuse("batch norm: the gradient is not of the input's shape");
  if (training ? !savedMean || !savedStd : !mean || !var) refuse("batch norm: no statistics to use");
  bool cpu = input.device.type == DeviceType::CPU;
  if (cpu && grad.dtype != input.dtype) refuse("batch norm: the gradient is not of the input's dtype");
  // In evaluation nothing is saved, on the CPU.
  DType dtype = training ? statisticsDType(input, {weight, mean, var, savedMean, savedStd})
                         : statisticsDType(input, {weight, mean, var});
  if (wanted(in, 9, 0)) {
    bool dense =
        contiguousSomehow(input) && contiguousSomehow(grad) && contiguousFormat(input) == contiguousFormat(grad);
    resultLike(in, input, dense);
  } else {
    undefinedResult(in);
  }
  for (size_t i : {1, 2}) {
    if (wanted(in, 9, i)) {
      in.contiguous(Dims{input.size(1)}, dtype, input.device);
    } else {
      undefinedResult(in);
    }
  }
}

}  // namespace

void addBatchNorm(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, std::vector<std::string_view> hidden = {},
                 uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Normalization, traits, std::move(hidden)});
  };
  add("native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,"
      " bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      batchNorm, {"running_mean", "running_var"});
  add("_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean,"
      " Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      batchNorm);
  add("_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,"
      " float eps) -> (Tensor, Tensor, Tensor)",
      batchNormNoStatistics);
  add("native_batch_norm.out(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,"
      " bool training, float momentum, float eps, *, Tensor(a!) out, Tensor(b!) save_mean, Tensor(c!) save_invstd)"
      " -> (Tensor(a!), Tensor(b!), Tensor(c!))",
      batchNorm, {"running_mean", "running_var"}, kExactOut);
  add("_native_batch_norm_legit.out(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean,"
      " Tensor(b!) running_var, bool training, float momentum, float eps, *, Tensor(d!) out, Tensor(e!) save_mean,"
      " Tensor(f!) save_invstd) -> (Tensor(d!), Tensor(e!), Tensor(f!))",
      batchNorm, {}, kExactOut);
  add("_native_batch_norm_legit.no_stats_out(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,"
      " float eps, *, Tensor(a!) out, Tensor(b!) save_mean, Tensor(c!) save_invstd)"
      " -> (Tensor(a!), Tensor(b!), Tensor(c!))",
      batchNormNoStatistics, {}, kExactOut);
  add("native_batch_norm_backward.out(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean,"
      " Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask, *,"
      " Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
      backward, {}, kCopiedOut);
  add("_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,"
      " Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      batchNormNoTraining);
  add("_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,"
      " Tensor running_var, bool training, float momentum, float eps)"
      " -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
      batchNormFunctional);
  add("_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean,"
      " Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
      batchNormUpdate);
  add("_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,"
      " Tensor running_var, float momentum, float eps)"
      " -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
      batchNormUpdateFunctional);
  add("_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,"
      " float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
      batchNormNoUpdate);
  add("batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum)"
      " -> (Tensor, Tensor)",
      updateStatistics, {"running_mean", "running_var"});
  add("native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean,"
      " Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask)"
      " -> (Tensor, Tensor, Tensor)",
      backward);
  add("batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, Tensor? running_var,"
      " Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, Tensor reserve)"
      " -> (Tensor, Tensor, Tensor)",
      backward);
}

}  // namespace saker::ops
