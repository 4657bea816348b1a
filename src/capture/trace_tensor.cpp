#include "capture/trace_tensor.h"

#include <c10/core/SafePyObject.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <typeinfo>

#include "aten/torch_version/storage_access.h"
#include "capture/trace.h"

namespace saker::tracing {

namespace {

constexpr const char* kNotThere =
    "this tensor's data is not there yet: it is recorded in a saker trace that has not run. Reading it from C++ needs "
    "a flush before.";

// key_set_ is protected; a class without members of its own may still reach it.
struct KeySetAccess : c10::TensorImpl {
  static void drop(c10::TensorImpl& tensor) {
    auto& keys = tensor.*(&KeySetAccess::key_set_);
    keys = keys - kTraceKeys;
  }
};

}  // namespace

void dropTraceKey(c10::TensorImpl& tensor) { KeySetAccess::drop(tensor); }

TraceStorage::TraceStorage(std::shared_ptr<Trace> trace, ir::Value* root, c10::SymInt bytes, c10::Device device,
                           c10::Allocator* allocator)
    : c10::StorageImpl(use_byte_size_t(), std::move(bytes), at::DataPtr(nullptr, device), allocator,
                       /*resizable=*/allocator != nullptr),
      trace_(std::move(trace)),
      root_(root) {
  release_data_and_set_meta_custom_data_ptr_error_msg_(kNotThere);
}

TraceStorage::~TraceStorage() { leave(); }

void TraceStorage::release_resources() {
  leave();
  c10::StorageImpl::release_resources();
}

void TraceStorage::leave() {
  root_ = nullptr;
  trace_.reset();
}

void TraceStorage::fill(const c10::Storage& from) {
  leave();
  aten::allowAccess(*this);
  set_nbytes(from.nbytes());
  if (from.use_count() == 1) {
    set_data_ptr_noswap(std::move(from.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
    return;
  }
  // Someone else holds these bytes too: share them and keep their owner.
  auto* owner = new c10::Storage(from);
  set_data_ptr_noswap(at::DataPtr(
      owner->mutable_data(), owner, [](void* kept) { delete static_cast<c10::Storage*>(kept); }, from.device()));
}

void TraceStorage::poison(Failure why, const std::string& text) {
  leave();
  failure_ = std::move(why);
  release_data_and_set_meta_custom_data_ptr_error_msg_(text);
}

TraceStorage* traceStorage(const c10::TensorImpl& tensor) {
  if (!tensor.has_storage()) return nullptr;
  c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  return storage && typeid(*storage) == typeid(TraceStorage) ? static_cast<TraceStorage*>(storage) : nullptr;
}

TraceStorage* pendingStorage(const c10::TensorImpl& tensor) {
  TraceStorage* storage = traceStorage(tensor);
  return storage && storage->root() ? storage : nullptr;
}

TraceTensor::TraceTensor(std::shared_ptr<Trace> trace, ir::Value* value, c10::Storage&& storage,
                         c10::DispatchKeySet keys, caffe2::TypeMeta dtype)
    : c10::TensorImpl(std::move(storage), keys, dtype), trace_(std::move(trace)), value_(value) {
  join();
}

TraceTensor::~TraceTensor() { leave(); }

void TraceTensor::release_resources() {
  leave();
  c10::TensorImpl::release_resources();
}

void TraceTensor::join() {
  if (!trace_) return;
  std::lock_guard guard(trace_->listLock_);
  next_ = trace_->living_;
  if (next_) next_->previous_ = this;
  trace_->living_ = this;
}

void TraceTensor::leave() {
  if (!trace_) return;
  {
    std::lock_guard guard(trace_->listLock_);
    (previous_ ? previous_->next_ : trace_->living_) = next_;
    if (next_) next_->previous_ = previous_;
    next_ = previous_ = nullptr;
    value_ = nullptr;
  }
  trace_.reset();
}

template <typename Version>
c10::intrusive_ptr<c10::TensorImpl> TraceTensor::copy(Version&& version, bool allowChange) const {
  c10::intrusive_ptr<c10::TensorImpl> made;
  // A mode that sees every operator sees this detach too, as it does of ordinary tensors.
  int64_t modes = c10::impl::TorchDispatchModeTLS::stack_len();
  if (modes > 0 && !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) {
    made = c10::impl::TorchDispatchModeTLS::get_stack_at(modes - 1)->pyinterpreter()->detach(this);
    if (made) {
      if (!made->is_inference()) made->set_version_counter(std::forward<Version>(version));
      made->set_allow_tensor_metadata_change(allowChange);
      return made;
    }
  }
  if (trace_) {
    made = c10::make_intrusive<TraceTensor>(trace_, value_, c10::Storage(storage_), key_set(), data_type_);
  } else {
    made = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage_), key_set(), data_type_);
  }
  copy_tensor_metadata(this, made.get(), std::forward<Version>(version), allowChange);
  return made;
}

c10::intrusive_ptr<c10::TensorImpl> TraceTensor::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                         bool allowChange) const {
  return copy(version, allowChange);
}

c10::intrusive_ptr<c10::TensorImpl> TraceTensor::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                         bool allowChange) const {
  // A counter of its own, which is how PyTorch makes `.data`.
  c10::intrusive_ptr<c10::TensorImpl> made = copy(std::move(version), allowChange);
  if (TraceTensor* alias = traceTensor(*made)) alias->setHidesWrites(true);
  return made;
}

void TraceTensor::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& from) {
  // A body that fails could not take it back.
  if (trace_ && trace_->inner_) {
    trace_->raise({ops::Reason::Unsupported, "a body sets .data of a tensor that was made outside of it"});
  }
  c10::TensorImpl::shallow_copy_from(from);
  leave();
  if (TraceTensor* other = traceTensor(*from)) {
    trace_ = other->trace_;
    value_ = other->value_;
    join();
  }
}

namespace {

int64_t asNumber(const c10::SymInt& value) { return value.guard_int(__FILE__, __LINE__); }

c10::IntArrayRef asNumbers(c10::SymIntArrayRef values, std::unique_ptr<std::vector<int64_t>>& kept) {
  kept = std::make_unique<std::vector<int64_t>>();
  for (const c10::SymInt& value : values) kept->push_back(asNumber(value));
  return *kept;
}

}  // namespace

int64_t TraceTensor::size_custom(int64_t dim) const {
  c10::SymIntArrayRef sizes = sym_sizes_default();
  return asNumber(sizes[static_cast<size_t>(c10::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size())))]);
}

c10::IntArrayRef TraceTensor::sizes_custom() const {
  return has_symbolic_sizes_strides_ ? asNumbers(sym_sizes_default(), sizes_) : sizes_default();
}

c10::IntArrayRef TraceTensor::strides_custom() const {
  return has_symbolic_sizes_strides_ ? asNumbers(sym_strides_default(), strides_) : strides_default();
}

int64_t TraceTensor::numel_custom() const {
  return has_symbolic_sizes_strides_ ? asNumber(sym_numel_default()) : numel_default();
}

int64_t TraceTensor::storage_offset_custom() const {
  return has_symbolic_sizes_strides_ ? asNumber(sym_storage_offset_default()) : storage_offset_default();
}

TraceTensor* traceTensor(const c10::TensorImpl& tensor) {
  if (typeid(tensor) != typeid(TraceTensor)) return nullptr;
  auto* found = static_cast<TraceTensor*>(const_cast<c10::TensorImpl*>(&tensor));
  return found->trace() ? found : nullptr;
}

}  // namespace saker::tracing
