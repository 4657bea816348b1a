#include "capture/trace.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorOptions.h>

#include "aten/convert.h"
#include "aten/enums.h"
#include "aten/sym_node.h"
#include "ops/operator.h"

namespace saker::capture {

namespace {

// What lies on a thread. The dispatcher has thread-local state, so whoever stands behind it has too.
thread_local Trace* currentTrace = nullptr;

std::string plainErrorText(const std::exception& error) { return error.what(); }

c10::SymDimVector toSymInts(const aten::SharedContext& context, std::span<const sym::Int> values) {
  c10::SymDimVector out;
  for (sym::Int value : values) out.push_back(aten::toSymInt(context, value));
  return out;
}

void setSizes(c10::TensorImpl& impl, const aten::SharedContext& context, const ir::TensorType& type) {
  if (type.symbolic) {
    impl.set_sizes_and_strides(toSymInts(context, type.sizes()), toSymInts(context, type.strides()),
                               aten::toSymInt(context, type.offset));
    return;
  }
  c10::DimVector sizes, strides;
  for (sym::Int size : type.sizes()) sizes.push_back(size.constant());
  for (sym::Int stride : type.strides()) strides.push_back(stride.constant());
  impl.set_sizes_and_strides(sizes, strides, type.offset.constant());
}

bool hasGeometry(const c10::TensorImpl& impl, const ir::TensorType& type) {
  if (type.symbolic || impl.has_symbolic_sizes_strides()) return true;  // changed only by operators, which say so
  if (static_cast<size_t>(impl.dim()) != type.rank || impl.storage_offset() != type.offset.constant()) return false;
  for (size_t i = 0; i < type.rank; ++i) {
    if (impl.sizes()[i] != type.size(i).constant() || impl.strides()[i] != type.stride(i).constant()) return false;
  }
  return true;
}

c10::SymInt storageBytes(const aten::SharedContext& context, const ir::TensorType& type) {
  size_t itemSize = static_cast<size_t>(ir::byteSize(type.dtype));
  if (type.symbolic) {
    return at::detail::computeStorageNbytes(toSymInts(context, type.sizes()), toSymInts(context, type.strides()),
                                            c10::SymInt(static_cast<int64_t>(itemSize)),
                                            aten::toSymInt(context, type.offset));
  }
  int64_t extent = 1;
  for (size_t i = 0; i < type.rank; ++i) {
    if (type.size(i).constant() == 0) return 0;
    extent += (type.size(i).constant() - 1) * type.stride(i).constant();
  }
  return (extent + type.offset.constant()) * static_cast<int64_t>(itemSize);
}

const aten::SymNode* noWrapper(const c10::SymNodeImpl&) { return nullptr; }

}  // namespace

aten::Hooks plainHooks() { return {&plainErrorText, &noWrapper}; }

Trace* current() { return currentTrace; }

TraceScope::TraceScope(std::shared_ptr<Trace> trace)
    : trace_(std::move(trace)),
      previous_(currentTrace),
      wasRecording_(c10::impl::tls_is_dispatch_key_included(kTraceKey)) {
  currentTrace = trace_.get();
  setRecordingOnThisThread(true);
}

TraceScope::~TraceScope() {
  currentTrace = previous_;
  setRecordingOnThisThread(wasRecording_);
}

Trace::Trace(Mode mode, Host host)
    : mode_(mode),
      host_(host),
      context_(std::make_shared<ir::Context>(ops::lookup)),
      graph_(std::make_unique<ir::Graph>(context_)),
      inference_(host.hooks) {}

Trace::~Trace() = default;

uint64_t Trace::keep(c10::IValue object) {
  kept_.push_back(std::move(object));
  return kept_.size() - 1;
}

ir::Value* Trace::valueOf(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (TraceTensor* own = traceTensor(impl); own && own->trace().get() == this && own->value()) {
    if (hasGeometry(impl, *own->value()->tensor())) return own->value();
  }
  if (TraceStorage* storage = pendingStorage(impl)) return viewOfStorage(tensor, storage->root());
  return inputFor(tensor);
}

ir::Value* Trace::viewOfStorage(const at::Tensor& tensor, ir::Value* root) {
  // A tensor that came to this storage without an operator (`.data = `): what it sees of the result that fills it.
  Arena scratch;
  ir::TensorSpec spec(*aten::Converter(*context_, scratch, host_.hooks.unwrap).tensor(tensor));
  spec.flags.requiresGrad = false;
  const ir::TensorType* type = context_->types().tensor(spec);
  SAKER_CHECK(type->dtype == root->tensor()->dtype, "another dtype on a pending storage is flushed before");
  std::vector<ir::Arg> sizes, strides;
  for (sym::Int size : type->sizes()) sizes.push_back(ir::Arg::symInt(size));
  for (sym::Int stride : type->strides()) strides.push_back(ir::Arg::symInt(stride));
  ir::Arg args[] = {ir::Arg::value(root), ir::Arg::list(sizes), ir::Arg::list(strides), ir::Arg::symInt(type->offset)};
  const ir::Type* results[] = {type};
  return graph_->append(graph_->top(), context_->op("aten::as_strided"), args, results)->result();
}

ir::Value* Trace::inputFor(const at::Tensor& tensor) {
  Arena scratch;
  ir::TensorSpec spec(*aten::Converter(*context_, scratch, host_.hooks.unwrap).tensor(tensor));
  spec.flags.requiresGrad = false;
  const ir::TensorType* type = context_->types().tensor(spec);
  std::vector<ir::Value*>& known = inputsOf_[tensor.storage().unsafeGetStorageImpl()];
  for (ir::Value* value : known) {
    if (value->type() == type) return value;
  }
  ir::Value* value = graph_->addParameter(graph_->top(), type);
  known.push_back(value);
  inputs_.push_back({value, tensor.storage()});
  return value;
}

at::Tensor Trace::makeTensor(ir::Value* value, const c10::Storage* base) {
  const ir::TensorType& type = *value->tensor();
  c10::Device device = aten::fromDevice(type.device);
  c10::Storage storage;
  if (base) {
    storage = *base;
  } else {
    auto fresh = c10::make_intrusive<TraceStorage>(shared_from_this(), value, storageBytes(context_, type), device,
                                                   c10::GetAllocator(device.type()));
    if (storages_.size() <= value->id()) storages_.resize(value->id() + 1);
    storages_[value->id()] = fresh.get();
    storage = c10::Storage(std::move(fresh));
  }
  c10::ScalarType dtype = aten::fromDType(type.dtype);
  c10::DispatchKeySet keys = c10::DispatchKeySet(c10::computeDispatchKey(dtype, c10::kStrided, device)) | kTraceKeys;
  at::Tensor tensor = at::detail::make_tensor<TraceTensor>(shared_from_this(), value, std::move(storage), keys,
                                                           c10::scalarTypeToTypeMeta(dtype));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  setSizes(impl, context_, type);
  if (type.flags.conj) impl._set_conj(true);
  if (type.flags.neg) impl._set_neg(true);
  return tensor;
}

void Trace::setGeometry(const at::Tensor& tensor, ir::Value* value, const ir::TensorType& type) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  setSizes(impl, context_, type);
  if (TraceTensor* own = traceTensor(impl)) own->setValue(value);
}

void Trace::noteWrite(const at::Tensor& tensor) {
  if (tensor.has_storage()) written_[tensor.storage().unsafeGetStorageImpl()] = true;
}

void Trace::settleTensors() {
  while (TraceTensor* tensor = living_) {
    dropTraceKey(*tensor);
    tensor->leave();
  }
}

void Trace::reset() {
  settleTensors();
  inputs_.clear();
  inputsOf_.clear();
  written_.clear();
  storages_.clear();
  kept_.clear();
  graph_ = std::make_unique<ir::Graph>(context_);
}

void Trace::poisonPending(const std::string& why) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i]) storages_[i]->poison(why);
  }
}

void Trace::abandon(const std::string& why) {
  std::shared_ptr<Trace> self = shared_from_this();
  std::lock_guard guard(lock_);
  poisonPending(why);
  reset();
}

}  // namespace saker::capture
