#include "runtime/single_call.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "aten/call_node.h"
#include "aten/enums.h"
#include "aten/trace_key.h"
#include "ir/each_value.h"
#include "ops/operator.h"
#include "runtime/number_operands.h"
#include "runtime/plain_type.h"
#include "runtime/prepared.h"

namespace saker::runtime {

namespace {

constexpr int64_t kFewElements = 4096;

bool isUsual(const ops::Operator& op) {
  constexpr uint32_t others = ops::kRandom | ops::kFailsOnData | ops::kDataDependent | ops::kDynamicShape |
                              ops::kReadsState | ops::kEffect | ops::kSetsStorage | ops::kHostResult;
  if (op.traits & others) return false;
  switch (op.cost) {
    case ops::Cost::View:
    case ops::Cost::Fill:
    case ops::Cost::Pointwise:
    case ops::Cost::Reduction:
    case ops::Cost::Normalization:
    case ops::Cost::Indexing:
    case ops::Cost::Matmul:
      return true;
    default:
      return false;
  }
}

// Of the CPU, of a size that is known; with few numbers, if they are computed with.
bool isSmall(const ir::Value& value, bool computed) {
  const ir::TensorType* type = value.tensor();
  if (!type || type->symbolic || type->device.type != ir::DeviceType::CPU) return false;
  int64_t count = 1;
  for (size_t i = 0; i < type->rank; ++i) count *= type->size(i).constant();
  return !computed || count <= kFewElements;
}

const ir::Node* onlyNode(const ir::Graph& graph) {
  const ir::Node* node = graph.top()->first();
  if (!node || node->isReturn() || !node->next() || !node->next()->isReturn()) return nullptr;
  return node;
}

// What is constant is converted when the call is made; nothing else is asked for.
class NoValues final : public aten::CallEnvironment {
 public:
  const at::Tensor& tensor(const ir::Value*) override { fail(); }
  c10::IValue number(const ir::Value*) override { fail(); }
  c10::IValue opaque(const ir::OpaqueRef&) override { fail(); }
  c10::IValue expression(const sym::Node*) override { fail(); }

 private:
  [[noreturn]] static void fail() { throw std::runtime_error("an argument of one operator is no constant"); }
};

bool isConstant(const ir::Arg& arg) {
  bool any = false;
  ir::eachValue(arg, [&](const ir::Value*) { any = true; });
  return !any;
}

}  // namespace

bool isSmallOperator(const ir::Node& node) {
  const ops::Operator* op = ops::of(&node);
  if (!op || !isUsual(*op) || !node.regions().empty() || node.resultCount() != 1) return false;
  if (!node.op()->qualified.starts_with("aten::") || node.op()->qualified == "aten::copy") return false;
  bool computed = op->cost != ops::Cost::View;
  std::span<const ir::Use> operands = node.operands();
  return isSmall(*node.result(0), computed) && std::all_of(operands.begin(), operands.end(), [&](const ir::Use& each) {
           return isSmall(*each.value, computed);
         });
}

bool isSingle(const Program& program) {
  const ir::Node* node = onlyNode(*program.graph);
  if (!node || !isSmallOperator(*node)) return false;
  ir::Attributes modes = node->attributes();
  modes.noGrad = modes.shown = false;
  if (modes != ir::Attributes() || !program.asRecorded || program.recorded || program.userGradients) return false;
  if (!program.gradients.empty() || !program.objects.empty() || !program.userWrites.empty()) return false;
  return !generatesCode(program.native);
}

SingleCall::SingleCall(const ir::Node& node, c10::OperatorHandle handle)
    : handle_(std::move(handle)), noGrad_(node.attributes().noGrad) {}

std::shared_ptr<const SingleCall> SingleCall::of(const Program& program) {
  if (!isSingle(program) || program.results > 1 || !program.gradAround) return nullptr;
  const ir::Node& node = *onlyNode(*program.graph);
  bool gives = program.results == 0;
  if (!gives) gives = node.next()->arg(0).isValue() && node.next()->arg(0).toValue() == node.result(0);
  std::optional<c10::OperatorHandle> handle = aten::findOperator(node.op()->qualified);
  if (!gives || !handle) return nullptr;
  std::shared_ptr<SingleCall> made(new SingleCall(node, *handle));
  if (!made->takeArguments(program, node)) return nullptr;
  made->findKernel(program, node);
  made->findType();
  return made;
}

// False: the operator takes more than tensors of the program and constants.
bool SingleCall::takeArguments(const Program& program, const ir::Node& node) {
  const c10::FunctionSchema& schema = handle_.schema();
  NoValues none;
  for (uint32_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    c10::IValue& constant = constants_.emplace_back();
    if (i >= node.args().size()) {
      constant = argument.default_value().value_or(c10::IValue());
    } else if (isConstant(node.arg(i))) {
      constant = aten::argument(node.arg(i), *argument.real_type(), none);
    } else if (node.arg(i).isValue() && node.arg(i).toValue()->isParameter()) {
      const Source& source = program.sources[node.arg(i).toValue()->index()];
      bool closed = source.kind == Source::Kind::Closed;
      if (!closed && source.kind != Source::Kind::Argument) return false;
      from_.push_back({i, source.argument, closed ? source.tensor : at::Tensor()});
    } else {
      return false;
    }
  }
  return !from_.empty() && schema.returns().size() == 1;
}

void SingleCall::findType() {
  const c10::FunctionSchema& schema = handle_.schema();
  if (schema.arguments().size() != 1 || from_.size() != 1) return;
  bool tensors = schema.arguments()[0].type()->kind() == c10::TypeKind::TensorType &&
                 schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
  const c10::AliasInfo* written = schema.arguments()[0].alias_info();
  if (!tensors) return;
  if (written && written->isWrite()) {
    inPlace_ = handle_.typed<at::Tensor&(at::Tensor&)>();
  } else {
    unary_ = handle_.typed<at::Tensor(const at::Tensor&)>();
  }
}

// Of an operator that gives one plain new tensor, where autograd does not follow.
void SingleCall::findKernel(const Program& program, const ir::Node& node) {
  const ops::Operator& op = *ops::of(&node);
  const ir::TensorType& type = *node.result(0)->tensor();
  bool fresh = !op.writes && !op.has(ops::kMayAlias) && op.cost != ops::Cost::View;
  fresh = fresh && op.variant == ops::Variant::Functional;
  if (!fresh || !isPlainType(type) || program.differentiable || node.attributes().shown) return;
  kernel_ = aten::KeptKernel::find(withTensor(node).value_or(handle_), aten::KeptKernel::Products::Eager);
  if (!kernel_) return;
  told_ = geometryOf(type, {});
  dtype_ = aten::fromDType(type.dtype);
  kernelConstants_ = constants_;
  for (size_t i = 0; i < std::min(node.args().size(), kernelConstants_.size()); ++i) {
    if (!isConstant(node.arg(i)) || !kernelConstants_[i].isTensor()) {
      bool number = isConstant(node.arg(i)) && kernelConstants_[i].isScalar();
      if (!number || !withTensor(node)) continue;
    }
    if (std::optional<at::Tensor> cast = castNumber(node, i)) {
      kernelConstants_[i] = std::move(*cast);
    } else {
      kernel_ = nullptr;
      return;
    }
  }
}

at::Tensor SingleCall::run(std::span<const at::Tensor* const> arguments) const {
  at::Tensor result;
  if (kernel_ && !isFollowed(arguments) && runKernel(arguments, result)) return result;
  if (!noGrad_) return call(arguments);
  c10::AutoGradMode mode(false);
  return call(arguments);
}

bool SingleCall::isFollowed(std::span<const at::Tensor* const> arguments) const {
  if (noGrad_ || !c10::GradMode::is_enabled()) return false;
  return std::any_of(from_.begin(), from_.end(), [&](const From& each) { return each.in(arguments).requires_grad(); });
}

bool SingleCall::runKernel(std::span<const at::Tensor* const> arguments, at::Tensor& result) const {
  if ((tried_ && !prepared_) || !kernel_->isCurrent()) return false;
  aten::BelowAutograd below;
  if (!aten::reachesKernels()) return false;
  using Borrows = c10::MaybeOwnedTraits<at::Tensor>;
  struct Lend {
    std::vector<at::Tensor>& lent;
    ~Lend() {
      for (at::Tensor& each : lent) Borrows::destroyBorrow(each);
    }
  } lend{lent_};
  lent_.resize(from_.size());
  for (size_t i = 0; i < lent_.size(); ++i) Borrows::assignBorrow(lent_[i], from_[i].in(arguments));
  result_ = at::detail::empty_strided_cpu(told_.sizes, told_.strides, dtype_);
  if (!prepared_) {
    tried_ = true;
    std::vector<aten::KeptTensor> tensors(kernelConstants_.size());
    for (size_t i = 0; i < lent_.size(); ++i) tensors[from_[i].argument] = {&lent_[i], false};
    prepared_ = kernel_->prepare({kernelConstants_, tensors, {&result_, false}});
  }
  bool ran = prepared_ && prepared_->run();
  if (ran && prepared_->spent()) prepared_.reset();
  result = std::move(result_);
  return ran;
}

at::Tensor SingleCall::call(std::span<const at::Tensor* const> arguments) const {
  if (unary_) return unary_->call(from_[0].in(arguments));
  if (inPlace_) {
    at::Tensor written = from_[0].in(arguments);
    return inPlace_->call(written);
  }
  torch::jit::Stack stack;
  stack.swap(stack_);  // a kernel of the user's may call the same program
  stack.assign(constants_.begin(), constants_.end());
  for (const From& each : from_) stack[each.argument] = each.in(arguments);
  handle_.callBoxed(&stack);
  at::Tensor result = std::move(stack[0]).toTensor();
  stack.clear();
  stack.swap(stack_);
  return result;
}

}  // namespace saker::runtime
