#include "capture/trace.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorOptions.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

#include "aten/enums.h"
#include "aten/sym_node.h"
#include "aten/version_counter.h"
#include "capture/errors.h"
#include "capture/undo.h"

namespace saker::tracing {

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
  if (type.symbolic || impl.has_symbolic_sizes_strides()) {
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

// Is it all the same to the program which of the two, of one geometry over one memory, is used?
bool isAsGood(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b)) return true;
  if (a.requires_grad() || b.requires_grad()) return false;
  return a.is_inference() ? b.is_inference() : aten::sharesVersion(a, b);
}

const aten::SymNode* noWrapper(const c10::SymNodeImpl&) { return nullptr; }

}  // namespace

aten::Hooks plainHooks() { return {&plainErrorText, &noWrapper}; }

Trace* current() { return currentTrace; }

void leaveMode() {
  currentTrace = nullptr;
  aten::setRecordingOnThisThread(false);
}

TraceScope::TraceScope(std::shared_ptr<Trace> trace)
    : trace_(std::move(trace)),
      previous_(currentTrace),
      wasRecording_(c10::impl::tls_is_dispatch_key_included(kTraceKey)) {
  currentTrace = trace_.get();
  aten::setRecordingOnThisThread(true);
}

TraceScope::~TraceScope() {
  currentTrace = previous_;
  aten::setRecordingOnThisThread(wasRecording_);
}

Trace::Trace(Mode mode, Host host, std::shared_ptr<ir::Context> context)
    : Recording(host, std::move(context)), mode_(mode), undo_(std::make_unique<Undo>()) {
  if (mode == Mode::Capture && host.othersRun()) undo_->countByOperators();
}

Trace::~Trace() = default;

ir::Attributes Trace::modesOf(const Entry* entry) const {
  ir::Attributes modes = Recording::modesOf(entry);
  if (inferenceHere_) modes.inferenceToggled = c10::InferenceMode::is_enabled() != *inferenceHere_;
  return modes;
}

std::unique_lock<std::recursive_mutex> Trace::lock() {
  if (around_) return around_->lock();
  std::unique_lock<std::recursive_mutex> held(lock_, std::try_to_lock);
  if (held) return held;
  if (host().wait) {
    host().wait([](void* mutex) { static_cast<std::recursive_mutex*>(mutex)->lock(); }, &lock_);
    return std::unique_lock(lock_, std::adopt_lock);
  }
  held.lock();
  return held;
}

void Trace::noteSequence(uint64_t number, const ir::Location* location) {
  if (location) sequences_[number] = location;
}

const ir::Location* Trace::locationOfSequence(uint64_t number) const {
  auto found = sequences_.find(number);
  if (found == sequences_.end()) return around_ ? around_->locationOfSequence(number) : nullptr;
  return found->second;
}

const ir::Location* Trace::whereAmI() {
  if (const auto node = torch::autograd::get_current_node()) {
    if (const ir::Location* forward = locationOfSequence(node->sequence_nr())) return forward;
    return lastLocation_;
  }
  if (const ir::Location* known = here()) lastLocation_ = known;
  return lastLocation_;
}

ir::Value* Trace::valueOf(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (outer() && !owns(impl)) return valueAround(tensor);
  TraceStorage* storage = traceStorage(impl);
  // A storage that got its data early is an input, whatever was recorded of it before.
  if (storage && !storage->root()) return inputFor(tensor);
  TraceTensor* own = traceTensor(impl);
  if (own && own->value() && own->trace().get() == this && hasGeometry(impl, *own->value()->tensor())) {
    if (own->hidesWrites() && mode_ == Mode::Capture && !mayBeEager_) {
      own->setValue(detached(own->value(), true));
      own->setHidesWrites(false);
    }
    return own->value();
  }
  return storage ? viewOfStorage(tensor, storage->root()) : inputFor(tensor);
}

// A tensor that came to a pending storage without an operator (`.data = `): what it sees of the result that fills it.
ir::Value* Trace::viewOfStorage(const at::Tensor& tensor, ir::Value* root) {
  const ir::TensorType* type = typeOf(tensor);
  SAKER_CHECK(type->dtype == root->tensor()->dtype, "another dtype on a pending storage is flushed before");
  return appendView(root, type);
}

ir::Value* Trace::inputFor(const at::Tensor& tensor) {
  const ir::TensorType* type = typeOf(tensor);
  const at::Tensor met = mode_ == Mode::Capture ? tensor : at::Tensor();
  std::vector<Met>& known = inputsOf_[tensor.storage().unsafeGetStorageImpl()];
  const Met* alike = nullptr;
  for (const Met& each : known) {
    if (each.value->type() != type) continue;
    if (mode_ != Mode::Capture || isAsGood(each.tensor, tensor)) return each.value;
    if (!alike || each.tensor.requires_grad()) alike = &each;
  }
  // Gradients, and counts of writes, are not those of the tensor that was met before: this is its .data or .detach().
  if (alike && !tensor.requires_grad()) {
    ir::Value* value = detached(alike->value, !aten::sharesVersion(alike->tensor, tensor));
    inputsOf_[tensor.storage().unsafeGetStorageImpl()].push_back({value, met});
    return value;
  }
  ir::Value* value = graph().addParameter(graph().top(), type);
  known.push_back({value, met});
  inputs_.push_back({value, tensor.storage(), met, false});
  inputMemory_.add(*tensor.storage().unsafeGetStorageImpl());
  if (mode_ == Mode::Capture) {
    undo_->noteView(tensor);
    undo_->noteLeaf(tensor);
  }
  return value;
}

ir::Value* Trace::detached(ir::Value* value, bool ownVersion) {
  return appendDetach(value, value->type(), ownVersion, whereAmI());
}

bool Trace::isPending(const at::Tensor& tensor) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.has_storage()) return false;
  if (TraceStorage* storage = pendingStorage(impl)) return isWithin(*storage->trace());
  return hasPendingWrite(impl.unsafe_storage().unsafeGetStorageImpl()) || (around_ && around_->isPending(tensor));
}

// PyTorch makes a storage that an array of NumPy sees, that other processes see or that is not its own one of a fixed
// length.
bool Trace::isExposed(const at::Tensor& tensor) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.has_storage() || pendingStorage(impl)) return false;
  const c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
  return (!storage.resizable() && storage.device().is_cpu()) || exposed_.overlaps(storage);
}

at::Tensor Trace::makeTensor(ir::Value* value, const c10::Storage* base) {
  const ir::TensorType& type = *value->tensor();
  c10::Device device = aten::fromDevice(type.device);
  c10::Storage storage;
  if (base) {
    storage = *base;
  } else {
    auto fresh = c10::make_intrusive<TraceStorage>(shared_from_this(), value, storageBytes(context(), type), device,
                                                   c10::GetAllocator(device.type()));
    storages_.push_back(
        {value->id(), c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>(fresh))});
    storage = c10::Storage(std::move(fresh));
  }
  c10::ScalarType dtype = aten::fromDType(type.dtype);
  c10::DispatchKeySet keys = c10::DispatchKeySet(c10::computeDispatchKey(dtype, c10::kStrided, device)) | kTraceKeys;
  at::Tensor tensor = at::detail::make_tensor<TraceTensor>(shared_from_this(), value, std::move(storage), keys,
                                                           c10::scalarTypeToTypeMeta(dtype));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  setSizes(impl, context(), type);
  if (type.flags.conj) impl._set_conj(true);
  if (type.flags.neg) impl._set_neg(true);
  if (type.flags.wrappedNumber) impl.set_wrapped_number(true);
  return tensor;
}

void Trace::setGeometry(const at::Tensor& tensor, ir::Value* value, const ir::TensorType& type) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  setSizes(impl, context(), type);
  // Without a value of its own it is what it sees of its storage.
  if (TraceTensor* own = traceTensor(impl)) own->setValue(value);
}

ir::Value* Trace::addLiteral(const at::Tensor& constant) {
  if (outer()) return outer()->addLiteral(constant);
  ir::Value* value = valueOf(constant);
  auto isIt = [&](const Input& input) { return input.value == value; };
  auto input = std::find_if(inputs_.rbegin(), inputs_.rend(), isIt);
  if (input == inputs_.rend() || input->literal) return value;
  input->literal = true;
  shared_->literals.emplace_back(value, constant);
  return value;
}

void Trace::noteWrite(const at::Tensor& tensor, VersionMoves moves) {
  if (!tensor.has_storage()) return;
  if (TraceStorage* storage = pendingStorage(*tensor.unsafeGetTensorImpl())) {
    if (storage->trace().get() != this) noteWriteAround(tensor, *storage, moves);
    return storage->noteWrite();
  }
  written_[tensor.storage().unsafeGetStorageImpl()] = true;
  writtenMemory_.add(*tensor.storage().unsafeGetStorageImpl());
  if (mode_ == Mode::Capture) undo_->noteWrite(tensor, moves);
}

void Trace::settleTensors(bool dropKeys) {
  for (;;) {
    TraceTensor* tensor;
    std::shared_ptr<Trace> self;  // outlives the lock: a tensor may hold the last reference
    std::lock_guard guard(listLock_);
    tensor = living_;
    if (!tensor) return;
    living_ = tensor->next_;
    if (living_) living_->previous_ = nullptr;
    tensor->next_ = nullptr;
    tensor->value_ = nullptr;
    if (dropKeys) dropTraceKey(*tensor);
    self = std::move(tensor->trace_);
  }
}

void Trace::reset(bool dropKeys) {
  settleTensors(dropKeys);
  userWrites_.clear();
  inputs_.clear();
  inputsOf_.clear();
  written_.clear();
  writtenMemory_.clear();
  inputMemory_.clear();
  if (!outer()) {
    shared_->kept.clear();
    shared_->literals.clear();
  }
  sequences_.clear();
  lastLocation_ = nullptr;
  storages_.clear();
}

void Trace::poisonPending(std::exception_ptr why, const std::string& text) {
  for (const Filled& filled : storages_) {
    c10::intrusive_ptr<c10::StorageImpl> storage = filled.storage.lock();
    auto* waiting = static_cast<TraceStorage*>(storage.get());
    if (waiting && waiting->root()) waiting->poison({why, host().rethrow}, text);
  }
}

void Trace::abandon(const ops::Refusal& why) {
  std::shared_ptr<Trace> self = shared_from_this();
  auto held = lock();
  poisonPending(error(why), why.message);
  reset(/*dropKeys=*/false);
  takeGraph();
}

std::exception_ptr Trace::error(const ops::Refusal& refusal, const std::string& op) {
  const ir::Location* location = op.empty() ? nullptr : whereAmI();
  if (host().error) return host().error(refusal, op, location);
  std::string where, what;
  if (location) where = std::string(location->file) + ":" + std::to_string(location->line) + ": ";
  if (!op.empty()) what = op + " cannot be captured: ";
  return std::make_exception_ptr(CaptureError(where + what + refusal.message));
}

void Trace::raise(const ops::Refusal& refusal, const std::string& op) {
  if (inner_) inner_->raise(refusal, op);
  std::exception_ptr raised = error(refusal, op);
  bool eagerRaises = refusal.reason == ops::Reason::BadArgument;
  if (mode_ == Mode::Capture && !eagerRaises && !refused_) refused_ = raised;
  std::rethrow_exception(raised);
}

}  // namespace saker::tracing
