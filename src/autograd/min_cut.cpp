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

// A value is two vertices: between them lies the edge that saving it cuts. A node with one result needs no vertex of
// its own: the first vertex of its result stands for it.
class Network {
 public:
  Network(const JointGraph& joint, const std::vector<bool>& isBanned, const std::vector<double>& costs)
      : joint_(joint), isBanned_(isBanned), computed_(joint.graph().valueLimit(), kNone), read_(computed_) {
    // Capacities are integers: as fine as fits.
    double total = 0;
    for (double cost : costs) total += std::max(cost, 0.0);
    scale_ = std::min(64.0, std::ldexp(1.0, 58) / std::max(total, 1.0));
    for (double cost : costs) {
      int64_t capacity = cost > 0 ? std::max<int64_t>(1, std::llround(cost * scale_)) : 0;
      capacities_.push_back(cost < 0 ? MaxFlow::kUnlimited : capacity);
    }
  }

  std::variant<std::vector<ir::Value*>, std::string> run() {
    wanted_.resize(joint_.nodes().size());
    for (ir::Value* gradient : joint_.gradients()) wantInBackward(gradient);
    for (size_t place = joint_.nodes().size(); place-- > 0;) {
      if (joint_.inBackward(place)) {
        joint_.eachInput(joint_.nodes()[place], [&](ir::Value* input) { wantInBackward(input); });
      } else if (wanted_[place]) {
        addNode(place);
      }
    }
    if (flow_.run(kSource, kSink) >= MaxFlow::kUnlimited) {
      return "the backward needs something that can neither be saved nor be computed again";
    }
    std::vector<ir::Value*> saved;
    for (ir::Value* value : values_) {
      if (!flow_.onSinkSide()[computed_[value->id()]] && flow_.onSinkSide()[read_[value->id()]]) saved.push_back(value);
    }
    return saved;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kSource = 0, kSink = 1;

  // The vertex that stands for the value where it is read.
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

  void wantInBackward(ir::Value* value) {
    if (!joint_.isSavable(value)) return;
    if (read_[value->id()] == kNone || !toSink_[value->id()]) {
      flow_.addEdge(read(value), kSink, MaxFlow::kUnlimited);
      toSink_[value->id()] = true;
    }
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
    joint_.eachInput(node, [&](ir::Value* input) { flow_.addEdge(read(input), vertex, MaxFlow::kUnlimited); });
  }

  const JointGraph& joint_;
  const std::vector<bool>& isBanned_;
  double scale_ = 1;
  std::vector<int64_t> capacities_;  // by value id
  MaxFlow flow_{2};
  std::vector<bool> wanted_;               // by place
  std::vector<uint32_t> computed_, read_;  // vertices, by value id
  std::vector<bool> toSink_ = std::vector<bool>(computed_.size());
  std::vector<ir::Value*> values_;
};

}  // namespace

std::variant<std::vector<ir::Value*>, std::string> minCut(const JointGraph& joint, const std::vector<bool>& isBanned,
                                                          const std::vector<double>& savingCosts) {
  return Network(joint, isBanned, savingCosts).run();
}

}  // namespace saker::autograd
