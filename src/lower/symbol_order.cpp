#include "lower/symbol_order.h"

#include <algorithm>

#include "ops/operator.h"

namespace saker::lower {
namespace {

template <typename F>
void eachSymbol(const sym::Node* expression, const F& f) {
  if (expression->isSymbol()) return f(expression);
  for (const sym::Node* operand : expression->args()) {
    if (operand->symbols) eachSymbol(operand, f);
  }
}

template <typename F>
void eachSymbol(const ir::Type* type, const F& f) {
  if (const ir::ScalarType* scalar = ir::asScalar(type)) {
    if (scalar->expression) eachSymbol(scalar->expression, f);
    return;
  }
  const ir::TensorType* tensor = ir::asTensor(type);
  if (!tensor || !tensor->symbolic) return;
  for (sym::Int size : tensor->sizes()) {
    if (!size.isConst()) eachSymbol(size.node(), f);
  }
}

}  // namespace

SymbolOrder::SymbolOrder(std::span<ir::Node* const> nodes) {
  for (const ir::Node* node : nodes) {
    const ops::Operator* op = ops::of(node);
    if (!op || !(op->has(ops::kDataDependent) || op->has(ops::kDynamicShape))) continue;
    for (size_t i = 0; i < node->resultCount(); ++i) {
      eachSymbol(node->result(i)->type(), [&](const sym::Node* symbol) {
        givenBy_.emplace(symbol, node);
        symbols_ |= symbol->symbols;
      });
    }
  }
  if (givenBy_.empty()) return;
  for (const ir::Node* node : nodes) position_.emplace(node, position_.size());
}

std::vector<const ir::Node*> SymbolOrder::before(const ir::Node* node) const {
  std::vector<const ir::Node*> found;
  if (givenBy_.empty()) return found;
  for (const ir::Arg& arg : node->args()) find(arg, node, found);
  return found;
}

void SymbolOrder::find(const ir::Arg& arg, const ir::Node* of, std::vector<const ir::Node*>& found) const {
  switch (arg.kind()) {
    case ir::Arg::Kind::SymInt:
    case ir::Arg::Kind::SymBool:
    case ir::Arg::Kind::SymFloat:
      return find(arg.toSym(), of, found);
    case ir::Arg::Kind::List:
      for (const ir::Arg& each : arg.toList()) find(each, of, found);
      return;
    default:
      return;
  }
}

void SymbolOrder::find(const sym::Node* expression, const ir::Node* of, std::vector<const ir::Node*>& found) const {
  if (!(expression->symbols & symbols_)) return;
  eachSymbol(expression, [&](const sym::Node* symbol) {
    auto given = givenBy_.find(symbol);
    // A symbol that inputs tell too may stand before.
    if (given == givenBy_.end() || position_.at(given->second) >= position_.at(of)) return;
    if (std::find(found.begin(), found.end(), given->second) == found.end()) found.push_back(given->second);
  });
}

}  // namespace saker::lower
