#include "symbolic/facts.h"

#include "symbolic/knowledge.h"

namespace saker::sym {

Facts::Facts() : knowledge_(std::make_shared<Knowledge>()) {}

void Facts::setRange(const Node* symbol, Range range) {
  if (knowledge_.use_count() > 1) knowledge_ = std::make_shared<Knowledge>(*knowledge_);
  knowledge_->declare(symbol, range);
}

bool Facts::assume(const Node* condition) {
  if (std::optional<bool> known = knowledge_->prove(condition)) return *known;
  auto grown = std::make_shared<Knowledge>(*knowledge_);
  if (!grown->add(condition)) return false;
  knowledge_ = std::move(grown);
  return true;
}

std::optional<bool> Facts::prove(const Node* condition) const { return knowledge_->prove(condition); }
Range Facts::rangeOf(const Node* value) const { return knowledge_->reducedRange(value); }
const Node* Facts::simplify(const Node* value) const { return knowledge_->simplify(value); }
const std::vector<const Node*>& Facts::assumed() const { return knowledge_->assumed(); }

}  // namespace saker::sym
