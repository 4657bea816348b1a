#include "runtime/executable.h"

#include <ATen/core/TensorBody.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <array>

#include "aten/kept_call.h"
#include "ops/operator.h"
#include "runtime/failure.h"
#include "runtime/number_failure.h"
#include "runtime/prepare.h"
#include "symbolic/context.h"

namespace saker::runtime {

Executable::Executable(const ir::Graph& graph, const std::vector<c10::IValue>& objects, Views views, NativeCode native,
                       std::vector<bool> ending)
    : graph_(graph), objects_(objects), sizes_(graph), views_(views), native_(native), ending_(std::move(ending)) {
  keepMemory();
  Preparation(*this).prepare();
}

Executable::~Executable() = default;

// Kernels that read memory as a row, which autograd's formulas prepare for them by contiguous(): that leaves no node
// where a tensor is contiguous.
static bool readsRows(const std::string& name) {
  static const std::array kNames = {"native_group_norm_backward", "weight_norm", "cudnn", "miopen", "mkldnn", "thnn_"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

// Operators that are told strides, and not only give them, find other elements where these are others. What draws
// numbers or is the user's must not be begun and then refused.
bool mayRunFreely(const ir::Graph& graph) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (node->isReturn()) continue;
    const ops::Operator* op = ops::of(node);
    const std::string& name = node->op()->qualified;
    bool told = name.find("as_strided") != std::string::npos || name == "aten::_reshape_alias";
    if (!op || op->writes || op->isRandom() || !name.starts_with("aten::") || told || readsRows(name)) {
      return false;
    }
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (!node->result(i)->tensor()) return false;
    }
  }
  return true;
}

void Executable::setNumbers(Sizes& sizes, std::span<const int64_t> numbers) const {
  std::span<ir::Value* const> parameters = graph_.top()->parameters();
  for (size_t i = 0, next = 0; numbers_ && i < parameters.size() && next < numbers.size(); ++i) {
    if (!parameters[i]->tensor()) sizes.cell(cellOf_[parameters[i]->id()]).set(numbers[next++]);
  }
}

bool Executable::mayMakeViews(std::span<const at::Tensor> inputs, std::span<const int64_t> numbers) const {
  if (viewed_.empty()) return true;
  Sizes sizes(sizes_);
  if (sizes_.any()) sizes.bind(inputs);
  setNumbers(sizes, numbers);
  for (uint32_t i : viewed_) {
    if (inputs[i].defined() && !sizes.sameStrides(sizes_.told()[i], inputs[i])) return false;
  }
  return true;
}

std::vector<at::Tensor> Executable::run(std::vector<at::Tensor> inputs, std::span<const int64_t> numbers,
                                        bool freely) const {
  Run run(*this, nullptr, freely);
  if (numbers_) run.sizes().bind(inputs);
  setNumbers(run.sizes(), numbers);
  for (size_t i = 0; i < inputs.size(); ++i) run.set(i, std::move(inputs[i]));
  inputs.clear();
  run.run();
  std::vector<at::Tensor> results;
  results.reserve(returned_.size());
  for (size_t i = 0; i < returned_.size(); ++i) {
    bool tensor = returned_[i].isValue() && returned_[i].toValue()->tensor();
    results.push_back(tensor ? run.returned(i).toTensor() : at::Tensor());
  }
  return results;
}

namespace {

// Empty lists that keep their memory from run to run. A run inside of another one makes its own.
struct Scratch {
  torch::jit::Stack stack;
  std::vector<at::Tensor> slots;
};
thread_local Scratch scratch;
constexpr size_t kMostKept = 4096;

}  // namespace

Run::Run(const Executable& executable, Conduct* conduct, bool freely)
    : executable_(executable), conduct_(conduct), freely_(freely), sizes_(executable.sizes_) {
  stack_.swap(scratch.stack);
  if (!executable.workspace_.any()) {
    slots_.swap(scratch.slots);
    slots_.resize(executable.graph_.valueLimit());
    return;
  }
  workspace_ = executable.idle_.take(executable.workspace_);
  slots_.swap(workspace_->slots);
  if (slots_.empty()) fillKeptSlots();
}

Run::~Run() {
  stack_.clear();
  if (stack_.capacity() <= kMostKept && stack_.capacity() > scratch.stack.capacity()) stack_.swap(scratch.stack);
  if (workspace_) {
    for (uint32_t slot : executable_.otherSlots_) slots_[slot].reset();
    slots_.swap(workspace_->slots);
    executable_.idle_.give(std::move(workspace_));
  } else {
    slots_.clear();
    if (slots_.capacity() <= kMostKept && slots_.capacity() > scratch.slots.capacity()) slots_.swap(scratch.slots);
  }
}

void Run::set(size_t parameter, at::Tensor tensor) {
  const ir::Value* value = executable_.graph_.top()->parameters()[parameter];
  if (value->hasUses()) slots_[value->id()] = std::move(tensor);
}

// --- what arguments are converted from ---

c10::IValue Run::number(const ir::Value* value) {
  uint32_t cell = executable_.cellOf_[value->id()];
  if (cell == kNone || !sizes_.value(cell).known) {
    throw std::runtime_error("a graph was run with a value that is no tensor and has no expression");
  }
  const sym::Cell& known = sizes_.cell(cell);
  if (value->type()->kind == ir::TypeKind::Bool) return known.whole != 0;
  if (value->type()->kind == ir::TypeKind::Float) return known.number;
  return sizes_.integer(cell);
}

c10::IValue Run::opaque(const ir::OpaqueRef& reference) { return executable_.objects_.at(reference.number); }

c10::IValue Run::expression(const sym::Node* node) {
  std::optional<uint32_t> cell = executable_.sizes_.flat.find(node);
  if (!cell || !sizes_.value(*cell).known) failWithoutNumber(node, executable_.sizes_.flat, sizes_);
  const sym::Cell& known = sizes_.cell(*cell);
  if (node->isInt()) return sizes_.integer(*cell);
  return node->isBool() ? c10::IValue(known.whole != 0) : c10::IValue(known.number);
}

c10::IValue Run::valueOf(const ir::Arg& arg) { return aten::constantArgument(arg, *this); }

// --- running ---

void Run::run(uint32_t before) {
  before_ = before;
  keeps_ = workspace_ && executable_.workspace_.calls > 0 && !conduct_ && !freely_ && aten::reachesKernels();
  runRange(0, executable_.end_);
}

void Run::runRange(uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    const Instruction& at = executable_.instructions_[i];
    if (at.node->id() >= before_) return;
    running_ = at.node;
    switch (at.kind) {
      case Instruction::Kind::Call:
        call(at);
        break;
      case Instruction::Kind::View:
        makeViews(at);
        break;
      case Instruction::Kind::If:
        branch(at);
        break;
      case Instruction::Kind::Loop:
        loop(at);
        break;
      case Instruction::Kind::While:
        whileLoop(at);
        break;
      case Instruction::Kind::WhileBackward:
        whileBackward(at);
        break;
      case Instruction::Kind::Scan:
        scan(at);
        break;
      case Instruction::Kind::Fused:
        if (at.together > 1 && before_ == kNone && launchTogether(i)) {
          i += at.together - 1;
          break;
        }
        fused(at);
        break;
    }
  }
}

void Run::callInto(const Instruction& at) {
  const at::Tensor& result = workspace_->at(at.place);
  if (at.kernel && !at.kernel->isCurrent()) {  // the program has registered one, which knows no tensor to compute into
    at.handle->callBoxed(&stack_);
    result.copy_(stack_[0].toTensor());
  } else {
    stack_.emplace_back(result);
    at.into->callBoxed(&stack_);
  }
  stack_.clear();
  if (result.sizes() != c10::IntArrayRef(at.results[0].told.numbers.sizes)) {
    workspace_.reset();  // it is not as it was
    failForSizes(at.node->op()->qualified);
  }
  for (uint32_t slot : at.freed) slots_[slot].reset();
}

void Run::call(const Instruction& at) {
  if (keeps_ && at.kernel && callKept(at)) return;
  pushArguments(at);
  if (at.into) return callInto(at);
  if (conduct_) {
    conduct_->call(at, stack_);
  } else {
    at.handle->callBoxed(&stack_);
  }
  for (uint32_t slot : at.freed) slots_[slot].reset();
  takeResults(at);
  stack_.clear();
}

void Run::makeViews(const Instruction& at) {
  for (const DirectView& view : at.views) makeView(view);
  for (uint32_t slot : at.freed) slots_[slot].reset();
}

// What ATen's operators do in the end: another tensor over the same memory.
void Run::makeView(const DirectView& view) {
  const at::Tensor& source = slots_[view.source];
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(source.storage()),
                                                             source.key_set(), source.dtype());
  c10::TensorImpl& impl = *made.unsafeGetTensorImpl();
  int64_t offset = source.storage_offset();
  if (view.told.cells.empty() && view.sourceTold.cells.empty()) {
    const Geometry& told = view.told.numbers;
    impl.set_sizes_and_strides(told.sizes, told.strides, offset + told.offset - view.sourceTold.numbers.offset);
  } else {
    Geometry told = sizes_.geometry(view.told);
    impl.set_sizes_and_strides(told.sizes, told.strides,
                               offset + told.offset - sizes_.geometry(view.sourceTold).offset);
  }
  slots_[view.slot] = std::move(made);
}

void Run::pushArguments(const Instruction& at) {
  stack_.assign(at.arguments.begin(), at.arguments.end());
  for (const Operand& operand : at.operands) {
    at::Tensor& slot = slots_[operand.slot];
    if (operand.last) {
      stack_[operand.argument] = std::move(slot);
    } else {
      stack_[operand.argument] = slot;
    }
  }
  for (const ListOperand& operand : at.lists) {
    auto fill = [&](auto list) {
      list.reserve(operand.slots.size());
      for (uint32_t slot : operand.slots) {
        if (slot == kNone) {
          list.push_back({});
        } else {
          list.push_back(slots_[slot]);
        }
      }
      stack_[operand.argument] = std::move(list);
    };
    if (operand.optional) {
      fill(c10::List<std::optional<at::Tensor>>());
    } else {
      fill(c10::List<at::Tensor>());
    }
  }
  for (const NumberOperand& operand : at.numbers) {
    auto part = [&](size_t i) {
      return operand.cells[i] == kNone ? operand.numbers[i] : sizes_.integer(operand.cells[i]);
    };
    if (!operand.list) {
      stack_[operand.argument] = part(0);
      continue;
    }
    c10::List<int64_t> list;
    list.reserve(operand.cells.size());
    for (size_t i = 0; i < operand.cells.size(); ++i) list.push_back(part(i));
    stack_[operand.argument] = std::move(list);
  }
  for (uint32_t argument : at.converted) {
    const c10::Type& type = *at.handle->schema().arguments()[argument].real_type();
    stack_[argument] = aten::argument(at.node->arg(argument), type, *this);
  }
}

void Run::takeResults(const Instruction& at) {
  size_t next = 0;
  for (size_t i = 0; i < stack_.size(); ++i) {
    // The stack lets go of each result before it is taken, so that a fresh one has one owner.
    c10::IValue value = std::move(stack_[i]);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list = std::move(value).toTensorList();
      // How many there are may depend on data where nothing is known of the operator.
      size_t others = stack_.size() - 1 - i, count = list.size();
      if (next + count + others != at.results.size()) failForSizes(at.node->op()->qualified);
      for (size_t k = 0; k < count; ++k) take(at.results[next++], list.extract(k));
    } else if (next >= at.results.size()) {
      break;
    } else if (value.isTensor()) {
      take(at.results[next++], std::move(value).toTensor());
    } else {
      const Result& result = at.results[next++];
      if (result.cell != kNone) setValue(result.value, std::move(value));
    }
  }
}

// Sizes that no input has told.
void Run::bindSizes(const Result& result, const at::Tensor& real) {
  for (const auto& [dimension, cell] : result.binds) {
    sym::Cell& size = sizes_.cell(cell);
    if (!size.known && dimension < static_cast<uint32_t>(real.dim())) size.set(real.size(dimension));
  }
}

void Run::take(const Result& result, at::Tensor real) {
  if (!result.tensor || !real.defined()) return;
  if (result.slot == kNone && !conduct_ && result.binds.empty()) return;
  if (freely_) {
    bindSizes(result, real);
    if (result.slot != kNone) slots_[result.slot] = std::move(real);
    return;
  }
  if (result.fresh) {
    checkPlain(result.value->def()->op()->qualified, real);
    bindSizes(result, real);
    bool computed = !result.told.cells.empty();
    Geometry made;
    if (computed) made = sizes_.geometry(result.told);
    const Geometry& told = computed ? made : result.told.numbers;
    if (real.sizes() != c10::IntArrayRef(told.sizes)) failForSizes(result.value->def()->op()->qualified);
    // Later nodes and every view count on the layout that the graph tells.
    bool moved = !told.hasLayoutOf(real);
    if (moved) real = at::empty_strided(told.sizes, told.strides, real.options()).copy_(real);
    if (conduct_) real = conduct_->fresh(*result.value, std::move(real), told, moved);
  } else if (result.foreign && result.told.cells.empty() &&
             real.sizes() != c10::IntArrayRef(result.told.numbers.sizes)) {
    failForSizes(result.value->def()->op()->qualified);
  }
  if (result.slot != kNone) slots_[result.slot] = std::move(real);
}

}  // namespace saker::runtime
