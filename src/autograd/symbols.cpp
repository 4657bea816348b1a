#include "autograd/symbols.h"

#include "ops/operator.h"

namespace saker::autograd {

void SymbolUse::bindPlain(const sym::Node* node) {
  if (node && node->isSymbol()) bound_[static_cast<size_t>(node->value)] = true;
}

void SymbolUse::bind(const ir::Type* type) {
  read(type);
  if (const ir::TensorType* tensor = ir::asTensor(type)) {
    for (sym::Int size : tensor->sizes()) bindPlain(size.node());
  } else if (const ir::ScalarType* scalar = ir::asScalar(type)) {
    bindPlain(scalar->expression);
  }
}

// A number that is read from data is known where it is read. Others, such as the sizes of what is indexed, the operator
// has to be given.
void SymbolUse::bindNew(const ir::Node& node) {
  SymbolUse given(context_);
  for (const ir::Arg& arg : node.args()) given.read(arg);
  for (const ir::Use& use : node.operands()) given.read(use.value->type());
  SymbolUse made(context_);
  for (size_t i = 0; i < node.resultCount(); ++i) made.bind(node.result(i)->type());
  for (size_t i = 0; i < bound_.size(); ++i) bound_[i] = bound_[i] || (made.bound_[i] && !given.read_[i]);
}

void SymbolUse::read(const ir::Node& node) {
  for (const ir::Arg& arg : node.args()) read(arg);
  for (size_t i = 0; i < node.resultCount(); ++i) read(node.result(i)->type());
  const ops::Operator* op = ops::of(&node);
  if (op && (op->has(ops::kDynamicShape) || op->has(ops::kDataDependent))) bindNew(node);
  for (const ir::Region* body : node.regions()) {
    for (const ir::Value* parameter : body->parameters()) read(parameter->type());
    for (const ir::Node* inner = body->first(); inner; inner = inner->next()) read(*inner);
  }
}

void SymbolUse::read(const ir::Arg& arg) {
  switch (arg.kind()) {
    case ir::Arg::Kind::SymInt:
    case ir::Arg::Kind::SymBool:
    case ir::Arg::Kind::SymFloat:
      return read(arg.toSym());
    case ir::Arg::Kind::List:
      for (const ir::Arg& element : arg.toList()) read(element);
      return;
    default:
      return;
  }
}

void SymbolUse::read(const ir::Type* type) {
  if (const ir::TensorType* tensor = ir::asTensor(type)) {
    if (!tensor->symbolic || !seen_.insert(type).second) return;
    for (sym::Int size : tensor->sizes()) read(size.node());
    for (sym::Int stride : tensor->strides()) read(stride.node());
    read(tensor->offset.node());
  } else if (const ir::ScalarType* scalar = ir::asScalar(type)) {
    read(scalar->expression);
  } else if (const ir::ContainerType* container = ir::asContainer(type)) {
    read(container->element);
  }
}

void SymbolUse::read(const sym::Node* expression) {
  if (!expression || !seen_.insert(expression).second) return;
  if (expression->isSymbol()) read_[static_cast<size_t>(expression->value)] = true;
  for (const sym::Node* operand : expression->args()) read(operand);
}

std::vector<const sym::Node*> SymbolUse::unbound() const {
  std::vector<const sym::Node*> out;
  for (size_t i = 0; i < read_.size(); ++i) {
    if (read_[i] && !bound_[i]) out.push_back(context_.symbols()[i].node);
  }
  return out;
}

}  // namespace saker::autograd
