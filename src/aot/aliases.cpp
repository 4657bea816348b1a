#include "aot/aliases.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>

#include "aot/sharing.h"
#include "ops/operator.h"
#include "ops/view_inverse.h"

namespace saker::aot {

namespace {

// Numbers of results and of made tensors until it is known how many there are.
constexpr size_t kResults = size_t{1} << 30;
constexpr size_t kMade = size_t{1} << 31;

bool isGeometryWrite(const ir::Node& node) {
  const ops::Operator* op = ops::of(&node);
  return op && op->writes == 1 && op->variant == ops::Variant::Inplace && op->cost == ops::Cost::View;
}

bool isView(const ir::Node& node, size_t result) {
  const ops::Operator* op = ops::of(&node);
  return op && !op->writes && ops::sharing(node, result) != ops::Sharing::None;
}

const c10::StorageImpl* storageOf(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

}  // namespace

bool isLeafWithGrad(const at::Tensor& tensor) {
  const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta && meta->requires_grad_ && !meta->grad_fn_;
}

Aliases::Object& Aliases::remember(const at::Tensor& tensor, size_t number) {
  objects_.push_back(std::make_unique<Object>(Object{tensor, number, {}}));
  byImpl_[tensor.unsafeGetTensorImpl()] = objects_.back().get();
  return *objects_.back();
}

Aliases::Object* Aliases::objectOf(const at::Tensor& tensor) {
  auto known = byImpl_.find(tensor.unsafeGetTensorImpl());
  return known == byImpl_.end() ? nullptr : known->second;
}

void Aliases::addCaller(size_t number, const at::Tensor& standIn, ir::Value* before) {
  if (objectOf(standIn)) return;
  Object& object = remember(standIn, number);
  // What t_ and its like did to it, from the last one back.
  std::vector<const ir::Node*> changes;
  const ir::Value* at = trace_.valueOf(standIn);
  for (; at != before; at = at->def()->operand(0)) {
    if (!at->def() || !isGeometryWrite(*at->def())) {
      throw NotAheadOfTime(Why::MovesArgument);
    }
    changes.push_back(at->def());
  }
  object.values.push_back(before);
  std::reverse(changes.begin(), changes.end());
  for (const ir::Node* node : changes) {
    object.values.push_back(node->result());
    Step step{Step::Kind::Geometry, node, number, number, !node->attributes().noGrad};
    made_.push_back({step, node->id(), true});
  }
  callersOf_[storageOf(standIn)].push_back(&object);
}

void Aliases::addMoved(size_t number, const at::Tensor& standIn, const c10::Storage& before) {
  ir::Value* value = trace_.valueOf(standIn);
  remember(standIn, number).values.push_back(value);
  const c10::Storage memory = standIn.storage();
  moved_.push_back({number, trace_.makeTensor(value, &memory)});
  left_.push_back(before.unsafeGetStorageImpl());
}

bool Aliases::isReshaped(size_t caller) const {
  return std::any_of(made_.begin(), made_.end(), [&](const Made& made) {
    return made.step.kind == Step::Kind::Geometry && made.step.source == caller && made.step.gradMode;
  });
}

bool Aliases::hasOnlyViews() const {
  return moved_.empty() && leaves_.empty() && std::all_of(made_.begin(), made_.end(), [](const Made& made) {
           return !made.early && (made.step.kind == Step::Kind::View || made.step.kind == Step::Kind::Data);
         });
}

// A view that autograd has not looked at since a write.
bool Aliases::isStale(const at::Tensor& tensor) const {
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
  return meta && meta->has_bw_view() && static_cast<int64_t>(meta->get_attr_version()) != tensor._version();
}

void Aliases::noteFresh(const at::Tensor& output) {
  if (!output.defined() || callersOf_.contains(storageOf(output))) return;
  at::Tensor base = autogradBase(output);
  if (objectOf(base)) return;
  std::vector<at::Tensor>& known = freshOf_[storageOf(output)];
  if (std::none_of(known.begin(), known.end(), [&](const at::Tensor& t) { return t.is_same(base); })) {
    known.push_back(base);
  }
}

void Aliases::find(const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& output : outputs) noteFresh(output);
  for (const Moved& moved : moved_) noteFresh(moved.memory);
  for (const at::Tensor& output : outputs) {
    outputs_.push_back(output.defined() ? std::optional(numberOf(output)) : std::nullopt);
    if (output.defined() && *outputs_.back() >= kResults && isLeafWithGrad(output)) {
      leaves_.push_back(*outputs_.back());
    }
  }
  for (Moved& moved : moved_) moved.number = numberOf(moved.memory);
  markOwnNodes();
}

// The tensor of the caller's, or the result, that views lead from to this one.
size_t Aliases::rootOf(size_t number) const {
  while (number >= kMade) number = made_[maker_[number - kMade]].step.source;
  return number;
}

// Outputs on one memory that are all views of operators that make several, but for one at most where the function made
// that memory.
void Aliases::markOwnNodes() {
  struct Group {
    size_t several = 0, others = 0;
    std::vector<size_t> makers;  // of all of them
  };
  std::map<size_t, Group> groups;
  for (const std::optional<size_t>& output : outputs_) {
    if (!output) continue;
    Group& group = groups[rootOf(*output)];
    const Made* made = *output >= kMade ? &made_[maker_[*output - kMade]] : nullptr;
    bool view = made && made->step.kind == Step::Kind::View;
    bool several =
        view && !made->step.node->op()->schema->returns.empty() && made->step.node->op()->schema->returns[0].type.list;
    ++(several ? group.several : group.others);
    if (view) group.makers.push_back(maker_[*output - kMade]);
  }
  for (const auto& [root, group] : groups) {
    size_t most = root >= kResults ? 1 : 0;
    if (group.several == 0 || group.others > most) continue;
    for (size_t maker : group.makers) made_[maker].step.ownNode = true;
  }
}

size_t Aliases::numberOf(const at::Tensor& tensor) {
  if (Object* known = objectOf(tensor)) return known->number;
  const c10::StorageImpl* storage = storageOf(tensor);
  bool isLeft = std::find(left_.begin(), left_.end(), storage) != left_.end();
  bool ofMoved = tensor.is_view() && std::any_of(moved_.begin(), moved_.end(), [&](const Moved& moved) {
                   return objectOf(autogradBase(tensor)) && objectOf(autogradBase(tensor))->number == moved.caller;
                 });
  if (isLeft || ofMoved) throw NotAheadOfTime(Why::GivesViewOfMoved);
  bool callers = callersOf_.contains(storage);
  size_t number;
  if (tensor.is_view()) {
    at::Tensor base = autogradBase(tensor);
    size_t ofBase = numberOf(base);
    number = follow(tensor, callers && ofBase < kResults ? callersOf_[storage] : std::vector{objectOf(base)});
  } else if (callers) {
    number = follow(tensor, callersOf_[storage]);
  } else {
    number = numberOfFresh(tensor);
  }
  if (number >= kMade && tensor.requires_grad() && !isLeafWithGrad(tensor) && !tensor.is_view()) {
    throw NotAheadOfTime(Why::GivesStranger);
  }
  if (!objectOf(tensor)) remember(tensor, number).values.push_back(trace_.valueOf(tensor));
  if (isStale(tensor)) makeEarly(number);
  return number;
}

size_t Aliases::addResult(const at::Tensor& tensor) {
  results.push_back(tensor);
  remember(tensor, kResults + results.size() - 1).values.push_back(trace_.valueOf(tensor));
  return kResults + results.size() - 1;
}

// Memory that the function made, seen by one or several tensors that autograd does not know as views of each other.
size_t Aliases::numberOfFresh(const at::Tensor& tensor) {
  std::vector<at::Tensor>& bases = freshOf_[storageOf(tensor)];
  if (bases.size() <= 1) return addResult(tensor);
  tracing::TraceStorage* storage = tracing::pendingStorage(*tensor.unsafeGetTensorImpl());
  if (!storage) throw NotAheadOfTime(Why::GivesUnknownMemory);
  auto isWhole = [&](const at::Tensor& base) { return trace_.valueOf(base) == storage->root(); };
  auto first = std::find_if(bases.begin(), bases.end(), [&](const at::Tensor& base) { return objectOf(base); });
  if (first == bases.end()) {
    auto better = [&](const at::Tensor& base) { return isWhole(base) && base.requires_grad(); };
    auto chosen = std::find_if(bases.begin(), bases.end(), better);
    if (chosen == bases.end()) chosen = std::find_if(bases.begin(), bases.end(), isWhole);
    if (chosen == bases.end()) {
      const c10::Storage memory = tensor.storage();
      chosen = bases.insert(bases.begin(), trace_.makeTensor(storage->root(), &memory));
    }
    std::rotate(bases.begin(), chosen, chosen + 1);
    addResult(bases.front());
    if (Object* known = objectOf(tensor)) return known->number;
  }
  return follow(tensor, {objectOf(bases.front())});
}

// The views that lead to the tensor from one of those.
size_t Aliases::follow(const at::Tensor& tensor, const std::vector<Object*>& from) {
  const ir::Value* at = trace_.valueOf(tensor);
  std::vector<std::pair<const ir::Node*, size_t>> chain;
  const Object* start = nullptr;
  bool last = true;
  for (;;) {
    for (const Object* object : from) {
      auto found = std::find(object->values.rbegin(), object->values.rend(), at);
      if (found == object->values.rend()) continue;
      // Of tensors with the same value, one that the tensor shares its version counter with.
      if (start && !sharesVersion(object->tensor, tensor)) continue;
      start = object;
      last = found == object->values.rbegin();
    }
    if (start) break;
    const ir::Node* node = at->def();
    if (!node || !(isView(*node, at->index()) || isGeometryWrite(*node))) {
      throw NotAheadOfTime(Why::GivesUnrelated);
    }
    chain.emplace_back(node, at->index());
    at = node->operand(0);
  }
  size_t number = start->number;
  std::reverse(chain.begin(), chain.end());
  for (auto [node, result] : chain) number = makeStep(node, result, number);
  // What is no view and has a version counter of its own was made by `.data`.
  bool counted = !tensor.is_inference() && !start->tensor.is_inference();
  if (!tensor.is_view() && counted && !sharesVersion(tensor, start->tensor)) {
    Step step{Step::Kind::Data, nullptr, number, kMade + maker_.size(), true};
    uint32_t time = number >= kMade ? made_[maker_[number - kMade]].time : 0;
    maker_.push_back(made_.size());
    made_.push_back({step, time, false});
    number = step.target;
  } else if (number == start->number) {
    throw NotAheadOfTime(Why::GivesSameMemory);
  }
  if (!last) makeEarly(number);
  return number;
}

size_t Aliases::makeStep(const ir::Node* node, size_t result, size_t source) {
  bool view = !isGeometryWrite(*node);
  for (const Made& made : made_) {
    if (made.step.node == node && made.step.source == source) return view ? made.step.target + result : source;
  }
  Step step{Step::Kind::View, node, source, kMade + maker_.size(), !node->attributes().noGrad};
  if (!view) {
    step.kind = Step::Kind::Geometry;
    step.target = source;
  } else {
    maker_.resize(maker_.size() + node->resultCount(), made_.size());
  }
  made_.push_back({step, node->id(), false});
  return view ? step.target + result : source;
}

void Aliases::makeEarly(size_t number) {
  while (number >= kMade) {
    Made& made = made_[maker_[number - kMade]];
    made.early = true;
    number = made.step.source;
  }
}

void Aliases::finish(Joint& joint) const {
  size_t callers = joint.callers(), results = joint.results.size();
  auto numbered = [&](size_t number) {
    if (number >= kMade) return number - kMade + callers + results;
    return number >= kResults ? number - kResults + callers : number;
  };
  std::vector<Made> ordered(made_.begin(), made_.end());
  for (Made& made : ordered) {  // what changes a tensor comes when that tensor does
    if (made.step.kind == Step::Kind::Geometry && made.step.source >= kMade) {
      made.early = made_[maker_[made.step.source - kMade]].early;
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const Made& a, const Made& b) { return a.time < b.time; });
  for (const Made& made : ordered) {
    Step step = made.step;
    step.source = numbered(step.source);
    step.target = numbered(step.target);
    (made.early ? joint.early : joint.late).push_back(step);
  }
  for (const Moved& moved : moved_) {
    joint.late.push_back({Step::Kind::Memory, nullptr, numbered(moved.number), moved.caller});
  }
  for (size_t leaf : leaves_) joint.late.push_back({Step::Kind::Leaf, nullptr, numbered(leaf), numbered(leaf)});
  for (const std::optional<size_t>& output : outputs_) {
    joint.outputs.push_back(output ? std::optional(numbered(*output)) : std::nullopt);
  }
  joint.tensors = callers + results + maker_.size();
}

}  // namespace saker::aot
