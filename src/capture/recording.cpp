#include "capture/recording.h"

#include <ATen/ScalarOps.h>
#include <c10/core/GradMode.h>

#include "aten/context.h"
#include "aten/convert.h"
#include "aten/trace_key.h"
#include "capture/closed_bodies.h"
#include "capture/symbolic_number.h"
#include "ops/operator.h"

namespace saker::tracing {

// The arguments as the graph has them: tensors are values, Python numbers stand for themselves.
class Recording::Converter final : public aten::Converter {
 public:
  explicit Converter(Recording& recording)
      : aten::Converter(*recording.context(), recording.scratch_, recording.host().hooks.unwrap),
        recording_(recording) {}

 private:
  ir::Arg tensorArg(const at::Tensor& tensor) override {
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !recording_.made(tensor)) return numberArg(tensor);
    return ir::Arg::value(recording_.valueOf(tensor));
  }
  ir::Arg numberArg(const at::Tensor& tensor) {
    if (mayBeSymbolic()) {
      c10::IValue symbolic = recording_.symbolicNumber(tensor);
      if (!symbolic.isNone()) return argument(symbolic, aten::IntMeaning::Number);
    }
    if (ir::Value* source = recording_.sourceOf(tensor)) return ir::Arg::value(source);
    switch (tensor.is_cpu() ? tensor.scalar_type() : c10::ScalarType::Undefined) {
      case c10::kDouble:
        return ir::Arg::number(*static_cast<const double*>(tensor.const_data_ptr()));
      case c10::kLong:
        return ir::Arg::integer(plainNumber(*static_cast<const int64_t*>(tensor.const_data_ptr())));
      case c10::kBool:
        return ir::Arg::boolean(*static_cast<const bool*>(tensor.const_data_ptr()));
      default: {
        aten::RunForReal real;  // reading the number is no operator of the program
        return argument(tensor.item(), aten::IntMeaning::Number);
      }
    }
  }
  // Beside a tensor, PyTorch's bindings put this number in the place of a symbol. Where the symbol was not found behind
  // it, it is out of reach.
  int64_t plainNumber(int64_t value) const {
    if (value == kSymbolicPlaceholder && mayBeSymbolic()) {
      throw ops::RefusalException{{ops::Reason::Unsupported,
                                   "a dynamic size is used as a number beside a tensor; use it in an operator that "
                                   "takes a size, or make it static"}};
    }
    return value;
  }
  // Without symbols there are no symbolic numbers, and nobody is asked.
  bool mayBeSymbolic() const { return !recording_.context()->symbols().symbols().empty(); }
  ir::Arg opaqueArg(std::string_view className, const c10::IValue& object) override {
    std::vector<c10::IValue>& kept = recording_.shared_->kept;
    kept.push_back(object);
    return ir::Arg::opaque(recording_.context()->opaque(className, kept.size() - 1));
  }

  Recording& recording_;
};

Recording::Recording(Host host, std::shared_ptr<ir::Context> context) {
  if (!context) context = aten::newContext();
  auto graph = std::make_unique<ir::Graph>(context);
  shared_ = std::make_shared<Shared>(host, std::move(context), std::move(graph), aten::Inference(host.hooks));
}

Recording::Recording(Recording& outer, ir::Region* body) : shared_(outer.shared_), outer_(&outer), body_(body) {}

Recording::~Recording() = default;

std::unique_ptr<ir::Graph> Recording::takeGraph() {
  std::unique_ptr<ir::Graph> taken = std::move(shared_->graph);
  shared_->graph = std::make_unique<ir::Graph>(context());
  return taken;
}

const ir::TensorType* Recording::typeOf(const at::Tensor& tensor) {
  Arena scratch;
  ir::TensorSpec spec = aten::Converter(*context(), scratch, host().hooks.unwrap).spec(tensor);
  spec.flags.requiresGrad = false;
  spec.flags.wrappedNumber = false;
  return context()->types().tensor(spec);
}

at::Tensor Recording::literalData(const ir::Value* value) const {
  for (const auto& [literal, data] : shared_->literals) {
    if (literal == value) return data;
  }
  return {};
}

at::Tensor Recording::placeholder(const c10::IValue& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number.isSymFloat() ? at::Scalar(0.0) : at::Scalar(kSymbolicPlaceholder));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  shared_->placeholders.emplace_back(tensor, number);
  return tensor;
}

c10::IValue Recording::symbolicNumber(const at::Tensor& tensor) const {
  for (const auto& [placeholder, number] : shared_->placeholders) {
    if (placeholder.is_same(tensor)) return number;
  }
  SymbolicNumber ask = tracing::symbolicNumber();
  return ask ? ask(tensor) : c10::IValue();
}

ir::Arg Recording::resultArg(const c10::IValue& result) {
  if (result.isTensor()) {
    return result.toTensor().defined() ? ir::Arg::value(valueOf(result.toTensor())) : ir::Arg::none();
  }
  return aten::Converter(*context(), scratch_, host().hooks.unwrap).argument(result, aten::IntMeaning::Number);
}

Recording::Converted Recording::convert(const Call& call, const Entry* entry) {
  scratch_.reset({});
  Converter converter(*this);
  if (c10::intrusive_ptr<ClosedBodies> bodies = bodiesOf(call)) {
    if (bodies->context() != context()) {
      throw ops::RefusalException{{ops::Reason::Unsupported, "its bodies were recorded elsewhere"}};
    }
    std::vector<at::Tensor> operands = call.values[0].toTensorVector();
    ir::Arg* args = scratch_.makeArray<ir::Arg>(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) args[i] = ir::Arg::value(valueOf(operands[i]));
    return {nullptr, {args, operands.size()}, bodies.get()};
  }
  if (entry) return {entry->op, inference().arguments(converter, scratch_, *entry, call.values)};
  std::vector<aten::IntMeaning> meanings = aten::intMeanings(call.op.schema());
  std::span<const ir::Arg> args = converter.arguments(meanings, call.values);
  return {context()->op(nameOf(call.op)), args};
}

ir::Node* Recording::append(const Converted& converted, std::span<const ir::Type* const> results, ir::Origin origin) {
  if (!converted.bodies) return append(converted.def, converted.args, results, origin);
  std::vector<ir::Value*> operands;
  for (const ir::Arg& arg : converted.args) operands.push_back(arg.toValue());
  return converted.bodies->append(graph(), body(), operands, origin);
}

ir::Attributes Recording::modesOf(const Entry* entry) const {
  if (outer_) return outer_->modesOf(entry);
  bool grad = c10::GradMode::is_enabled();
  // An operator whose gradient formula stands around it (torch.library) is differentiated by that, wherever it is run
  // again.
  if (!grad && !entry && host().insideOwnGradient) grad = host().insideOwnGradient();
  return {.noGrad = !grad};
}

ir::Node* Recording::createNode(const ir::OpDef* def, size_t bodies) {
  return graph().create(def, {}, {}, bodies, {here(), modesOf(nullptr)});
}

void Recording::appendNode(ir::Node* node, std::span<const ir::Arg> args, std::span<const ir::Type* const> results) {
  graph().setArgs(node, args);
  graph().addResults(node, results);
  graph().append(body(), node);
  countNode();
}

ir::Value* Recording::appendDetach(ir::Value* value, const ir::Type* type, bool ownVersion,
                                   const ir::Location* location) {
  static const ops::Operator* detach = ops::find("aten::detach");
  const ir::Arg args[] = {ir::Arg::value(value)};
  const ir::Type* results[] = {type};
  ir::Attributes modes{.noGrad = true, .ownVersion = ownVersion};
  return append(detach, args, results, {location, modes})->result();
}

ir::Value* Recording::appendView(ir::Value* value, const ir::TensorType* type) {
  std::vector<ir::Arg> sizes, strides;
  for (sym::Int size : type->sizes()) sizes.push_back(ir::Arg::symInt(size));
  for (sym::Int stride : type->strides()) strides.push_back(ir::Arg::symInt(stride));
  const ir::Arg args[] = {ir::Arg::value(value), ir::Arg::list(sizes), ir::Arg::list(strides),
                          ir::Arg::symInt(type->offset)};
  const ir::Type* results[] = {type};
  ir::Attributes modes{.noGrad = true};
  return append(context()->op("aten::as_strided"), args, results, {nullptr, modes})->result();
}

}  // namespace saker::tracing
