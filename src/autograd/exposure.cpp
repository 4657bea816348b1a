#include "autograd/exposure.h"

#include <algorithm>

#include "autograd/checkpoint.h"
#include "autograd/imitated.h"

namespace saker::autograd {
namespace {

using Row = std::vector<uint64_t>;

Row emptyRow(size_t bits) { return Row((bits + 63) / 64); }
Row fullRow(size_t bits) {
  Row row = emptyRow(bits);
  for (size_t i = 0; i < bits; ++i) row[i / 64] |= uint64_t{1} << (i % 64);
  return row;
}
void set(Row& row, size_t bit) { row[bit / 64] |= uint64_t{1} << (bit % 64); }
bool test(const Row& row, size_t bit) { return row[bit / 64] >> (bit % 64) & 1; }
void merge(Row& row, const Row& other) {
  for (size_t i = 0; i < other.size(); ++i) row[i] |= other[i];
}
bool none(const Row& row) {
  return std::all_of(row.begin(), row.end(), [](uint64_t word) { return word == 0; });
}

}  // namespace

LateReads::LateReads(std::vector<std::pair<uint32_t, size_t>> reads) : reads_(std::move(reads)) {
  std::sort(reads_.begin(), reads_.end());
}

bool LateReads::needsCopy(const ir::Value* value, size_t reader) const {
  return std::binary_search(reads_.begin(), reads_.end(), std::pair(value->id(), reader));
}

Exposure::Exposure(const JointGraph& joint) : joint_(joint) {
  const std::vector<Writable>& writable = joint.layout().writable;
  if (writable.empty()) return;
  for (const Writable& each : writable) {
    for (const Writable::Read& read : each.reads) gradientCount_ = std::max(gradientCount_, read.gradients.size());
  }
  size_t returned = joint.graph().top()->terminator()->args().size() - joint.layout().forwardResults;
  if (!gradientCount_) gradientCount_ = returned;
  for (const Writable& each : writable) {
    std::vector<Row>& byTangent = allowed_.emplace_back(joint.layout().tangents, emptyRow(gradientCount_));
    for (const Writable::Read& read : each.reads) {
      for (size_t t = 0; t < byTangent.size(); ++t) {
        for (size_t g = 0; read.tangents[t] && g < read.gradients.size(); ++g) {
          if (read.gradients[g]) set(byTangent[t], g);
        }
      }
    }
  }
  findExposed();
  followTangents();
  followGradients();
}

void Exposure::findExposed() {
  const ir::Region* top = joint_.graph().top();
  std::span<const ir::Arg> returned = top->terminator()->args();
  std::vector<std::vector<size_t>> writers(joint_.graph().valueLimit());  // by memory
  const std::vector<Writable>& writable = joint_.layout().writable;
  for (size_t i = 0; i < writable.size(); ++i) {
    auto add = [&](const ir::Value* value) {
      std::vector<size_t>& here = writers[joint_.knownMemory(value)];
      if (here.empty() || here.back() != i) here.push_back(i);
    };
    for (size_t primal : writable[i].primals) add(top->parameters()[primal]);
    for (size_t result : writable[i].results) {
      if (returned[result].isValue()) add(returned[result].toValue());
    }
  }
  std::vector<size_t> numbers(writers.size(), SIZE_MAX);
  auto add = [&](ir::Value* value) {
    uint32_t memory = joint_.knownMemory(value);
    // What the forward writes is saved as a copy anyhow; what the backward writes is meant as it is then.
    if (joint_.backwardWrites(value)) return;
    if (writers[memory].empty() || !value->tensor() || !joint_.isSavable(value) || joint_.mustCopy(value)) return;
    if (numbers[memory] == SIZE_MAX) {
      numbers[memory] = memories_.size();
      memories_.push_back({{}, writers[memory]});
    }
    memories_[numbers[memory]].values.push_back(value);
  };
  for (ir::Value* parameter : top->parameters()) add(parameter);
  for (ir::Node* node : joint_.nodes()) {
    for (size_t i = 0; i < node->resultCount(); ++i) add(node->result(i));
  }
}

// What reads memory that the backward writes is taken to come from all tangents.
void Exposure::followTangents() {
  tangents_.resize(joint_.nodes().size());
  Row all = fullRow(joint_.layout().tangents);
  for (size_t place = 0; place < tangents_.size(); ++place) {
    if (!joint_.inBackward(place)) continue;
    Row& row = tangents_[place] = emptyRow(joint_.layout().tangents);
    const ir::Node* node = joint_.nodes()[place];
    joint_.eachInput(node, [&](const ir::Value* input) {
      if (isFactory(*node) && !readsData(*node, input)) return;
      if (joint_.isTangent(input)) {
        set(row, input->index() - joint_.layout().primals);
      } else if (joint_.backwardWrites(input)) {
        row = all;
      } else if (!input->isParameter() && joint_.inBackward(joint_.definedAt(input))) {
        merge(row, tangents_[joint_.definedAt(input)]);
      }
    });
  }
}

void Exposure::followGradients() {
  gradients_.resize(joint_.nodes().size());
  returnedAs_.resize(joint_.graph().valueLimit());
  Row all = fullRow(gradientCount_);
  std::span<const ir::Arg> returned = joint_.graph().top()->terminator()->args();
  for (size_t i = 0; i < gradientCount_ && joint_.layout().forwardResults + i < returned.size(); ++i) {
    const ir::Arg& gradient = returned[joint_.layout().forwardResults + i];
    if (!gradient.isValue()) continue;
    Row& row = returnedAs_[gradient.toValue()->id()];
    if (row.empty()) row = emptyRow(gradientCount_);
    set(row, i);
  }
  for (size_t place = gradients_.size(); place-- > 0;) {
    if (!joint_.inBackward(place)) continue;
    Row row = emptyRow(gradientCount_);
    const ir::Node* node = joint_.nodes()[place];
    for (size_t i = 0; i < node->resultCount(); ++i) {
      merge(row, returnedAs_[node->result(i)->id()]);
      if (joint_.backwardWrites(node->result(i))) row = all;
      joint_.eachUser(node->result(i), [&](size_t user) {
        if (user < gradients_.size()) merge(row, gradients_[user]);
      });
    }
    // Done for what it does, whatever is asked for.
    if (joint_.isPinned(place) && none(row)) row = all;
    gradients_[place] = std::move(row);
  }
}

bool Exposure::isCovered(const Exposed& memory, const Row& tangents, const Row& gradients) const {
  for (size_t writable : memory.writable) {
    for (size_t t = 0; t < joint_.layout().tangents; ++t) {
      if (!test(tangents, t)) continue;
      const Row& allowed = allowed_[writable][t];
      for (size_t i = 0; i < gradients.size(); ++i) {
        if (gradients[i] & ~allowed[i]) return false;
      }
    }
  }
  return true;
}

// From one memory along what the backward may compute again to what it computes.
class Exposure::Search {
 public:
  Search(const Exposure& exposure, const std::vector<bool>& isBanned)
      : exposure_(exposure),
        joint_(exposure.joint_),
        isBanned_(isBanned),
        seen_(joint_.nodes().size(), SIZE_MAX),
        late_(joint_.nodes().size()),
        anyTangent_(fullRow(joint_.layout().tangents)) {}

  void run(size_t number) {
    const Exposed& memory = exposure_.memories_[number];
    reached_.clear();
    std::vector<size_t> work;
    auto reach = [&](size_t place) {
      if (place == seen_.size() || seen_[place] == number) return;
      seen_[place] = number;
      reached_.push_back(place);
      if (!joint_.inBackward(place) && !isBanned_[place]) work.push_back(place);
    };
    for (const ir::Value* value : memory.values) joint_.eachUser(value, reach);
    while (!work.empty()) {
      const ir::Node* node = joint_.nodes()[work.back()];
      work.pop_back();
      for (size_t i = 0; i < node->resultCount(); ++i) joint_.eachUser(node->result(i), reach);
    }
    // Each behind its readers.
    std::sort(reached_.begin(), reached_.end(), std::greater<>());
    for (size_t place : reached_) late_[place] = isLate(memory, place);
    for (const ir::Value* value : memory.values) noteReaders(memory, value);
  }

  std::vector<std::pair<uint32_t, size_t>> reads;

 private:
  // Does the backward need this where the memory may have been written without an error?
  bool isLate(const Exposed& memory, size_t place) const {
    if (joint_.inBackward(place)) {
      // What comes from no tangent is there for all of them.
      const Row& tangents = exposure_.tangents_[place];
      return !exposure_.isCovered(memory, none(tangents) ? anyTangent_ : tangents, exposure_.gradients_[place]);
    }
    if (isBanned_[place]) return false;
    const ir::Node* node = joint_.nodes()[place];
    bool late = false;
    for (size_t i = 0; i < node->resultCount(); ++i) {
      late |= isReturnedLate(memory, node->result(i));
      joint_.eachUser(node->result(i), [&](size_t user) { late |= user < late_.size() && late_[user]; });
    }
    return late;
  }

  bool isReturnedLate(const Exposed& memory, const ir::Value* value) const {
    const Row& gradients = exposure_.returnedAs_[value->id()];
    return !gradients.empty() && !exposure_.isCovered(memory, anyTangent_, gradients);
  }

  void noteReaders(const Exposed& memory, const ir::Value* value) {
    if (isReturnedLate(memory, value)) reads.emplace_back(value->id(), late_.size());
    joint_.eachUser(value, [&](size_t user) {
      if (user == late_.size() || !late_[user]) return;
      const ir::Node* node = joint_.nodes()[user];
      if (isFactory(*node) && !readsData(*node, value)) return;
      // What a view sees counts where that is read. A branch or a loop that may return it reads it all the same.
      bool shares = node->resultCount() && joint_.knownMemory(node->result()) == joint_.knownMemory(value);
      if (shares && node->regions().empty()) return;
      // A checkpoint reads what it was given when it is computed again, in eager mode too.
      if (joint_.inForward(user) && node->attributes().recomputes()) return;
      reads.emplace_back(value->id(), user);
    });
  }

  const Exposure& exposure_;
  const JointGraph& joint_;
  const std::vector<bool>& isBanned_;
  std::vector<size_t> seen_, reached_;
  std::vector<bool> late_;
  Row anyTangent_;
};

LateReads Exposure::find(const std::vector<bool>& isBanned) const {
  Search search(*this, isBanned);
  for (size_t i = 0; i < memories_.size(); ++i) search.run(i);
  return LateReads(std::move(search.reads));
}

}  // namespace saker::autograd
