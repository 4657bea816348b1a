// Optimizer steps and gradient scaling over whole lists of tensors, in place and by value.
#include <algorithm>
#include <string>

#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

// Lists of parameters, gradients and state, of one length each; some optimizers leave a list of state empty.
void step(Infer& in) {
  Tensors parameters = in.tensors(0);
  for (size_t i = 0; i < in.op().parsed.arguments.size(); ++i) {
    const ir::SchemaArgument& argument = in.op().parsed.arguments[i];
    if (!argument.type.list || argument.type.base != ir::SchemaType::Base::Tensor) continue;
    Tensors list = in.tensors(i);
    bool stateList = i > 1;
    if (list.size() != parameters.size() && !(stateList && list.empty())) {
      refuse(in.op().qualified + ": as many gradients and states as parameters are needed");
    }
    for (size_t k = 0; k < list.size(); ++k) {
      if (!list[k]) refuse(in.op().qualified + ": a tensor is missing");
      if (list[k]->rank == 0 && argument.name == "state_steps") continue;
      require(in, kFloats, list[k]->dtype);
      if (argument.name == "state_steps") continue;
      if (!sameSizes(list[k]->sizes(), parameters[k]->sizes())) refuse("a gradient or state of another shape");
      if (list[k]->device != parameters[k]->device) refuse("a gradient or state on another device");
    }
  }
}

// What is written, as copies: each list in turn.
void copyWritten(Infer& in) {
  const Operator& inplace =
      *find(in.op().parsed.overload.empty() ? in.op().parsed.name + "_"
                                            : in.op().parsed.name + "_." + in.op().parsed.overload);
  for (size_t i = 0; i < inplace.parsed.arguments.size(); ++i) {
    if (!inplace.writesArgument(i)) continue;
    if (!inplace.parsed.arguments[i].type.list) {
      likeResult(in, in.tensor(i), in.tensor(i).dtype);
      continue;
    }
    for (const TensorType* t : in.tensors(i)) likeResult(in, *t, t->dtype);
  }
}

void stepByValue(Infer& in) {
  step(in);
  copyWritten(in);
}

void requireNumber(const TensorType& t, DType dtype) {
  if (numel(t) != Int(1) || t.dtype != dtype) refuse("a tensor of one number is needed");
}

// amp: (Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale)
void unscale(Infer& in) {
  requireNumber(in.tensor(1), DType::Float32);
  requireNumber(in.tensor(2), DType::Float32);
  for (const TensorType* t : in.tensors(0)) {
    if (!t) refuse("a gradient is missing");
    require(in, kFloats, t->dtype);
  }
}

void unscaleByValue(Infer& in) {
  unscale(in);
  copyWritten(in);
}

void requireScales(Infer& in) {
  requireNumber(in.tensor(0), DType::Float32);
  requireNumber(in.tensor(1), DType::Int32);
  requireNumber(in.tensor(2), DType::Float32);
}

void updateScale(Infer& in) {
  requireScales(in);
  in.result(in.tensor(0));
}

void updateScaleByValue(Infer& in) {
  requireScales(in);
  copyWritten(in);
}

// The schema of the form that returns what another one writes.
std::string byValue(std::string schema, std::string_view results) {
  for (size_t at; (at = schema.find("!)")) != std::string::npos;)
    schema.erase(schema.rfind('(', at), at + 2 - schema.rfind('(', at));
  size_t open = schema.find('(');
  size_t underscore = schema.rfind('_', std::min(schema.find('.'), open));
  schema.erase(underscore, 1);
  return schema.substr(0, schema.find(" -> ")) + " -> " + std::string(results);
}

}  // namespace

void addFused(Rows& rows) {
  std::string scaling = ", Tensor? grad_scale=None, Tensor? found_inf=None) -> ()";
  auto add = [&](std::string schema, std::string_view results) {
    schema = "aten::" + std::move(schema) + scaling;
    rows.push_back({byValue(schema, results), stepByValue, Cost::Pointwise});
    rows.push_back({std::move(schema), step, Cost::Pointwise, kOwnWrites});
  };
  for (std::string name : {"_fused_adam_", "_fused_adamw_"}) {
    for (std::string rate : {"float lr", "Tensor lr"}) {
      add(name + (rate == "float lr" ? "" : ".tensor_lr") +
              "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] "
              "max_exp_avg_sqs, Tensor[] state_steps, *, " +
              rate + ", float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize",
          "(Tensor[] self_out, Tensor[] grads_out, Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, Tensor[] "
          "max_exp_avg_sqs_out)");
    }
  }
  for (std::string rate : {"float lr", "Tensor lr"}) {
    add("_fused_sgd_" + std::string(rate == "float lr" ? "" : ".tensor_lr") +
            "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float "
            "momentum, " +
            rate + ", float dampening, bool nesterov, bool maximize, bool is_first_step",
        "(Tensor[] self_out, Tensor[] grads_out, Tensor[] momentum_buffer_list_out)");
  }
  for (std::string rate : {"float lr", "Tensor lr"}) {
    bool number = rate == "float lr";
    add("_fused_adagrad_" + std::string(number ? "" : ".tensor_lr") +
            "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor" + (number ? "(d!)" : "") +
            "[] state_steps, *, " + rate + ", float lr_decay, float weight_decay, float eps, bool maximize",
        std::string("(Tensor[] self_out, Tensor[] grads_out, Tensor[] state_sums_out") +
            (number ? ", Tensor[] state_steps_out)" : ")"));
  }
  std::string checkAndUnscale =
      "aten::_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale) -> "
      "()";
  rows.push_back(
      {byValue(checkAndUnscale, "(Tensor[] self_out, Tensor found_inf_out)"), unscaleByValue, Cost::Pointwise});
  rows.push_back({checkAndUnscale, unscale, Cost::Pointwise, kOwnWrites});
  std::string update =
      "aten::_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float "
      "scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)";
  rows.push_back({byValue(update, "(Tensor, Tensor growth_tracker_out)"), updateScaleByValue, Cost::Pointwise});
  rows.push_back({update, updateScale, Cost::Pointwise, kOwnWrites});
}

}  // namespace saker::ops
