#include "aot/backward.h"

#include <ATen/Context.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>

#include "aot/autocast.h"
#include "aot/exits.h"
#include "aten/enums.h"
#include "aten/trace_key.h"
#include "runtime/geometry.h"

namespace saker::aot {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A tensor of vmap or another transform, or of a class that answers for itself.
bool isStrange(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  c10::DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  return keys.has(c10::DispatchKey::Batched) || keys.has(c10::DispatchKey::FuncTorchBatched) ||
         keys.has(c10::DispatchKey::FuncTorchGradWrapper) || keys.has(c10::DispatchKey::Python) ||
         keys.has(c10::DispatchKey::Functionalize);
}

// The common case, which takes no time to see: numbers that are there, in strides that are known.
bool isAsTold(const at::Tensor& tangent, const ir::TensorType& type) {
  if (type.symbolic || tangent._is_zerotensor() || tangent.is_conj() || tangent.is_neg()) return false;
  c10::IntArrayRef strides = tangent.strides();
  bool same = strides.size() == type.rank;
  for (size_t i = 0; same && i < strides.size(); ++i) same = strides[i] == type.stride(i).constant();
  return same;
}

// One number for many elements, as the gradient of a sum is.
bool isExpanded(const at::Tensor& tensor) {
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.strides()[i] == 0 && tensor.sizes()[i] > 1) return true;
  }
  return false;
}

// Has somebody registered hooks on the leaf that this edge leads to?
bool isHookedLeaf(const torch::autograd::Edge& edge) {
  if (!edge.function || edge.function->sequence_nr() != UINT64_MAX) return false;
  torch::autograd::Node& node = *edge.function;
  return !node.tensor_pre_hooks().empty() || node.tensor_post_acc_grad_hooks() || !node.pre_hooks().empty() ||
         !node.post_hooks().empty();
}

}  // namespace

void Backward::give(const std::vector<at::Tensor>& results, const sym::Assignment& symbols,
                    const torch::autograd::edge_list& edges) {
  const std::optional<Delivery>& together = plan_->together[stage_];
  auto hooked = std::count_if(edges.begin(), edges.end(), isHookedLeaf);
  if (hooked > 1 || (hooked > 0 && plan_->inTurn[stage_].entries > 1)) {
    delivery_ = &plan_->inTurn[stage_];
  } else if (together) {
    delivery_ = &*together;
  }
  if (delivery_) return giveAround(results, symbols);
  aten::NodePtr self = getptr();
  const std::vector<size_t>&own = stage().tangents, &nodeOf = plan_->joint.nodeOf;
  bool one = std::all_of(own.begin(), own.end(), [&](size_t tangent) { return nodeOf[tangent] == nodeOf[own[0]]; });
  std::unordered_map<size_t, aten::NodePtr> entries;  // of eager mode's nodes, in the order in which these were made
  std::vector<size_t> order;
  for (size_t i = 0; !one && i < results.size(); ++i) order.push_back(own[i]);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return plan_->joint.rootAt[a] < plan_->joint.rootAt[b]; });
  for (size_t tangent : order) {
    aten::NodePtr& entry = entries[nodeOf[tangent]];
    if (!entry) entry = aten::makeNode<Entry>(self);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (one) {
      torch::autograd::set_history(results[i], self);
      continue;
    }
    aten::NodePtr& entry = entries[nodeOf[own[i]]];
    aten::EntryNode::add(entry, results[i]);
    entries_.emplace_back(aten::WeakNodePtr(entry), results[i].output_nr());
  }
  for (size_t i = results.size(); i < own.size(); ++i) addInner(i, entries, symbols);
}

// A gradient that passes from stage to stage, as it is handed on in eager mode: it must have these sizes.
static std::pair<at::TensorOptions, c10::DimVector> innerLayout(const Joint& joint, size_t tangent,
                                                                const sym::Assignment& symbols) {
  const ir::TensorType& type = *joint.inner[joint.tangentOf[tangent] - Joint::kInner].type;
  auto options = at::TensorOptions().dtype(aten::fromDType(type.dtype)).device(aten::fromDevice(type.device));
  return {options, runtime::geometryOf(type, symbols).sizes};
}

void Backward::addInner(size_t index, const std::unordered_map<size_t, aten::NodePtr>& entries,
                        const sym::Assignment& symbols) {
  size_t tangent = stage().tangents[index];
  auto [options, sizes] = innerLayout(plan_->joint, tangent, symbols);
  aten::addInput(*this, options, sizes);
  auto entry = entries.find(plan_->joint.nodeOf[tangent]);
  if (entry == entries.end()) return;
  // The node gives a result too, whose hooks learn that it runs.
  entries_.resize(index + 1, {aten::WeakNodePtr(aten::NodePtr()), 0});
  entries_[index] = {aten::WeakNodePtr(entry->second), aten::addInput(*entry->second, options, sizes)};
}

// The nodes around it, those first that run last.
void Backward::giveAround(const std::vector<at::Tensor>& results, const sym::Assignment& symbols) {
  const std::vector<size_t>& own = stage().tangents;
  made_.resize(delivery_->entries + delivery_->exits.size());
  for (auto place = delivery_->order.rbegin(); place != delivery_->order.rend(); ++place) {
    if (place->isExit) {
      made_[delivery_->entries + place->number] = aten::makeNode<Exit>(getptr(), place->number);
    } else {
      made_[place->number] = aten::makeNode<Entry>(getptr(), place->number);
    }
  }
  for (size_t i = 0; i < own.size(); ++i) {
    const aten::NodePtr& entry = made_[delivery_->entryOf[i]];
    if (i < results.size()) {
      torch::autograd::impl::set_gradient_edge(results[i], {entry, entry->add_input_metadata(results[i])});
      entries_.emplace_back(aten::WeakNodePtr(entry), results[i].output_nr());
    } else {
      auto [options, sizes] = innerLayout(plan_->joint, own[i], symbols);
      entries_.emplace_back(aten::WeakNodePtr(entry), aten::addInput(*entry, options, sizes));
    }
  }
  // Exits run where entries do: on the same device and stream.
  for (size_t i = 0; i < delivery_->exits.size(); ++i) {
    for (size_t entry : delivery_->exits[i].entries) {
      aten::addInputLike(*made_[delivery_->entries + i], made_[entry]->input_metadata(0));
    }
  }
  around_.assign(made_.begin(), made_.end());
}

void Backward::link(torch::autograd::edge_list edges) {
  if (delivery_) {
    for (size_t i = 0; i < delivery_->exits.size(); ++i) {
      const Delivery::Exit& exit = delivery_->exits[i];
      const aten::NodePtr& node = made_[delivery_->entries + i];
      for (size_t gradient : exit.gradients) node->add_next_edge(std::move(edges[gradient]));
      for (size_t k = 0; k < exit.entries.size(); ++k) {
        made_[exit.entries[k]]->add_next_edge({node, static_cast<uint32_t>(k)});
      }
    }
    return;
  }
  set_next_edges(std::move(edges));
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (aten::NodePtr entry = entries_[i].first.lock()) static_cast<Entry&>(*entry).link(static_cast<uint32_t>(i));
  }
}

std::vector<torch::autograd::Edge> Backward::resultEdges() {
  std::vector<torch::autograd::Edge> edges;
  for (size_t i = 0; i < stage().tangents.size(); ++i) {
    aten::NodePtr entry = i < entries_.size() ? entries_[i].first.lock() : aten::NodePtr();
    edges.emplace_back(entry ? entry : getptr(), entry ? entries_[i].second : static_cast<uint32_t>(i));
  }
  return edges;
}

variable_list Backward::apply(variable_list&& tangents) {
  std::lock_guard held(saved_->lock);
  if (leads_) return std::move(tangents);
  std::vector<bool> given, wanted;
  for (const at::Tensor& tangent : tangents) given.push_back(tangent.defined());
  for (size_t i = 0; i < num_outputs(); ++i) wanted.push_back(task_should_compute_output(i));
  return gradientsOf(std::move(tangents), given, std::move(wanted));
}

variable_list Backward::gradientsOf(variable_list tangents, const std::vector<bool>& given, std::vector<bool> wanted) {
  auto none = [](const std::vector<bool>& bits) { return std::find(bits.begin(), bits.end(), true) == bits.end(); };
  if (none(given)) return variable_list(wanted.size());
  if (none(wanted) && entries_.empty()) {
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i]) ranAloneLocked(i);
    }
    return variable_list(wanted.size());
  }
  for (const Joint::Sparse& sparse : plan_->joint.sparse) {
    std::optional<size_t> values = placeOf(sparse.values);
    if (values) wanted[*placeOf(sparse.indices)] = wanted[*values];
  }
  check(given, wanted);
  auto edgeOf = [this](size_t gradient) { return edge(gradient); };
  saved_->versions.check(plan_->joint, stage(), saved_->symbols, edgeOf, given, wanted);
  bool strange = std::any_of(tangents.begin(), tangents.end(), isStrange);
  // A partitioner of the user's makes one backward, for all tangents: zeros in the place of missing ones would meet
  // infinities that eager mode never sees.
  bool users = plan_->cutByUser || plan_->backwardHolds;  // the user's own backward is given zeros
  bool lacks = users && std::find(given.begin(), given.end(), false) != given.end();
  bool casts = plan_->autocastMatters && autocastIsOn();
  bool differs = plan_->backwardHolds && !plan_->backwardHolds();
  if (c10::GradMode::is_enabled() || strange || lacks || casts || differs) return followed(tangents, given, wanted);
  return compiled(std::move(tangents), given, wanted);
}

Backward::~Backward() {
  if (!plan_->staged()) return;  // nobody else has it
  std::lock_guard held(saved_->lock);
  finish();
}

// --- what is freed ---

bool Backward::isUsed(const Joint::Buffers& buffers, const std::vector<bool>& given,
                      const std::vector<bool>& wanted) const {
  bool reached = false, needed = false;
  for (size_t i = 0; i < given.size(); ++i) reached |= given[i] && buffers.tangents[stage().tangents[i]];
  for (size_t i = 0; reached && !needed && i < wanted.size(); ++i) {
    needed = wanted[i] && buffers.gradients[stage().gradients[i]];
  }
  return needed;
}

// Raises PyTorch's error.
[[noreturn]] static void raiseFreed() {
  SavedVariable gone(at::zeros({}), /*is_output=*/false);
  gone.reset_data();
  gone.unpack();
  throw std::runtime_error(torch::autograd::ERR_BACKWARD_TWICE);
}

void Backward::ranAloneLocked(size_t tangent) {
  size_t number = stage().tangents[tangent];
  const std::optional<size_t>& buffers = plan_->joint.rootBuffers[number];
  if (!buffers) return;
  bool gone = !saved_->freed.empty() && saved_->freed[*buffers];
  if (gone || (!saved_->rootFreed.empty() && saved_->rootFreed[number])) raiseFreed();
  if (torch::autograd::get_current_graph_task_keep_graph()) return;
  saved_->rootFreed.resize(plan_->joint.tangentOf.size());
  saved_->rootFreed[number] = true;
}

void Backward::ranAlone(size_t tangent) {
  std::lock_guard held(saved_->lock);
  ranAloneLocked(tangent);
}

// Eager mode raises where a node runs again whose buffers a backward has freed.
void Backward::check(const std::vector<bool>& given, const std::vector<bool>& wanted) const {
  for (size_t i = 0; !saved_->rootFreed.empty() && i < given.size(); ++i) {
    if (given[i] && saved_->rootFreed[stage().tangents[i]]) raiseFreed();
  }
  const std::vector<bool>& freed = pass_ ? pass_->freedBefore : saved_->freed;
  if (freed.empty()) return;
  for (size_t buffers : plan_->buffersOf[stage_]) {
    if (!freed[buffers] || !isUsed(plan_->joint.buffers[buffers], given, wanted)) continue;
    raiseFreed();
  }
}

void Backward::letGo(const std::vector<bool>& given, const std::vector<bool>& wanted) {
  if (torch::autograd::get_current_graph_task_keep_graph()) return;
  const std::vector<size_t>& own = plan_->buffersOf[stage_];
  if (own.empty()) return;  // nothing to free: it may run as often as it likes
  auto all = [](const std::vector<bool>& bits) { return std::find(bits.begin(), bits.end(), false) == bits.end(); };
  bool everything = all(given) && all(wanted);
  saved_->freed.resize(plan_->joint.buffers.size());
  bool left = false;
  for (size_t buffers : own) {
    if (everything || isUsed(plan_->joint.buffers[buffers], given, wanted)) saved_->freed[buffers] = true;
    left |= !saved_->freed[buffers];
  }
  if (!left && (!pass_ || pass_->last)) finish();
}

// Frees what no other stage needs.
void Backward::finish() {
  saved_->done.resize(plan_->stages.size());
  if (saved_->done[stage_]) return;
  saved_->done[stage_] = true;
  if (std::find(saved_->done.begin(), saved_->done.end(), false) == saved_->done.end()) {
    for (SavedVariable& tensor : saved_->tensors) tensor.reset_data();
    for (SavedVariable& primal : saved_->primals) primal.reset_data();
    return;
  }
  for (size_t i : plan_->savedOf[stage_]) {
    if (--saved_->readers[i] == 0) saved_->tensors[i].reset_data();
  }
}

const ir::TensorType& Backward::toldFor(size_t tangent) const {
  const Joint& joint = plan_->joint;
  return *joint.program->graph->top()->parameters()[joint.primals + stage().tangents[tangent]]->tensor();
}

// The graph was made for a tangent with all its numbers in memory. The gradient of a conjugate view may be one itself,
// and zeros may be none.
static at::Tensor inMemory(at::Tensor tangent) {
  if (tangent._is_zerotensor()) tangent = at::zeros(tangent.sizes(), tangent.options());
  return tangent.resolve_conj().resolve_neg();
}

// And for these strides.
at::Tensor Backward::asTold(size_t index, at::Tensor tangent) const {
  if (isAsTold(tangent, toldFor(index))) return tangent;
  runtime::Geometry told = runtime::geometryOf(toldFor(index), saved_->symbols);
  if (tangent.strides() == c10::IntArrayRef(told.strides)) return tangent;
  at::Tensor copy = at::empty_strided(told.sizes, told.strides, tangent.options());
  return copy.copy_(tangent);
}

// A tensor of these sizes and strides, for what is not there or may have been written. It holds nothing; it has memory
// only if an operator imitates it (`aten::zero` copies what it is given, and then clears it).
at::Tensor Backward::layoutOf(size_t parameter) const {
  const ir::Value* value = plan_->cut.backward->top()->parameters()[parameter];
  const ir::TensorType& type = *value->tensor();
  runtime::Geometry geometry = runtime::geometryOf(type, saved_->symbols);
  auto options = at::TensorOptions().dtype(aten::fromDType(type.dtype)).device(aten::fromDevice(type.device));
  if (value->hasUses()) return at::empty_strided(geometry.sizes, geometry.strides, options);
  at::Tensor layout = at::empty({0}, options);
  layout.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides);
  return layout;
}

variable_list Backward::compiled(variable_list tangents, const std::vector<bool>& given,
                                 const std::vector<bool>& wanted) {
  const Joint& joint = plan_->joint;
  if (plan_->foreign && !plan_->deterministic && at::globalContext().deterministicAlgorithms()) {
    throw std::runtime_error(
        "deterministic algorithms are asked for in this backward, and were not when the function was compiled: switch "
        "them on before its first call");
  }
  const Plan::Backward& part = plan_->backward(stage_, given, wanted);
  if (part.unsure) {
    variable_list gradients = followed(tangents, given, wanted);
    bool none = std::none_of(part.lost.begin(), part.lost.end(), [&](size_t i) { return gradients[i].defined(); });
    if (none && !part.differsByBranch) part.unsure = false;
    return gradients;
  }
  std::vector<at::Tensor> inputs;
  inputs.reserve(plan_->cut.saved.size() + tangents.size());
  size_t firstTangent = plan_->cut.saved.size();
  for (size_t i = 0; i < plan_->savedTensors; ++i) {
    const std::optional<size_t>& primal = plan_->cut.saved[i].primal;
    inputs.push_back(part.imitates[i] ? layoutOf(i) : at::Tensor());
    if (!part.reads[i]) continue;
    inputs.back() = (primal ? saved_->primals[*primal] : saved_->tensors[i]).unpack(getptr());
    if (plan_->detaches) inputs.back() = inputs.back().detach();
  }
  inputs.resize(firstTangent + joint.tangentOf.size());
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (given[i]) inputs[firstTangent + stage().tangents[i]] = inMemory(std::move(tangents[i]));
  }
  for (size_t i = firstTangent; i < inputs.size(); ++i) {
    if (!inputs[i].defined() && part.imitates[i]) inputs[i] = layoutOf(i);
  }
  tangents.clear();
  letGo(given, wanted);  // before it runs: what nobody needs afterwards is freed when it has been read
  variable_list gradients = run(part, std::move(inputs), given);
  size_t count = stage().gradients.size();
  write({gradients.begin() + static_cast<std::ptrdiff_t>(count), gradients.end()});
  gradients.resize(count);
  for (size_t i = 0; i < count; ++i) {
    bool reached = false;
    for (size_t k = 0; k < given.size(); ++k) {
      reached |= given[k] && joint.reaches[stage().tangents[k]][stage().gradients[i]];
    }
    if (!reached) gradients[i].reset();
  }
  makeSparse(gradients);
  return gradients;
}

// Tangents of other strides are taken as they are where the graph can: then gradients have the strides that they have
// in eager mode. Otherwise they are copied; so are expanded ones where kernels were generated for other strides.
variable_list Backward::run(const Plan::Backward& part, std::vector<at::Tensor> inputs,
                            const std::vector<bool>& given) const {
  size_t first = plan_->cut.saved.size();
  bool told = true, onlyExpanded = plan_->native.wanted;
  for (size_t i = 0; i < given.size(); ++i) {
    const at::Tensor& tangent = inputs[first + stage().tangents[i]];
    if (!given[i] || isAsTold(tangent, toldFor(i))) continue;
    bool symbolic = toldFor(i).symbolic;
    if (symbolic && tangent.strides() == runtime::geometryOf(toldFor(i), saved_->symbols).strides) continue;
    told = false;
    onlyExpanded &= isExpanded(tangent);
  }
  aten::BelowAutograd below;
  if (told) return part.run(std::move(inputs), saved_->numbers);
  if (part.runFreely && !part.refused && !onlyExpanded) {
    try {
      return part.runFreely(inputs, saved_->numbers);
    } catch (const c10::Error&) {
      part.refused = true;
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    at::Tensor& tangent = inputs[first + stage().tangents[i]];
    if (given[i]) tangent = asTold(i, std::move(tangent));
  }
  return part.run(std::move(inputs), saved_->numbers);
}

// Where a gradient stands among those of this stage.
std::optional<size_t> Backward::placeOf(size_t gradient) const {
  const std::vector<size_t>& own = stage().gradients;
  auto found = std::find(own.begin(), own.end(), gradient);
  return found == own.end() ? std::nullopt : std::optional(static_cast<size_t>(found - own.begin()));
}

void Backward::makeSparse(variable_list& gradients) const {
  const std::vector<Joint::Sparse>& sparse = plan_->joint.sparse;
  for (size_t i = 0; i < sparse.size(); ++i) {
    std::optional<size_t> place = placeOf(sparse[i].values), other = placeOf(sparse[i].indices);
    if (!place || !other) continue;
    at::Tensor values = gradients[*place], indices = std::move(gradients[*other]);
    gradients[*other].reset();
    if (!values.defined() || !indices.defined()) continue;
    gradients[*place] = at::_sparse_coo_tensor_unsafe(indices, values, saved_->sparseSizes[i],
                                                      values.options().layout(c10::kSparse), sparse[i].coalesced);
  }
}

// What the function's own backward writes to the caller's tensors.
void Backward::write(const variable_list& contents) const {
  for (size_t i = 0; i < contents.size(); ++i) {
    const at::Tensor& target = saved_->written[i];
    {
      aten::RunForReal below;
      target.copy_(contents[i]);
    }
    for (uint32_t k = 0; k < plan_->joint.backwardWrites[i].versions; ++k) torch::autograd::impl::bump_version(target);
  }
}

}  // namespace saker::aot
