#include "runtime/prepared.h"

#include "aten/trace_key.h"

namespace saker::runtime {

const Executable& Prepared::get(std::span<const at::Tensor> inputs) const {
  bool recorded = !(c10::impl::tls_local_dispatch_key_set().included_ & aten::kRecordingKeys).empty();
  for (const at::Tensor& input : inputs) {
    if (recorded) break;
    // Wrappers of functorch's and classes of Python's answer for themselves.
    constexpr c10::DispatchKeySet others =
        aten::kRecordingKeys |
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                             c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize});
    recorded = input.defined() && !(input.key_set() & others).empty();
  }
  if (recorded) return get(Executable::Views::Called);
  const Executable& direct = get(Executable::Views::Direct);
  return direct.mayMakeViews(inputs) ? direct : get(Executable::Views::Called);
}

}  // namespace saker::runtime
