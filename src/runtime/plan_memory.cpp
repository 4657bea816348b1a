#include "runtime/plan_memory.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "aten/call_node.h"
#include "aten/enums.h"
#include "ir/each_value.h"
#include "ops/group.h"
#include "ops/operator.h"
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

class Planner {
 public:
  Planner(const ir::Graph& graph, const InPlaceOf& inPlaceOf) : graph_(graph), inPlaceOf_(inPlaceOf), memory_(graph) {}

  MemoryPlan plan() {
    noteLastUses();
    noteReshaped();
    size_t index = 0;
    for (const ir::Node* node = graph_.top()->first(); node && !node->isReturn(); node = node->next(), ++index) {
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
        out_.nodes.emplace(node, MemoryPlan::Computed{*into, place(node->result(), endsHere(*node, node->result(), index))});
      }
    }
    return std::move(out_);
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
        } else if (isPlainlyMade(operand)) {
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

  // It ends here, and no other operand lies in its memory.
  bool mayBeOverwritten(const ir::Node& node, const ir::Value* operand, const ir::Value* result, size_t index) {
    uint32_t memory = memory_.classOf(operand);
    if (operand->type() != result->type() || lastUse_[memory] != index || bytesOf(*operand->tensor()) == 0) return false;
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

  void noteLastUses() {
    lastUse_.assign(graph_.valueLimit() + 1, 0);
    size_t index = 0;
    for (const ir::Node* node = graph_.top()->first(); node; node = node->next(), ++index) {
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
    return !memory_.escapes(result) && !memory_.isFromOutside(result) && bytesOf(*type) != 0;
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
  passes::Memory memory_;
  MemoryPlan out_;
  std::vector<size_t> lastUse_;  // by class: the last node in order that touches it
  std::vector<bool> reshaped_;   // by class: a node may give it another layout
  std::unordered_map<const ir::Value*, size_t> bufferOf_;
  std::unordered_map<const ir::OpDef*, Forms> variants_, withTensors_;
};

}  // namespace

MemoryPlan planMemory(const ir::Graph& graph, const InPlaceOf& inPlaceOf) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->regions().empty() && !ops::isGroup(*node)) return {};  // a body may run again
  }
  return Planner(graph, inPlaceOf).plan();
}

}  // namespace saker::runtime
