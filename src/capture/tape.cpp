#include "capture/tape.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "aten/convert.h"
#include "aten/enums.h"
#include "aten/trace_key.h"
#include "capture/casts.h"
#include "capture/closed_bodies.h"
#include "capture/plain.h"
#include "capture/user_write.h"
#include "ops/operator.h"
#include "passes/memory.h"
#include "support/check.h"

namespace saker::tracing {

namespace {

thread_local Tape* tapeOfThread = nullptr;

bool isPlainStrided(const at::Tensor& tensor) {
  return isPlain(tensor, c10::DispatchKey::ZeroTensor) && !tensor.is_meta() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

bool dependsOnData(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
}

// a.set_(b), which replays as it is.
bool setsMemory(const Call& call) {
  const c10::OperatorName& name = call.op.operator_name();
  if (name.name != "aten::set_" || name.overload_name != "source_Tensor") return false;
  const at::Tensor &target = call.values[0].toTensor(), &source = call.values[1].toTensor();
  return target.scalar_type() == source.scalar_type() && target.device() == source.device();
}

bool sameNumber(const at::Scalar& left, const at::Scalar& right) {
  if (left.isFloatingPoint() && right.isFloatingPoint()) return left.toDouble() == right.toDouble();
  return left.isIntegral(true) && right.isIntegral(true) && left.toLong() == right.toLong();
}

// Does PyTorch fill what it allocates, for programs that are to be deterministic?
bool fillsMemory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

}  // namespace

Tape* currentTape() { return tapeOfThread; }

void leaveTape() {
  if (!tapeOfThread) return;
  tapeOfThread = nullptr;
  aten::setRecordingOnThisThread(false);
}

static thread_local TapeScope* innermostScope = nullptr;

void leaveTape(const Tape& tape) {
  if (tapeOfThread == &tape) leaveTape();
  for (TapeScope* scope = innermostScope; scope; scope = scope->outer_) {
    if (scope->previous_ != &tape) continue;
    scope->previous_ = nullptr;
    scope->wasRecording_ = false;
  }
}

TapeScope::TapeScope(Tape* tape)
    : outer_(std::exchange(innermostScope, this)),
      previous_(tapeOfThread),
      wasRecording_(c10::impl::tls_is_dispatch_key_included(aten::kTraceKey)) {
  tapeOfThread = tape;
  aten::setRecordingOnThisThread(tape != nullptr);
}

TapeScope::~TapeScope() {
  TapeScope** here = &innermostScope;
  while (*here != this) here = &(*here)->outer_;
  *here = outer_;
  tapeOfThread = previous_;
  aten::setRecordingOnThisThread(wasRecording_);
}

Tape::Tape(Host host)
    : Recording(host, nullptr),
      wasInference_(c10::InferenceMode::is_enabled()),
      hadGrad_(c10::GradMode::is_enabled()),
      node_(torch::autograd::get_current_node().get()) {}

Tape::~Tape() = default;

ir::Attributes Tape::modesOf(const Entry* entry) const {
  ir::Attributes modes = Recording::modesOf(entry);
  modes.inferenceToggled = c10::InferenceMode::is_enabled() != wasInference_;
  return modes;
}

void Tape::spoil(Stop why, const std::string& op) {
  if (spoiled_) return;
  spoiled_ = std::move(why);
  spoiled_->op = op;
  spoiledAt_ = here();
}

void Tape::know(const at::Tensor& tensor, ir::Value* value) {
  const c10::intrusive_ptr<c10::TensorImpl>& impl = tensor.getIntrusivePtr();
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  known_.insert_or_assign(impl.get(), Known{value, storage, c10::weak_intrusive_ptr<c10::TensorImpl>(impl)});
  if (storages_.contains(storage)) return;
  auto owned = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  bool made = !value->isParameter();
  storages_.emplace(storage, Memory{made, made ? recorded_ : 0, 0, c10::weak_intrusive_ptr<c10::StorageImpl>(owned)});
}

bool Tape::computed(const at::Tensor& tensor) const {
  auto found = known_.find(tensor.unsafeGetTensorImpl());
  return found != known_.end() && found->second.value->def() != nullptr;
}

ir::Value* Tape::valueOf(const at::Tensor& tensor) {
  auto found = known_.find(tensor.unsafeGetTensorImpl());
  if (found != known_.end()) {
    const ir::TensorType* type = found->second.value->tensor();
    if (!type || !(aten::surelyHasType(tensor, *type) || typeOf(tensor) == type)) spoil(Why::OtherMemory);
    return found->second.value;
  }
  if (ir::Value* saved = gradients_ ? valueSaved(tensor) : nullptr) {
    know(tensor, saved);
    return saved;
  }
  auto memory = storages_.find(tensor.storage().unsafeGetStorageImpl());
  if (memory != storages_.end() && memory->second.made) {
    spoil(Why::SharesMemory);
  }
  ir::Value* value = graph().addParameter(graph().top(), typeOf(tensor));
  inputs_.push_back({value, tensor, tensor.is_inference() ? 0 : tensor._version(), counted_.to(tensor), false});
  noteEntered(tensor, value);
  know(tensor, value);
  return value;
}

// Whether the body reads it or only writes it is not known yet.
ir::Value* Tape::lend(const at::Tensor& tensor) {
  auto memory = storages_.find(tensor.storage().unsafeGetStorageImpl());
  if (memory != storages_.end() && !memory->second.filled && tensor.numel() > 0) spoil(Why::MemoryUnwritten);
  return valueOf(tensor);
}

Recording::Restore Tape::checkpoint() {
  return [this, spoiled = spoiled_, at = spoiledAt_](uint32_t first) {
    while (!inputs_.empty() && inputs_.back().value->id() >= first) inputs_.pop_back();
    std::unordered_set<const c10::StorageImpl*> left;
    for (auto known = known_.begin(); known != known_.end();) {
      if (known->second.value->id() < first) {
        ++known;
        continue;
      }
      left.insert(known->second.storage);
      aliases_.erase(known->first);
      known = known_.erase(known);
    }
    for (const auto& [impl, known] : known_) left.erase(known.storage);
    for (const c10::StorageImpl* storage : left) storages_.erase(storage);
    spoiled_ = spoiled;
    spoiledAt_ = at;
  };
}

// Does what arrives at one arrive at the other?
static bool leadsAlike(const at::Tensor& one, const at::Tensor& other) {
  if (one.requires_grad() != other.requires_grad()) return false;
  return !one.requires_grad() ||
         torch::autograd::impl::gradient_edge(one) == torch::autograd::impl::gradient_edge(other);
}

// A node of autograd's unpacks what it has saved as another tensor. Outside of nodes such a tensor is the program's
// own: an argument that shares memory with another one.
ir::Value* Tape::valueSaved(const at::Tensor& tensor) {
  if (!torch::autograd::get_current_node()) return nullptr;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (!storages_.contains(storage)) return nullptr;
  const ir::TensorType* type = typeOf(tensor);
  for (const auto& [impl, known] : known_) {
    if (known.storage != storage || known.value->type() != type) continue;
    c10::intrusive_ptr<c10::TensorImpl> alive = known.impl.lock();
    if (!alive || leadsAlike(tensor, at::Tensor(std::move(alive)))) return known.value;
  }
  return nullptr;
}

void Tape::expect(const at::Scalar& number, const at::Tensor& source) { expected_ = {number, source, false}; }

ir::Value* Tape::sourceOf(const at::Tensor& number) {
  if (!expected_) return nullptr;
  aten::RunForReal real;  // reading the number is no operator of the program
  if (!sameNumber(expected_->number, number.item())) return nullptr;
  expected_->taken = true;
  return valueOf(expected_->source);
}

bool Tape::took() {
  bool taken = expected_ && expected_->taken;
  expected_.reset();
  return taken;
}

void Tape::sharesData(const at::Tensor& alias, const at::Tensor& tensor) {
  if (spoiled_ || made(alias)) return;
  if (!isPlainStrided(tensor)) return spoil(Why::DataNotDense);
  const ir::TensorType* type = typeOf(alias);
  know(alias, appendDetach(valueOf(tensor), type, /*ownVersion=*/true, nullptr));
  aliases_[alias.unsafeGetTensorImpl()] = tensor;
}

// A write through `.data` is not counted in the tensor's version. Run as recorded, it is not either; whatever else runs
// the program has to know.
void Tape::noteHiddenWrites(const Call& call, const Entry* entry) {
  if (aliases_.empty() || !entry) return;
  eachWritten(*entry->op, call, [&](const at::Tensor& tensor) {
    for (const auto& [alias, source] : aliases_) {
      auto known = known_.find(alias);
      c10::intrusive_ptr<c10::TensorImpl> impl = known == known_.end() ? nullptr : known->second.impl.lock();
      if (!impl || !impl->has_storage() || !impl->unsafe_storage().is_alias_of(tensor.storage())) continue;
      unseen_.push_back(source);
    }
  });
}

// The number in a tensor that was written in the program is a constant of it.
bool Tape::readsLiteral(const Call& call) const {
  if (call.op.operator_name().name != "aten::_local_scalar_dense") return false;
  return isLiteral(call.values[0].toTensor());
}

bool Tape::isLiteral(const at::Tensor& tensor) const {
  auto known = known_.find(tensor.unsafeGetTensorImpl());
  if (known == known_.end() || tensor._version() != 0) return false;
  std::unordered_set<const ir::Value*> cone;
  return followsFromLiterals(known->second.value, cone) && !isWritten(cone);
}

bool Tape::followsFromLiterals(const ir::Value* value, std::unordered_set<const ir::Value*>& cone) const {
  if (!cone.insert(value).second) return true;
  if (value->isParameter()) {
    return literalData(value).defined();
  }
  const ir::Node* node = value->def();
  const ops::Operator* op = ops::of(node);
  bool empty = op && op->qualified.find("empty") != std::string_view::npos;  // holds what is in the memory
  if (!op || !op->isRemovable() || empty || !node->regions().empty()) return false;
  for (const ir::Use& use : node->operands()) {
    if (!followsFromLiterals(use.value, cone)) return false;
  }
  return true;
}

// Does an operator write to the memory of one of these values?
bool Tape::isWritten(const std::unordered_set<const ir::Value*>& values) const {
  passes::Memory memory(graph(), {false, passes::Memory::Assumptions::Unknown::Anything});
  return std::any_of(values.begin(), values.end(), [&](const ir::Value* value) { return memory.isWritten(value); });
}

bool Tape::wroteOlder(size_t mark) const {
  return std::any_of(storages_.begin(), storages_.end(),
                     [&](const auto& each) { return each.second.born <= mark && each.second.written > mark; });
}

// The state of PyTorch's generator: its operators give nothing, but others draw after them.
static bool setsGenerator(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name == "saker::manual_seed" || name == "saker::set_rng_state";
}

// It gives nothing else: _foreach_add_, or an operator of the user's.
static bool onlyWrites(const Call& call, const Entry* entry) {
  return call.op.schema().returns().empty() && (entry ? entry->op->writes != 0 : isUserWrite(call));
}

// Gives nothing, and raises because of data.
static bool onlyChecks(const Call& call, const Entry* entry) {
  constexpr uint32_t checks = ops::kEffect | ops::kFailsOnData;
  return entry && entry->op->traits == checks && call.op.schema().returns().empty();
}

bool Tape::replayable(const Call& call, const Entry* entry) {
  noteHiddenWrites(call, entry);
  if (!gradients_ && torch::autograd::get_current_node().get() != node_) {
    spoil(Why::GradientsInside, nameOf(call.op));
  } else if (onlyChecks(call, entry)) {
    return true;
  } else if (std::any_of(call.values.begin(), call.values.end(), [](const c10::IValue& v) { return v.isStorage(); })) {
    spoil(Why::TakesStorage, nameOf(call.op));  // which is another one in each call
  } else if (entry ? (entry->op->traits & kNeverRecorded) != 0 && !setsMemory(call) : dependsOnData(call.op)) {
    spoil(Why::DependsOnData, nameOf(call.op));
  } else if (!returnsTensors(call.op.schema()) && !setsGenerator(call.op) && !onlyWrites(call, entry)) {
    spoil(Why::NotATensor, nameOf(call.op));
  } else if (castsInside(call)) {
    spoil(Why::CastsInside, nameOf(call.op));
  } else {
    bool plain = true;
    eachTensor(call.values, [&](const at::Tensor& tensor) { plain &= isPlainStrided(tensor) || isWrapper(tensor); });
    if (plain) return true;
    spoil(Why::ArgumentNotDense, nameOf(call.op));
  }
  return false;
}

// `if not x.isfinite().all(): raise ...`: a graph looks at the data itself, and fails where the program would raise.
bool Tape::recordCheck(const Call& call) {
  if (spoiled_ || !host().checkedTruth || call.op.operator_name().name != "aten::_local_scalar_dense") return false;
  at::Tensor asked = call.values[0].toTensor();
  if (!isPlainStrided(asked) || readsLiteral(call)) return false;
  std::optional<bool> fine = host().checkedTruth();
  bool chooses = !fine && host().chooses && host().chooses();
  if (!fine && !chooses) return false;
  risk_.chooses |= chooses;
  static const c10::OperatorHandle expect = c10::Dispatcher::singleton().findSchemaOrThrow("saker::expect", "");
  runBelow(call);
  c10::Scalar found = call.stack->back().toScalar();
  bool truth = found.isComplex() ? found.toComplexDouble() != c10::complex<double>() : found.toDouble() != 0;
  torch::jit::Stack stack{asked, truth};
  Call check(expect, {}, &stack);
  if (fine && truth != *fine) {
    spoil(Why::DependsOnData, nameOf(call.op));
  } else {
    perform(check, inference().find(expect), [](Tape&, const Call& given) { given.stack->clear(); });
  }
  return true;
}

// Tensors without memory tell sizes, which are guarded where they come from.
static bool isWithoutData(const Call& call) {
  bool meta = false;
  eachTensor(call.values, [&](const at::Tensor& tensor) { meta |= tensor.is_meta(); });
  return meta;
}

// Otherwise it only runs.
bool Tape::isRecorded(const Call& call, const Entry* entry) {
  bool asks = isQuery(call, entry) || call.op.operator_name().name == "aten::_has_same_storage_numel";
  return !spoiled_ && !isMarker(call) && !asks && !isWithoutData(call) && !readsLiteral(call) &&
         replayable(call, entry);
}

bool Tape::call(const Call& call) {
  const Entry* entry = inference().find(call.op);
  if (isTakenApart(call, entry)) return false;
  if (recordItem(call) || readsForOperator(call) || recordCheck(call)) return true;
  if (!isRecorded(call, entry)) {
    runBelow(call);
    return true;
  }
  if (entry && entry->op->qualified == "aten::lift_fresh") {
    recordLiteral(call);
    return true;
  }
  perform(call, entry, [](Tape&, const Call& given) { runBelow(given); });
  return true;
}

void Tape::perform(const Call& call, const Entry* entry, void (*run)(Tape& tape, const Call& call)) {
  ir::Origin origin(here(), modesOf(entry));
  c10::intrusive_ptr<ClosedBodies> bodies = bodiesOf(call);  // the run takes them off the stack
  Converted converted;
  try {
    converted = convert(call, entry);
    if (expectedNumbers_) converted.args = withNumbers(call, converted.args);
  } catch (const ops::RefusalException& refused) {
    spoil({Why::OperatorRefused, refused.refusal.message}, nameOf(call.op));
  }
  noteFilled(call, entry);
  std::optional<Around> around = noteRisk(call, entry);
  c10::SmallVector<Memory*, 2> written = memoriesWritten(call, entry);  // the run takes the arguments off the stack
  CountedWrites::Counters counters = CountedWrites::of(call);
  bool outside = changesOutside(call, entry, written);
  userWrote_ |= !entry && isUserWrite(call);
  try {
    run(*this, call);
  } catch (...) {
    if (around) {  // because of data, it may be: what the program does then follows from it
      failed_ = true;
      spoil(Why::OperatorFailed, nameOf(call.op));
    }
    throw;
  }
  if (!entry) refuseEffects(call, around);
  if (!spoiled_) note(converted, call, origin);
  counted_.add(counters);
  for (Memory* memory : written) memory->written = recorded_, ++memory->writes;
  if (spoiled_ || !body()->last()) return;
  uint32_t node = body()->last()->id();
  if (around) {
    Risk::Before before{node, around->effects, around->draws};
    risk_.beforeAnywhere.push_back(before);
    if (risk_.firstDone || outside) risk_.before.push_back(before);
  }
  if (outside && !risk_.firstDone) risk_.firstDone = node;
  if (outside && (entry || isUserWrite(call)) && !risk_.firstWrite) risk_.firstWrite = node;
}

static bool isEmpty(const ops::Operator* op) {
  return op && op->cost == ops::Cost::Fill && op->qualified.find("empty") != std::string_view::npos;
}

// Before it runs: memory that it writes is filled from now on, and what it reads has been.
void Tape::noteFilled(const Call& call, const Entry* entry) {
  for (size_t i = 0; i < call.values.size(); ++i) {
    bool writes = entry ? entry->op->writesArgument(i) : !bodiesOf(call);
    if (entry && entry->op->returnsArgument(i) && !writes) continue;
    eachTensor(call.values.subspan(i, 1), [&](const at::Tensor& tensor) {
      auto found = tensor.has_storage() ? storages_.find(tensor.storage().unsafeGetStorageImpl()) : storages_.end();
      if (found == storages_.end() || found->second.filled) return;
      if (writes) {
        found->second.filled = true;
      } else if (tensor.numel() > 0) {
        spoil(Why::MemoryUnwritten, nameOf(call.op));
      }
    });
  }
}

ir::Value* Tape::addLiteral(const at::Tensor& constant) {
  aten::RunForReal real;
  ir::Value* value = graph().addParameter(graph().top(), typeOf(constant));
  // The program may write to what it gets.
  inputs_.push_back({value, constant.clone(), 0, 0, true});
  shared_->literals.emplace_back(value, inputs_.back().tensor);
  return value;
}

void Tape::recordLiteral(const Call& call) {
  ir::Value* value = addLiteral(call.values[0].toTensor());
  runBelow(call);
  const ir::Arg args[] = {ir::Arg::value(value), ir::Arg::none()};
  const ir::Type* results[] = {value->type()};
  ir::Attributes modes{.noGrad = true};
  know(call.stack->back().toTensor(), append(ops::find("aten::clone"), args, results, {nullptr, modes})->result());
}

void Tape::note(const Converted& converted, const Call& call, ir::Origin origin) {
  ++recorded_;
  std::vector<at::Tensor> tensors;
  std::vector<const ir::Type*> types;
  size_t count = call.op.schema().returns().size();
  bool meta = false;
  auto add = [&](const at::Tensor& tensor) {
    meta |= tensor.defined() && tensor.is_meta();
    if (meta) return;
    if (tensor.defined() && !isPlainStrided(tensor) && !isWrapper(tensor))
      return spoil(Why::ResultNotDense, nameOf(call.op));
    tensors.push_back(tensor);
    types.push_back(tensor.defined() ? static_cast<const ir::Type*>(typeOf(tensor))
                                     : context()->types().plain(ir::TypeKind::None));
  };
  for (size_t i = call.stack->size() - count; i < call.stack->size(); ++i) {
    const c10::IValue& result = (*call.stack)[i];
    if (result.isTensor()) {
      add(result.toTensor());
    } else {
      for (const c10::IValue& item : result.toListRef()) add(item.toTensor());
    }
  }
  if (spoiled_ || meta) return;
  ir::Node* node = append(converted, types, origin);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    auto found = known_.find(tensors[i].unsafeGetTensorImpl());
    // A tensor that was written keeps its value; one that was given another geometry is the result from here on.
    if (found == known_.end() || found->second.value->type() != types[i]) know(tensors[i], node->result(i));
    if (isEmpty(ops::of(node)) && !fillsMemory())
      storages_.at(tensors[i].storage().unsafeGetStorageImpl()).filled = false;
  }
}

}  // namespace saker::tracing
