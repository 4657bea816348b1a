#include "capture/trace.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ScalarOps.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorOptions.h>
#include <torch/csrc/autograd/function.h>

#include "aten/convert.h"
#include "aten/enums.h"
#include "aten/sym_node.h"
#include "aten/version_counter.h"
#include "capture/errors.h"
#include "capture/symbolic_number.h"
#include "capture/undo.h"
#include "ops/operator.h"

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
    : mode_(mode),
      host_(host),
      context_(context ? std::move(context) : std::make_shared<ir::Context>(ops::lookup)),
      graph_(std::make_unique<ir::Graph>(context_)),
      inference_(host.hooks),
      undo_(std::make_unique<Undo>()) {}

Trace::~Trace() = default;

std::unique_lock<std::recursive_mutex> Trace::lock() {
  std::unique_lock<std::recursive_mutex> held(lock_, std::try_to_lock);
  if (held) return held;
  if (host_.wait) {
    host_.wait([](void* mutex) { static_cast<std::recursive_mutex*>(mutex)->lock(); }, &lock_);
    return std::unique_lock(lock_, std::adopt_lock);
  }
  held.lock();
  return held;
}

at::Tensor Trace::placeholder(const c10::IValue& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number.isSymFloat() ? at::Scalar(0.0) : at::Scalar(kSymbolicPlaceholder));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  placeholders_.emplace_back(tensor, number);
  return tensor;
}

c10::IValue Trace::symbolicNumber(const at::Tensor& tensor) const {
  for (const auto& [placeholder, number] : placeholders_) {
    if (placeholder.is_same(tensor)) return number;
  }
  SymbolicNumber ask = tracing::symbolicNumber();
  return ask ? ask(tensor) : c10::IValue();
}

uint64_t Trace::keep(c10::IValue object) {
  kept_.push_back(std::move(object));
  return kept_.size() - 1;
}

void Trace::noteSequence(uint64_t number, const ir::Location* location) {
  if (location) sequences_[number] = location;
}

const ir::Location* Trace::locationOfSequence(uint64_t number) const {
  auto found = sequences_.find(number);
  return found == sequences_.end() ? nullptr : found->second;
}

const ir::Location* Trace::whereAmI() {
  if (const auto node = torch::autograd::get_current_node()) {
    if (const ir::Location* forward = locationOfSequence(node->sequence_nr())) return forward;
    return lastLocation_;
  }
  if (host_.location) {
    if (const ir::Location* here = host_.location(*context_)) lastLocation_ = here;
  }
  return lastLocation_;
}

ir::Value* Trace::valueOf(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
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

// As the graph has it: requires_grad is autograd's, which lies above.
const ir::TensorType* Trace::typeOf(const at::Tensor& tensor) {
  Arena scratch;
  ir::TensorSpec spec(*aten::Converter(*context_, scratch, host_.hooks.unwrap).tensor(tensor));
  spec.flags.requiresGrad = false;
  spec.flags.wrappedNumber = false;
  return context_->types().tensor(spec);
}

// A tensor that came to a pending storage without an operator (`.data = `): what it sees of the result that fills it.
ir::Value* Trace::viewOfStorage(const at::Tensor& tensor, ir::Value* root) {
  const ir::TensorType* type = typeOf(tensor);
  SAKER_CHECK(type->dtype == root->tensor()->dtype, "another dtype on a pending storage is flushed before");
  std::vector<ir::Arg> sizes, strides;
  for (sym::Int size : type->sizes()) sizes.push_back(ir::Arg::symInt(size));
  for (sym::Int stride : type->strides()) strides.push_back(ir::Arg::symInt(stride));
  ir::Arg args[] = {ir::Arg::value(root), ir::Arg::list(sizes), ir::Arg::list(strides), ir::Arg::symInt(type->offset)};
  const ir::Type* results[] = {type};
  ir::Attributes modes{.noGrad = true};
  return graph_->append(graph_->top(), context_->op("aten::as_strided"), args, results, {nullptr, modes})->result();
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
  ir::Value* value = graph_->addParameter(graph_->top(), type);
  known.push_back({value, met});
  inputs_.push_back({value, tensor.storage(), met, false});
  inputMemory_.add(*tensor.storage().unsafeGetStorageImpl());
  if (mode_ == Mode::Capture) undo_->noteLeaf(tensor);
  return value;
}

ir::Value* Trace::detached(ir::Value* value, bool ownVersion) {
  static const ops::Operator* detach = ops::find("aten::detach");
  const ir::Arg args[] = {ir::Arg::value(value)};
  const ir::Type* results[] = {value->type()};
  ir::Attributes modes{.noGrad = true, .ownVersion = ownVersion};
  return graph_->append(graph_->top(), detach, args, results, {whereAmI(), modes})->result();
}

bool Trace::isPending(const at::Tensor& tensor) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.has_storage()) return false;
  if (TraceStorage* storage = pendingStorage(impl)) return storage->trace().get() == this;
  return hasPendingWrite(impl.unsafe_storage().unsafeGetStorageImpl());
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
    auto fresh = c10::make_intrusive<TraceStorage>(shared_from_this(), value, storageBytes(context_, type), device,
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
  setSizes(impl, context_, type);
  if (type.flags.conj) impl._set_conj(true);
  if (type.flags.neg) impl._set_neg(true);
  return tensor;
}

void Trace::setGeometry(const at::Tensor& tensor, ir::Value* value, const ir::TensorType& type) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  setSizes(impl, context_, type);
  // Without a value of its own it is what it sees of its storage.
  if (TraceTensor* own = traceTensor(impl)) own->setValue(value);
}

void Trace::noteLiteral(const ir::Value* value) {
  for (auto input = inputs_.rbegin(); input != inputs_.rend(); ++input) {
    if (input->value == value) {
      input->literal = true;
      return;
    }
  }
}

void Trace::noteWrite(const at::Tensor& tensor, uint32_t counted) {
  if (!tensor.has_storage()) return;
  if (TraceStorage* storage = pendingStorage(*tensor.unsafeGetTensorImpl())) return storage->noteWrite();
  written_[tensor.storage().unsafeGetStorageImpl()] = true;
  writtenMemory_.add(*tensor.storage().unsafeGetStorageImpl());
  if (mode_ == Mode::Capture) undo_->noteWrite(tensor, counted);
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
  kept_.clear();
  sequences_.clear();
  lastLocation_ = nullptr;
  storages_.clear();
}

void Trace::poisonPending(std::exception_ptr why, const std::string& text) {
  for (const Filled& filled : storages_) {
    c10::intrusive_ptr<c10::StorageImpl> storage = filled.storage.lock();
    auto* waiting = static_cast<TraceStorage*>(storage.get());
    if (waiting && waiting->root()) waiting->poison({why, host_.rethrow}, text);
  }
}

void Trace::abandon(const ops::Refusal& why) {
  std::shared_ptr<Trace> self = shared_from_this();
  auto held = lock();
  poisonPending(error(why), why.message);
  reset(/*dropKeys=*/false);
  graph_ = std::make_unique<ir::Graph>(context_);
}

std::exception_ptr Trace::error(const ops::Refusal& refusal, const std::string& op) {
  const ir::Location* location = op.empty() ? nullptr : whereAmI();
  if (host_.error) return host_.error(refusal, op, location);
  std::string where, what;
  if (location) where = std::string(location->file) + ":" + std::to_string(location->line) + ": ";
  if (!op.empty()) what = op + " cannot be captured: ";
  return std::make_exception_ptr(CaptureError(where + what + refusal.message));
}

void Trace::raise(const ops::Refusal& refusal, const std::string& op) {
  std::exception_ptr raised = error(refusal, op);
  bool eagerRaises = refusal.reason == ops::Reason::BadArgument;
  if (mode_ == Mode::Capture && !eagerRaises && !refused_) refused_ = raised;
  std::rethrow_exception(raised);
}

std::unique_ptr<ir::Graph> Trace::takeGraph() {
  std::unique_ptr<ir::Graph> taken = std::move(graph_);
  graph_ = std::make_unique<ir::Graph>(context_);
  return taken;
}

}  // namespace saker::tracing
