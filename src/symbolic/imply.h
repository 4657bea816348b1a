// Does an inequality follow from others? d <= 0 does if d minus positive multiples of things known to be at most zero
// is at most zero by its bounds. Two are combined at most, and the number of attempts has a limit.
#pragma once

#include <optional>
#include <vector>

#include "symbolic/builder.h"
#include "symbolic/knowledge.h"

namespace saker::sym {

class Implication {
 public:
  // A comparison of integers, reduced.
  Implication(const Knowledge& knowledge, const Node* condition);
  Implication(const Knowledge& knowledge, Context& context, uint64_t symbols);

  std::optional<bool> answer();
  bool isAtMostZero(const Poly& d);

  // Whether conditions about this follow from what it is made of: divisions, minima and maxima.
  static bool hasRules(const Node* node);

 private:
  void collect(uint64_t symbols);
  void addKnown(const Node* d, int64_t sign);
  void addRules(const Poly& poly);
  void addRulesOf(const Node* atom);
  bool search(const Poly& d, int depth);
  bool splitMinMax(const Poly& d, int depth);
  bool withConstant(const Poly& d, int64_t sign, int64_t plus);

  const Knowledge& knowledge_;
  const Node* condition_ = nullptr;
  Builder builder_;
  std::vector<Poly> known_;  // each is at most zero
  std::vector<const Node*> ruled_;
  int attempts_ = 0;
};

}  // namespace saker::sym
