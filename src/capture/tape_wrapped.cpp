// Tensors that are made of others on a tape: what is asked of them is an operator of the program.
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "capture/tape.h"
#include "ops/operator.h"

namespace saker::tracing {

namespace {

bool answersItself(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

}  // namespace

bool Tape::isWrapper(const at::Tensor& tensor) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return host().isWrapper && answersItself(tensor) && tensor.layout() == c10::kStrided && impl.has_storage() &&
         !impl.has_symbolic_sizes_strides() && host().isWrapper(tensor);
}

bool Tape::callWrapped(const Call& call) {
  if (spoiled_ || !host().isWrapper || c10::impl::TorchDispatchModeTLS::any_modes_set()) return false;
  bool known = true;
  eachTensor(call.values, [&](const at::Tensor& tensor) { known &= !answersItself(tensor) || isWrapper(tensor); });
  if (!known) return false;
  const Entry* entry = inference().find(call.op);
  auto answer = [](Tape& tape, const Call& given) {
    auto run = [&] {
      TapeScope untaped(nullptr);
      given.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Python), given.stack);
    };
    tape.host().unwatched([](void* function) { (*static_cast<decltype(run)*>(function))(); }, &run);
  };
  if (isRecorded(call, entry)) {
    perform(call, entry, answer);
  } else {
    answer(*this, call);
  }
  return true;
}

}  // namespace saker::tracing
