#include "runtime/plan_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

#include "aten/call_node.h"
#include "aten/enums.h"
#include "ir/each_value.h"
#include "ops/effects.h"
#include "ops/group.h"
#include "ops/operator.h"
#include "ops/view_inverse.h"
#include "passes/memory.h"
#include "runtime/number_operands.h"
#include "runtime/sizes.h"

namespace saker::runtime {

namespace {

// The variant of an operator that computes into its last argument, if it takes the same arguments else and has a kernel
// of its own: those that PyTorch generates compute elsewhere, and copy. Losses compute in the size of their input
// before they reduce, and give what they compute into that size for a while.
std::optional<c10::OperatorHandle> computesInto(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.name() == "reduction") return std::nullopt;
  }
  const std::string& overload = schema.overload_name();
  for (const std::string& name : {overload.empty() ? "out" : overload + "_out", std::string("out")}) {
    std::optional<c10::OperatorHandle> found = c10::Dispatcher::singleton().findSchema({schema.name(), name});
    if (!found || !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    const std::vector<c10::Argument>&takes = schema.arguments(), &given = found->schema().arguments();
    if (given.size() != takes.size() + 1) continue;
    bool same = given.back().alias_info() && given.back().alias_info()->isWrite();
    for (size_t i = 0; same && i < takes.size(); ++i) {
      same = takes[i].name() == given[i].name() && *takes[i].type() == *given[i].type() && !given[i].alias_info();
    }
    if (same) return found;
  }
  return std::nullopt;
}

// Does the operator have a form that computes into its first argument, element by element?
bool worksInPlace(const ops::Operator& op) {
  if (op.cost != ops::Cost::Pointwise) return false;
  const std::string_view name = op.qualified;
  const size_t end = std::min(name.find('.'), name.size());
  std::string form(name.substr(0, end));
  form.append(1, '_').append(name.substr(end));
  return ops::find(form) != nullptr;
}

constexpr size_t kLeastApart = 16 << 10;  // smaller values are many, and small together
constexpr size_t kMostApart = 32 << 20;   // larger ones the C library gives back to the system

class Planner {
 public:
  Planner(const ir::Graph& graph, const InPlaceOf& inPlaceOf, const std::vector<bool>& ending,
          const std::vector<Together>& together)
      : graph_(graph), inPlaceOf_(inPlaceOf), ending_(ending), memory_(graph) {
    noteSteps(together);
    noteLastUses();
    noteReshaped();
  }

  // Results of as many bytes, and more, are memory of their own.
  MemoryPlan plan(size_t apart) {
    apart_ = apart;
    out_ = {};
    bufferOf_.clear();
    for (const ir::Node* node = graph_.top()->first(); node && !node->isReturn(); node = node->next()) {
      const size_t index = stepOf(node);
      auto place = [&](const ir::Value* value, std::optional<size_t> operand) {
        const ir::TensorType& type = *value->tensor();
        std::vector<Block>& buffers = out_.workspace.buffers;
        size_t buffer = operand ? *operand : buffers.size();
        if (!operand) buffers.push_back({bytesOf(type), index, index});
        bufferOf_[value] = buffer;
        buffers[buffer].last = std::max<size_t>(lastUse_[memory_.classOf(value)], index);
        out_.workspace.places.push_back({&type, buffer});
        return out_.workspace.places.size() - 1;
      };
      if (ops::isGroup(*node)) {
        planGroup(*node, index, place);
      } else if (std::optional<c10::OperatorHandle> into = planned(*node)) {
        out_.nodes.emplace(node,
                           MemoryPlan::Computed{*into, place(node->result(), endsHere(*node, node->result(), index))});
      }
    }
    return std::move(out_);
  }

  // The most bytes that a run needs at one time: the workspace, and what lies in memory of its own.
  size_t peakOf(const MemoryPlan& plan) const {
    std::vector<Block> buffers = plan.workspace.buffers;
    const size_t workspace = arrange(buffers);
    std::vector<int64_t> change(steps_ + 2);
    auto lives = [&](const ir::Value* value, size_t first, size_t last) {
      auto bytes = static_cast<int64_t>(value->tensor() ? bytesOf(*value->tensor()) : 0);
      change[first] += bytes;
      change[std::max(first, last) + 1] -= bytes;
    };
    for (const ir::Value* input : graph_.top()->parameters()) {
      lives(input, 0, isEnding(input) ? lastRead(input) : steps_);
    }
    for (const ir::Node* node = graph_.top()->first(); node && !node->isReturn(); node = node->next()) {
      const size_t index = stepOf(node);
      if (plan.nodes.count(node)) continue;
      auto group = plan.fused.find(node);
      for (size_t i = 0; i < node->resultCount(); ++i) {
        const ir::Value* result = node->result(i);
        if (ops::of(node) && ops::sharing(*node, i) != ops::Sharing::None) continue;
        bool grouped = group != plan.fused.end();
        if (grouped && group->second.places[i] != kNone) continue;
        bool taken = grouped && group->second.overwrites[i] != kNone;
        const size_t last = memory_.escapes(result) ? steps_ : lastUse_[memory_.classOf(result)];
        lives(result, taken ? index + 1 : index, last);
      }
    }
    int64_t now = 0, most = 0;
    for (int64_t each : change) most = std::max(most, now += each);
    return workspace + static_cast<size_t>(most);
  }

  // Sizes of values that might be apart, the largest first.
  static std::vector<size_t> sizesOf(const MemoryPlan& plan) {
    std::vector<size_t> sizes;
    for (const Block& block : plan.workspace.buffers) {
      if (block.bytes >= kLeastApart && block.bytes < kMostApart) sizes.push_back(block.bytes);
    }
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  }

 private:
  template <typename Place>
  void planGroup(const ir::Node& node, size_t index, Place&& place) {
    MemoryPlan::Fused& group = out_.fused[&node];
    group.step = index;
    group.places.assign(node.resultCount(), kNone);
    group.overwrites = group.places;
    std::vector<lower::InPlace> pairs = inPlaceOf_(node);
    for (uint32_t i = 0; i < node.resultCount(); ++i) {
      const ir::Value* result = node.result(i);
      bool inside = mayLieInWorkspace(result);
      std::optional<size_t> buffer;
      for (const lower::InPlace& pair : pairs) {
        const ir::Value* operand = node.operand(pair.operand);
        if (pair.result != i || !mayBeOverwritten(node, operand, result, index)) continue;
        auto found = bufferOf_.find(operand);
        if (found != bufferOf_.end()) {
          if (inside) buffer = found->second;
        } else if (isPlainlyMade(operand) || operand->isParameter()) {
          group.overwrites[i] = pair.operand;
        }
        if (!buffer && group.overwrites[i] == kNone) continue;
        const uint32_t taken = pair.operand;
        std::erase_if(pairs, [&](const lower::InPlace& other) { return other.operand == taken; });
        break;
      }
      if (inside && group.overwrites[i] == kNone) group.places[i] = static_cast<uint32_t>(place(result, buffer));
    }
  }

  bool isEnding(const ir::Value* input) const { return input->index() < ending_.size() && ending_[input->index()]; }

  // The last node that reads an input, or a view of it.
  size_t lastRead(const ir::Value* input) const {
    size_t last = 0;
    for (const ir::Use* use = input->firstUse(); use; use = use->next) {
      const ir::Node* user = use->user;
      while (user->region() != graph_.top()) user = user->region()->owner();
      last = std::max(last, user->isReturn() ? steps_ : stepOf(user));
      for (size_t i = 0; i < user->resultCount(); ++i) {
        if (ops::of(user) && ops::sharedArgument(user->result(i)) == input) {
          last = std::max(last, lastRead(user->result(i)));
        }
      }
    }
    return last;
  }

  // An input that ends here: whether somebody has another tensor on its memory is seen in a run.
  bool mayTakeInput(const ir::Value* input, const ir::Value* result, size_t index) const {
    size_t bytes = bytesOf(*input->tensor());
    return isEnding(input) && bytes != 0 && bytes == bytesOf(*result->tensor()) && lastRead(input) == index;
  }

  // It ends here, and no other operand lies in its memory.
  bool mayBeOverwritten(const ir::Node& node, const ir::Value* operand, const ir::Value* result, size_t index) {
    uint32_t memory = memory_.classOf(operand);
    if (isReadBeside(index, memory)) return false;
    if (operand->isParameter()) return mayTakeInput(operand, result, index);
    // Whatever sizes they are seen with: the kernel reads and writes at one place.
    size_t bytes = bytesOf(*operand->tensor());
    if (lastUse_[memory] != index || bytes == 0 || bytes != bytesOf(*result->tensor())) return false;
    if (memory_.escapes(operand) || memory_.isFromOutside(operand) || reshaped_[memory]) return false;
    return std::all_of(node.operands().begin(), node.operands().end(), [&](const ir::Use& other) {
      return other.value == operand || memory_.classOf(other.value) != memory;
    });
  }

  // A tensor of its own that an operator has made, no view.
  bool isPlainlyMade(const ir::Value* value) const {
    const ir::Node* node = value->def();
    if (!node || (!ops::isGroup(*node) && (!ops::of(node) || !ops::of(node)->ownMemory))) return false;
    const ir::TensorType& type = *value->tensor();
    return type.device == ir::Device{} && type.layout == ir::Layout::Strided && !type.flags.conj && !type.flags.neg &&
           type.offset.isConst() && type.offset.constant() == 0 && !node->attributes().shown;
  }

  size_t stepOf(const ir::Node* node) const { return stepOf_[node->id()]; }

  // Groups that run together are one step.
  void noteSteps(const std::vector<Together>& together) {
    std::unordered_map<const ir::Node*, size_t> counts;
    for (const Together& each : together) counts.emplace(each.first, each.count);
    stepOf_.assign(graph_.nodeLimit(), 0);
    size_t left = 1;
    for (const ir::Node* node = graph_.top()->first(); node; node = node->next()) {
      auto several = counts.find(node);
      stepOf_[node->id()] = steps_;
      if (several != counts.end()) left = several->second;
      if (--left > 0) continue;
      left = 1;
      ++steps_;
    }
    for (const Together& each : together) {
      const ir::Node* node = each.first;
      for (size_t i = 0; i < each.count; ++i, node = node->next()) {
        std::unordered_set<uint32_t> read;
        for (const ir::Use& use : node->operands()) read.insert(memory_.classOf(use.value));
        for (uint32_t memory : read) ++readers_[{stepOf(node), memory}];
      }
    }
  }

  // Does another group that runs together with this one read the memory?
  bool isReadBeside(size_t step, uint32_t memory) const {
    auto found = readers_.find({step, memory});
    return found != readers_.end() && found->second > 1;
  }

  void noteLastUses() {
    lastUse_.assign(graph_.valueLimit() + 1, 0);
    for (const ir::Node* node = graph_.top()->first(); node; node = node->next()) {
      const size_t index = stepOf(node);
      for (const ir::Use& use : node->operands()) lastUse_[memory_.classOf(use.value)] = index;
      for (size_t i = 0; i < node->resultCount(); ++i) {
        size_t& last = lastUse_[memory_.classOf(node->result(i))];
        last = std::max(last, index);
      }
    }
  }

  // Tensors of the workspace are there in the next run as well: none may get another layout or memory in this one.
  // Operators with out= give what they are given another size, and the user's may do so.
  void noteReshaped() {
    reshaped_.assign(graph_.valueLimit() + 1, false);
    for (const ir::Node* node = graph_.top()->first(); node && !node->isReturn(); node = node->next()) {
      const ops::Operator* op = ops::of(node);
      bool layout = !op || op->has(ops::kSetsStorage) || (op->writes && op->cost == ops::Cost::View);
      for (size_t i = 0; i < node->args().size(); ++i) {
        if (!layout && !(i > 0 && op->writesArgument(i))) continue;
        ir::eachValue(node->arg(i), [&](const ir::Value* value) { reshaped_[memory_.classOf(value)] = true; });
      }
    }
  }

  // The buffer of an operand that nothing reads afterwards and that the result can take the place of: what is written
  // is in the cache already, and there is less memory to go through.
  std::optional<size_t> endsHere(const ir::Node& node, const ir::Value* result, size_t index) {
    if (!variantOf(node).inPlace) return std::nullopt;
    for (const ir::Use& use : node.operands()) {
      auto found = bufferOf_.find(use.value);
      if (found == bufferOf_.end() || use.value->type() != result->type()) continue;
      uint32_t memory = memory_.classOf(use.value);
      if (lastUse_[memory] != index) continue;
      // Another operand on the same memory is read at other places than are written.
      bool alone = std::all_of(node.operands().begin(), node.operands().end(), [&](const ir::Use& other) {
        return other.value == use.value || memory_.classOf(other.value) != memory;
      });
      if (alone) return found->second;
    }
    return std::nullopt;
  }

  std::optional<c10::OperatorHandle> planned(const ir::Node& node) {
    const ops::Operator* op = ops::of(&node);
    constexpr uint32_t decides = ops::kDataDependent | ops::kDynamicShape | ops::kCopiedOut;
    if (!op || op->writes || op->isRandom() || (op->traits & decides) || node.resultCount() != 1) return std::nullopt;
    if (node.attributes().shown || node.attributes().inferenceToggled) return std::nullopt;
    if (!mayLieInWorkspace(node.result())) return std::nullopt;
    return variantOf(node).into;
  }

  // Nobody sees it outside of the run, and it is plain memory of a known size.
  bool mayLieInWorkspace(const ir::Value* result) const {
    const ir::TensorType* type = result->tensor();
    if (!type || type->symbolic || !type->offset.isConst() || type->offset.constant() != 0) return false;
    if (type->device != ir::Device{} || type->layout != ir::Layout::Strided || type->flags.conj || type->flags.neg) {
      return false;
    }
    if (c10::isQIntType(aten::fromDType(type->dtype))) return false;
    if (!result->hasUses() || reshaped_[memory_.classOf(result)]) return false;
    const size_t bytes = bytesOf(*type);
    if (bytes >= apart_ && bytes < kMostApart) return false;
    return !memory_.escapes(result) && !memory_.isFromOutside(result) && bytes != 0;
  }

  struct Forms {
    std::optional<c10::OperatorHandle> into;
    bool inPlace = false;
  };
  const Forms& variantOf(const ir::Node& node) {
    std::optional<c10::OperatorHandle> other = withTensor(node);
    std::unordered_map<const ir::OpDef*, Forms>& variants = other ? withTensors_ : variants_;
    auto known = variants.find(node.op());
    if (known == variants.end()) {
      std::optional<c10::OperatorHandle> handle = other ? other : aten::findOperator(node.op()->qualified);
      bool one = handle && handle->schema().returns().size() == 1 && !handle->schema().returns()[0].alias_info() &&
                 handle->schema().returns()[0].type()->kind() == c10::TypeKind::TensorType;
      Forms forms;
      if (one) forms.into = computesInto(handle->schema());
      if (const ops::Operator* op = ops::of(&node); op && forms.into) forms.inPlace = worksInPlace(*op);
      known = variants.emplace(node.op(), std::move(forms)).first;
    }
    return known->second;
  }

  // All memory between the first and the last element. Layouts with gaps or overlaps are none that operators choose.
  static size_t bytesOf(const ir::TensorType& type) {
    int64_t elements = 1, last = 0;
    for (size_t i = 0; i < type.rank; ++i) {
      if (!type.size(i).isConst() || !type.stride(i).isConst()) return 0;
      int64_t size = type.size(i).constant();
      elements *= size;
      last += (size - 1) * type.stride(i).constant();
    }
    if (elements == 0 || last + 1 != elements) return 0;
    return static_cast<size_t>(elements) * c10::elementSize(aten::fromDType(type.dtype));
  }

  const ir::Graph& graph_;
  const InPlaceOf& inPlaceOf_;
  const std::vector<bool>& ending_;
  passes::Memory memory_;
  size_t apart_ = SIZE_MAX;
  size_t steps_ = 0;
  MemoryPlan out_;
  std::vector<size_t> lastUse_;                            // by class: the last node in order that touches it
  std::vector<size_t> stepOf_;                             // by node
  std::map<std::pair<size_t, uint32_t>, size_t> readers_;  // by step and class: groups, where several run together
  std::vector<bool> reshaped_;                             // by class: a node may give it another layout
  std::unordered_map<const ir::Value*, size_t> bufferOf_;
  std::unordered_map<const ir::OpDef*, Forms> variants_, withTensors_;
};

}  // namespace

// A workspace is kept from run to run, and counts at all times; what is taken and given back, while it is there. The
// largest values are taken and given back if that makes the peak smaller, and as few as will do.
MemoryPlan planMemory(const ir::Graph& graph, const InPlaceOf& inPlaceOf, const std::vector<bool>& ending,
                      const std::vector<Together>& together) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->regions().empty() && !ops::isGroup(*node)) return {};  // a body may run again
  }
  Planner planner(graph, inPlaceOf, ending, together);
  MemoryPlan plan = planner.plan(SIZE_MAX);
  if (plan.fused.empty()) return plan;  // calls into the workspace are what makes replays by ATen fast
  constexpr size_t kMostTried = 6;
  std::vector<size_t> sizes = Planner::sizesOf(plan), tried{SIZE_MAX}, peaks{planner.peakOf(plan)};
  for (size_t i = 0; i < std::min(sizes.size(), kMostTried); ++i) {
    size_t which = sizes.size() <= kMostTried ? i : i * (sizes.size() - 1) / (kMostTried - 1);
    tried.push_back(sizes[which]);
    peaks.push_back(planner.peakOf(planner.plan(sizes[which])));
  }
  const size_t least = *std::min_element(peaks.begin(), peaks.end());
  size_t chosen = 0;
  while (peaks[chosen] > least + least / 256) ++chosen;
  return chosen == 0 ? plan : planner.plan(tried[chosen]);
}

}  // namespace saker::runtime
