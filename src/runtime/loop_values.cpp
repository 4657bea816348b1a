#include "runtime/loop_values.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/from_blob.h>

#include <atomic>
#include <memory>

namespace saker::runtime {

void copyShared(Values& results, const Values& given) {
  auto shares = [](const at::Tensor& tensor, const Values& others, size_t count) {
    for (size_t k = 0; k < count; ++k) {
      if (others[k].isTensor() && others[k].toTensor().is_alias_of(tensor)) return true;
    }
    return false;
  };
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i].toTensor();
    if (shares(result, given, given.size()) || shares(result, results, i)) results[i] = at::clone(result);
  }
}

static void freeHistory(void* history) { delete static_cast<History*>(history); }

at::Tensor keepHistory(History history) {
  auto owned = std::make_unique<History>(std::move(history));
  c10::DataPtr pointer(&owned->steps, owned.get(), &freeHistory, c10::kCPU);
  owned.release();
  c10::Storage storage(c10::Storage::use_byte_size_t(), sizeof(int64_t), std::move(pointer), nullptr,
                       /*resizable=*/false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         caffe2::TypeMeta::Make<int64_t>());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({1});
  return tensor;
}

const History* historyOf(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  const c10::DataPtr& pointer = tensor.storage().data_ptr();
  return pointer.get_deleter() == &freeHistory ? static_cast<const History*>(pointer.get_context()) : nullptr;
}

static std::atomic<Interruption> interruption = nullptr;

void setInterruption(Interruption check) { interruption = check; }

void checkInterruption() {
  if (Interruption check = interruption) check();
}

}  // namespace saker::runtime
