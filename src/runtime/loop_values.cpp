#include "runtime/loop_values.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <stdexcept>

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

// What each step gave for each value that is carried; `last` are the results of the loop.
static std::vector<at::Tensor> loopRows(const at::Tensor& history, at::TensorList first, at::TensorList last) {
  const History* kept = historyOf(history);
  if (!kept) throw std::runtime_error("the values that a loop has carried were copied, and are not known any more");
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < last.size(); ++i) {
    std::vector<at::Tensor> rows;
    for (const Values& values : kept->carried) rows.push_back(values.at(i).toTensor());
    rows.push_back(kept->steps ? last[i] : first[i]);
    all.push_back(at::stack(rows));
  }
  return all;
}

TORCH_LIBRARY_FRAGMENT(saker, library) {
  library.def("loop_rows(Tensor history, Tensor[] first, Tensor[] last) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(saker, CompositeExplicitAutograd, library) { library.impl("loop_rows", &loopRows); }

static std::atomic<Interruption> interruption = nullptr;

void setInterruption(Interruption check) { interruption = check; }

void checkInterruption() {
  if (Interruption check = interruption) check();
}

}  // namespace saker::runtime
