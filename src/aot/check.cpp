#include "aot/check.h"

#include "aot/number_inputs.h"
#include "aten/enums.h"
#include "runtime/geometry.h"

namespace saker::aot {

namespace {

std::string text(c10::IntArrayRef sizes) {
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + ")";
}

int64_t numberOf(sym::Int value, const sym::Assignment& symbols) {
  if (value.isConst()) return value.constant();
  std::optional<int64_t> number = sym::evaluateInt(value.node(), symbols);
  if (!number) throw WrongArguments("the size " + sym::toString(value) + " has no value here");
  return *number;
}

class PrimalCheck {
 public:
  PrimalCheck(const Plan& plan, const sym::Assignment& symbols) : plan_(plan), symbols_(symbols) {}

  void check(size_t primal, const at::Tensor& given) const {
    const ir::TensorType& type = *plan_.joint.program->graph->top()->parameters()[primal]->tensor();
    if (aten::toDType(given.scalar_type()) != type.dtype) {
      fail(primal, std::string("has dtype ") + c10::toString(given.scalar_type()) + ", the function was compiled for " +
                       c10::toString(aten::fromDType(type.dtype)));
    }
    if (given.device() != aten::fromDevice(type.device)) fail(primal, "is on device " + given.device().str());
    c10::IntArrayRef sizes = given.sizes(), strides = given.strides();
    bool same = sizes.size() == type.rank, sameStrides = true;
    for (size_t i = 0; same && i < type.rank; ++i) {
      same &= sizes[i] == numberOf(type.size(i), symbols_);
      sameStrides &= sizes[i] <= 1 || strides[i] == numberOf(type.stride(i), symbols_);
    }
    if (!same) failGeometry(primal, "sizes", sizes, runtime::geometryOf(type, symbols_).sizes);
    if (given.numel() == 0) return;
    if (!sameStrides) failGeometry(primal, "strides", strides, runtime::geometryOf(type, symbols_).strides);
    if (plan_.exactOffset[primal] && given.storage_offset() != numberOf(type.offset, symbols_)) {
      fail(primal, "starts at another place of its memory");
    }
  }

 private:
  [[noreturn]] void fail(size_t primal, const std::string& what) const {
    const Joint& joint = plan_.joint;
    size_t caller = joint.sources[primal].caller;
    std::string name = caller < joint.arguments                        ? "argument " + std::to_string(caller)
                       : caller < joint.arguments + joint.bases.size() ? "the base of an argument"
                                                                       : "a tensor that the function closes over";
    throw WrongArguments(name + " " + what);
  }
  [[noreturn]] void failGeometry(size_t primal, const std::string& what, c10::IntArrayRef given,
                                 c10::IntArrayRef told) const {
    fail(primal, "has " + what + " " + text(given) + ", the function was compiled for " + text(told));
  }

  const Plan& plan_;
  const sym::Assignment& symbols_;
};

// What was asked of Python's floats, who computed with them has checked: the graphs are given what came of them.
void checkGuards(const Plan& plan, const sym::Assignment& symbols) {
  for (const sym::Guard& guard : plan.joint.program->context->symbols().guards()) {
    std::optional<bool> holds = sym::evaluateBool(guard.condition, symbols);
    if (!holds && namesFloat(guard.condition)) continue;
    if (!holds || !*holds) {
      throw WrongArguments("the function was compiled for sizes with " + sym::toString(guard.condition) +
                           ", which does not hold for these");
    }
  }
}

}  // namespace

sym::Assignment checkPrimals(const Plan& plan, std::span<const at::Tensor> primals) {
  sym::Assignment symbols;
  if (plan.symbolic) {
    try {
      symbols = runtime::bindSymbols(*plan.joint.program->graph, primals);
    } catch (const std::runtime_error& error) {
      throw WrongArguments(error.what());
    }
    // A symbol stands for sizes from 2 on: smaller ones mean other things in PyTorch.
    std::string why = runtime::outOfRange(plan.joint.program->context->symbols(), symbols);
    if (!why.empty()) throw WrongArguments(why + ": the function was compiled for others");
  }
  PrimalCheck check(plan, symbols);
  for (size_t i = 0; i < primals.size(); ++i) {
    if (!plan.joint.sources[i].flat) check.check(i, primals[i]);
  }
  if (plan.symbolic) checkGuards(plan, symbols);
  return symbols;
}

void checkMembers(const Plan& plan, std::span<const at::Tensor> tensors) {
  for (const Joint::Member& member : plan.joint.members) {
    const at::Tensor& given = tensors[member.argument];
    if (given.sizes() != c10::IntArrayRef(member.sizes) || given.strides() != c10::IntArrayRef(member.strides) ||
        given.storage_offset() != member.offset) {
      throw WrongArguments("argument " + std::to_string(member.argument) +
                           " lies elsewhere in the memory that it shares with another one");
    }
  }
}

WithoutHooks::WithoutHooks() : kept_(at::SavedTensorDefaultHooks::get_tls_state()) {
  if (kept_.stack.empty()) return;
  at::impl::SavedTensorDefaultHooksTLS none = kept_;
  none.stack = {};
  at::SavedTensorDefaultHooks::set_tls_state(none);
}

WithoutHooks::~WithoutHooks() {
  if (!kept_.stack.empty()) at::SavedTensorDefaultHooks::set_tls_state(kept_);
}

}  // namespace saker::aot
