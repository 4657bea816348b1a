#include "autograd/min_cut.h"

#include <algorithm>
#include <cmath>

#include "autograd/max_flow.h"

namespace saker::autograd {
namespace {

// Primals, numbers and tensors that have memory of their own. Views are made anew from these, for nothing.
bool maySave(const JointGraph& joint, const ir::Value* value) {
  if (!value->tensor()) return ir::asScalar(value->type()) != nullptr;
  return value->isParameter() || !joint.isView(joint.definedAt(value));
}

// A value is two vertices: between them lies the edge that saving it cuts. Where it may only be read from a copy there
// is a third one, behind an edge that saving the copy cuts. A node with one result needs no vertex of its own: the
// first vertex of its result stands for it.
class Network {
 public:
  Network(const JointGraph& joint, const LateReads& late, const std::vector<bool>& isBanned,
          const std::vector<double>& costs)
      : joint_(joint),
        late_(late),
        isBanned_(isBanned),
        computed_(joint.graph().valueLimit(), kNone),
        read_(computed_),
        copied_(computed_) {
    // Capacities are integers: as fine as fits.
    double total = 0;
    for (double cost : costs) total += std::max(cost, 0.0) * (1 + kCopyCost);
    for (const ir::Value* parameter : joint.graph().top()->parameters()) total += copyCost(parameter);
    scale_ = std::min(64.0, std::ldexp(1.0, 58) / std::max(total, 1.0));
    for (double cost : costs) {
      int64_t capacity = cost > 0 ? std::max<int64_t>(1, std::llround(cost * scale_)) : 0;
      capacities_.push_back(cost < 0 ? MaxFlow::kUnlimited : capacity);
    }
  }

  std::variant<Choice, std::string> run() {
    wanted_.resize(joint_.nodes().size());
    for (ir::Value* gradient : joint_.gradients()) wantInBackward(gradient, joint_.nodes().size());
    for (size_t place = joint_.nodes().size(); place-- > 0;) {
      if (joint_.inBackward(place)) {
        joint_.eachInput(joint_.nodes()[place], [&](ir::Value* input) { wantInBackward(input, place); });
      } else if (wanted_[place]) {
        addNode(place);
      }
    }
    if (flow_.run(kSource, kSink) >= MaxFlow::kUnlimited) {
      return "the backward needs something that can neither be saved nor be computed again";
    }
    Choice choice;
    for (ir::Value* value : values_) {
      uint32_t id = value->id();
      if (isCut(computed_[id], read_[id])) choice.saved.push_back(value);
      if (copied_[id] != kNone && isCut(memoryOf(value), copied_[id]))
        choice.copied.push_back({value, lateReaders(value)});
    }
    return choice;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kSource = 0, kSink = 1;
  static constexpr double kCopyCost = 4;  // times its bytes: it has to be made, and nobody else needs it

  bool isCut(uint32_t from, uint32_t to) const { return !flow_.onSinkSide()[from] && flow_.onSinkSide()[to]; }

  // The vertex of the value whose memory this one lies in. Where the backward computes that again nobody else has it.
  uint32_t memoryOf(ir::Value* value) {
    while (ir::Value* operand = sharedOperand(value)) value = operand;
    if (value->isParameter()) return kSource;
    read(value);
    return computed_[value->id()];
  }

  ir::Value* sharedOperand(const ir::Value* value) const {
    ir::Value* found = nullptr;
    // What a branch or a loop returns is computed, although it may be what it was given.
    if (value->isParameter() || !value->def()->regions().empty()) return found;
    joint_.eachInput(value->def(), [&](ir::Value* input) {
      if (!found && input->tensor() && joint_.knownMemory(input) == joint_.knownMemory(value)) found = input;
    });
    return found;
  }

  MaxFlow::Capacity copyCapacity(const ir::Value* value) const {
    MaxFlow::Capacity saving = capacities_[value->id()];
    if (saving == MaxFlow::kUnlimited) return saving;
    return std::max({MaxFlow::Capacity{1}, MaxFlow::Capacity{std::llround(copyCost(value) * scale_)}, saving});
  }

  double copyCost(const ir::Value* value) const {
    return kCopyCost * static_cast<double>(std::max<uint64_t>(joint_.bytesOf(value), 1));
  }

  // The nodes that read the copy, if there is one.
  std::vector<size_t> lateReaders(const ir::Value* value) const {
    std::vector<size_t> readers;
    joint_.eachUser(value, [&](size_t user) {
      bool known = std::find(readers.begin(), readers.end(), user) != readers.end();
      if (!known && late_.needsCopy(value, user)) readers.push_back(user);
    });
    return readers;
  }

  // The vertex that stands for the value where this node reads it.
  uint32_t read(ir::Value* value, size_t reader) {
    uint32_t plain = read(value);
    if (!late_.needsCopy(value, reader)) return plain;
    uint32_t id = value->id();
    if (copied_[id] == kNone) {
      copied_[id] = flow_.addVertex();
      flow_.addEdge(memoryOf(value), copied_[id], copyCapacity(value));
    }
    return copied_[id];
  }

  uint32_t read(ir::Value* value) {
    uint32_t id = value->id();
    if (read_[id] != kNone) return read_[id];
    values_.push_back(value);
    read_[id] = flow_.addVertex();
    computed_[id] = flow_.addVertex();
    flow_.addEdge(computed_[id], read_[id], maySave(joint_, value) ? capacities_[id] : MaxFlow::kUnlimited);
    if (value->isParameter()) {
      flow_.addEdge(kSource, computed_[id], MaxFlow::kUnlimited);
    } else {
      wanted_[joint_.definedAt(value)] = true;
    }
    return read_[id];
  }

  void wantInBackward(ir::Value* value, size_t reader) {
    if (!joint_.isSavable(value)) return;
    uint32_t vertex = read(value, reader);
    toSink_.resize(flow_.vertices());
    if (!toSink_[vertex]) flow_.addEdge(vertex, kSink, MaxFlow::kUnlimited);
    toSink_[vertex] = true;
  }

  void addNode(size_t place) {
    const ir::Node* node = joint_.nodes()[place];
    uint32_t vertex = kNone;
    for (size_t i = 0; i < node->resultCount(); ++i) {
      uint32_t result = computed_[node->result(i)->id()];
      if (result == kNone) continue;  // not wanted
      if (node->resultCount() == 1) {
        vertex = result;
      } else {
        if (vertex == kNone) vertex = flow_.addVertex();
        flow_.addEdge(vertex, result, MaxFlow::kUnlimited);
      }
    }
    // What must not be computed again is there for the source; what it is computed from does not matter then.
    if (isBanned_[place]) return flow_.addEdge(kSource, vertex, MaxFlow::kUnlimited);
    joint_.eachInput(node, [&](ir::Value* input) { flow_.addEdge(read(input, place), vertex, MaxFlow::kUnlimited); });
  }

  const JointGraph& joint_;
  const LateReads& late_;
  const std::vector<bool>& isBanned_;
  double scale_ = 1;
  std::vector<int64_t> capacities_;  // by value id
  MaxFlow flow_{2};
  std::vector<bool> wanted_;                        // by place
  std::vector<uint32_t> computed_, read_, copied_;  // vertices, by value id
  std::vector<bool> toSink_;                        // by vertex
  std::vector<ir::Value*> values_;
};

}  // namespace

uint64_t bytesOf(const JointGraph& joint, const Choice& choice) {
  uint64_t bytes = joint.bytesOf(choice.saved);
  for (const Choice::Copied& copied : choice.copied) bytes += joint.bytesOf(copied.value);
  return bytes;
}

std::variant<Choice, std::string> minCut(const JointGraph& joint, const Exposure& exposure,
                                         const std::vector<bool>& isBanned, const std::vector<double>& savingCosts) {
  LateReads late = exposure.find(isBanned);
  return Network(joint, late, isBanned, savingCosts).run();
}

}  // namespace saker::autograd
