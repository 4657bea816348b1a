#include "autograd/recompute.h"

#include <algorithm>
#include <cmath>

#include "autograd/checkpoint.h"
#include "ops/control_flow.h"

namespace saker::autograd {
namespace {

using ops::Cost;

constexpr uint32_t kLongestChain = 100;
constexpr uint32_t kFarthest = 100;       // from the backward, as far as it counts
constexpr double kGrowth = 1.1;           // of the cost, for each step away from the backward
constexpr uint64_t kReductionFactor = 4;  // a result so much smaller is saved
constexpr double kFlopsPerByte = 20;      // what a machine computes while it moves a byte

// Is done in one loop with what comes before and after it.
bool fuses(const ir::Node* node) {
  const ops::Operator* op = ops::of(node);
  if (!op || !node->regions().empty()) return false;
  switch (op->cost) {
    case Cost::View:
    case Cost::Fill:
    case Cost::Pointwise:
    case Cost::Reduction:
    case Cost::Indexing:
      return true;
    default:
      return false;
  }
}

// A branch of what is quick is quick itself; a loop takes long.
Ban bodiesBan(const ir::Node& node) {
  if (ops::isLoop(node)) return Ban::Heavy;
  for (const ir::Region* body : node.regions()) {
    for (const ir::Node* inner = body->first(); !inner->isReturn(); inner = inner->next()) {
      bool quick = inner->regions().empty() ? fuses(inner) : bodiesBan(*inner) == Ban::Soft;
      if (!quick) return Ban::Heavy;
    }
  }
  return Ban::Soft;
}

Ban classBan(const JointGraph& joint, size_t place) {
  const ir::Node* node = joint.nodes()[place];
  const ops::Operator* op = ops::of(node);
  ir::Attributes asked = node->attributes();
  if (asked.checkpoint == ir::Attributes::Checkpoint::Save) return Ban::Never;
  // Random operators are among those that stay; they may be asked to draw the same again.
  bool drawsAgain = op && asked.recomputes() && op->isRandom() && !op->writes && !op->has(ops::kEffect);
  drawsAgain &= node->regions().empty();  // in a body, no one reads the state before it
  if (!op || (joint.isPinned(place) && !drawsAgain)) return Ban::Never;
  ops::Effects effects = joint.effectsOf(*node);
  if (effects.has(ops::kDynamicShape) || effects.has(ops::kNondeterministic)) return Ban::Never;
  bool readsWritten = false;
  joint.eachInput(node, [&](const ir::Value* input) {
    // Memory of its own that is written on the way holds something else later.
    readsWritten |= joint.forwardWrites(input) && !joint.mustCopy(input);
    readsWritten |= joint.backwardWrites(input) && !joint.isView(place);
  });
  for (size_t i = 0; i < node->resultCount(); ++i) {
    readsWritten |= joint.forwardWrites(node->result(i)) && !joint.mustCopy(node->result(i));
  }
  if (readsWritten) return Ban::Never;
  if (asked.recomputes()) return Ban::None;
  if (op->bodies) return bodiesBan(*node);
  if (op->cost == Cost::Normalization) return Ban::Soft;
  return fuses(node) ? Ban::None : Ban::Heavy;
}

class BanFinder {
 public:
  explicit BanFinder(const JointGraph& joint)
      : joint_(joint), size_(joint.nodes().size()), bans_(size_), fuses_(size_ + 1), view_(size_) {
    for (size_t place = 0; place < size_; ++place) {
      fuses_[place] = fuses(joint.nodes()[place]);
      view_[place] = joint.isView(place);
      // What only the backward needs is computed once, wherever it is.
      if (joint.inForward(place)) bans_[place] = classBan(joint, place);
      asked_.push_back(joint.nodes()[place]->attributes().recomputes());
    }
    std::vector<bool> leaving = findLeaving(joint);
    for (size_t place = 0; place < size_; ++place) {
      if (leaving[place] && !view_[place]) bans_[place] = Ban::Never;
    }
  }

  std::vector<Ban> run() {
    for (size_t place = 0; place < size_; ++place) {
      if (!joint_.inForward(place) || bans_[place] != Ban::None || view_[place] || asked_[place]) continue;
      if (isReduction(place) || isReadFromMemory(place)) bans_[place] = Ban::Soft;
    }
    banUsesFarApart();
    banLongChains();
    return std::move(bans_);
  }

 private:
  bool isReduction(size_t place) const {
    const ir::Node* node = joint_.nodes()[place];
    if (ops::of(node)->cost != Cost::Reduction) return false;
    uint64_t in = 0, out = 0;
    for (const ir::Use& use : node->operands()) in += joint_.bytesOf(use.value);
    for (size_t i = 0; i < node->resultCount(); ++i) out += joint_.bytesOf(node->result(i));
    return out * kReductionFactor < in;
  }

  // The backward gives it, or a view of it, to an operator that is not fused: then it is written to memory all the
  // same.
  bool isReadFromMemory(size_t place) const {
    std::vector<size_t> stack = {place};
    while (!stack.empty()) {
      const ir::Node* node = joint_.nodes()[stack.back()];
      stack.pop_back();
      for (size_t i = 0; i < node->resultCount(); ++i) {
        bool read = false;
        joint_.eachUser(node->result(i), [&](size_t user) {
          if (user == size_) return;
          if (!joint_.inForward(user) && !fuses_[user]) read = true;
          if (view_[user]) stack.push_back(user);
        });
        if (read) return true;
      }
    }
    return false;
  }

  // A value that is read again behind an operator that its first readers lead to lies in memory between them. To
  // compute the later reader again would connect what is far apart: the sums along a residual stream.
  void banUsesFarApart() {
    std::vector<size_t> firstUnfused(size_ + 1, SIZE_MAX);  // that this leads to, through fused ones
    auto after = [&](size_t place) {
      size_t first = SIZE_MAX;
      for (size_t i = 0; i < joint_.nodes()[place]->resultCount(); ++i) {
        joint_.eachUser(joint_.nodes()[place]->result(i), [&](size_t user) {
          if (user < size_ && joint_.inForward(user)) first = std::min(first, firstUnfused[user]);
        });
      }
      return first;
    };
    for (size_t place = size_; place-- > 0;) {
      if (!joint_.inForward(place)) continue;
      size_t first = after(place);
      firstUnfused[place] = fuses_[place] ? first : place;
      if (first == SIZE_MAX) continue;
      const ir::Node* node = joint_.nodes()[place];
      for (size_t i = 0; i < node->resultCount(); ++i) {
        joint_.eachUser(node->result(i), [&](size_t user) {
          if (user == size_ || !joint_.inForward(user) || user <= first) return;
          if (asked_[user]) return;
          if (fuses_[place] && fuses_[user] && !view_[user] && bans_[user] == Ban::None) bans_[user] = Ban::Soft;
        });
      }
    }
  }

  void banLongChains() {
    std::vector<uint32_t> length(size_);
    for (size_t place = 0; place < size_; ++place) {
      if (!joint_.inForward(place) || bans_[place] != Ban::None) continue;
      uint32_t longest = 0;
      joint_.eachInput(joint_.nodes()[place], [&](const ir::Value* input) {
        if (!input->isParameter()) longest = std::max(longest, length[joint_.definedAt(input)]);
      });
      length[place] = longest + !view_[place];
      if (length[place] <= kLongestChain || view_[place] || asked_[place]) continue;
      bans_[place] = Ban::Soft;
      length[place] = 0;
    }
  }

  const JointGraph& joint_;
  size_t size_;
  std::vector<Ban> bans_;
  std::vector<bool> fuses_, view_, asked_;
};

}  // namespace

std::vector<Ban> findBans(const JointGraph& joint) { return BanFinder(joint).run(); }

std::vector<double> savingCosts(const JointGraph& joint) {
  std::vector<double> growth(kFarthest + 1, 1);
  for (size_t i = 1; i < growth.size(); ++i) growth[i] = growth[i - 1] * kGrowth;
  size_t size = joint.nodes().size();
  std::vector<uint32_t> distance(size);
  std::vector<double> costs(joint.graph().valueLimit());
  auto costOf = [&](const ir::Value* value, double factor) {
    return static_cast<double>(std::max<uint64_t>(joint.bytesOf(value), 1)) * factor;
  };
  for (size_t place = size; place-- > 0;) {
    const ir::Node* node = joint.nodes()[place];
    bool fused = fuses(node);
    if (joint.inForward(place)) distance[place] = kFarthest;
    std::vector<bool> written(node->resultCount(), !fused);
    for (size_t i = 0; i < node->resultCount(); ++i) {
      joint.eachUser(node->result(i), [&](size_t user) {
        if (user == size || !fuses(joint.nodes()[user])) written[i] = true;
        if (user < size) distance[place] = std::min(distance[place], distance[user] + 1);
      });
    }
    for (size_t i = 0; i < node->resultCount(); ++i) {
      costs[node->result(i)->id()] = costOf(node->result(i), growth[distance[place]] * (written[i] ? 1 : 2));
    }
  }
  // A primal that is written at the end is saved as a copy.
  for (const ir::Value* parameter : joint.graph().top()->parameters()) {
    if (joint.isPrimal(parameter) && joint.mustCopy(parameter)) costs[parameter->id()] = costOf(parameter, 1);
  }
  return costs;
}

namespace {

// How often a loop is taken to run where no one knows.
constexpr double kUnseenTrips = 8;

double timeOf(const JointGraph& joint, const ir::Node* node);

// Of bodies: as if all of them ran.
double timeOfBodies(const JointGraph& joint, const ir::Node& node) {
  double time = 0, trips = 1;
  for (const ir::Region* body : node.regions()) {
    for (const ir::Node* inner = body->first(); !inner->isReturn(); inner = inner->next()) time += timeOf(joint, inner);
  }
  if (ops::isLoop(node)) {
    const ir::Arg& given = node.arg(ops::kLoopTrips);
    trips = given.kind() == ir::Arg::Kind::Int ? static_cast<double>(given.toInt()) : kUnseenTrips;
  }
  return time * std::max(trips, 0.0);
}

double timeOf(const JointGraph& joint, const ir::Node* node) {
  if (!node->regions().empty()) return timeOfBodies(joint, *node);
  double bytes = 0, out = 0;
  std::vector<const ir::TensorType*> inputs;
  std::vector<double> elements;
  for (const ir::Use& use : node->operands()) {
    bytes += static_cast<double>(joint.bytesOf(use.value));
    if (!use.value->tensor() || use.value->tensor()->rank < 2) continue;
    inputs.push_back(use.value->tensor());
    elements.push_back(static_cast<double>(joint.elementsOf(use.value)));
  }
  for (size_t i = 0; i < node->resultCount(); ++i) {
    bytes += static_cast<double>(joint.bytesOf(node->result(i)));
    if (i == 0) out = static_cast<double>(joint.elementsOf(node->result(i)));
  }
  const ops::Operator* op = ops::of(node);
  double flops = 0;
  if (op && inputs.size() >= 2) {
    double a = elements[elements.size() - 2], b = elements.back();
    switch (op->cost) {
      case Cost::Matmul:
        flops = 2 * std::sqrt(a * b * out);  // m*k, k*n and m*n make m*k*n
        break;
      case Cost::Convolution:  // for each result, the part of the weight that makes its channel
        flops = 2 * out * elements[1] / static_cast<double>(std::max<int64_t>(1, joint.example(inputs[1]->size(0))));
        break;
      case Cost::Attention:  // of each query with each key, and back
        flops = 4 * elements[0] * static_cast<double>(joint.example(inputs[1]->size(inputs[1]->rank - 2)));
        break;
      default:
        break;
    }
  }
  return bytes + flops / kFlopsPerByte;
}

}  // namespace

double timeOf(const JointGraph& joint, size_t place) { return timeOf(joint, joint.nodes()[place]); }

}  // namespace saker::autograd
