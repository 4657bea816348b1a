#include "aten/symbolic_tensor.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

namespace saker::aten {

at::Tensor symbolicTensor(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, const c10::SymInt& offset,
                          c10::ScalarType dtype, c10::Device device) {
  c10::DispatchKey key =
      c10::backendToDispatchKey(c10::dispatchKeyToBackend(c10::computeDispatchKey(dtype, c10::kStrided, device)));
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, device), nullptr, false);
  // Not the whole storage: views ask for it.
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "a tensor with symbolic sizes has no data");
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                               c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

std::vector<c10::SymInt> rowMajorStrides(c10::SymIntArrayRef sizes) {
  std::vector<c10::SymInt> strides(sizes.size());
  c10::SymInt stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * sizes[i].max(1);
  }
  return strides;
}

}  // namespace saker::aten
