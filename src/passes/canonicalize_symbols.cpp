#include <unordered_map>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace saker::passes {
namespace {

class Canonicalizer {
 public:
  explicit Canonicalizer(ir::Graph& graph)
      : graph_(graph), symbols_(graph.context().symbols()), types_(graph.context().types()), rewriter_(graph) {}

  void visit(ir::Region* region) {
    for (ir::Value* parameter : region->parameters()) visit(parameter);
    for (ir::Node* node = region->first(); node; node = node->next()) {
      rewriter_.rewrite(node, [this](ir::Arg& arg) { return simplify(arg); });
      for (size_t i = 0; i < node->resultCount(); ++i) visit(node->result(i));
      for (ir::Region* body : node->regions()) visit(body);
    }
  }

 private:
  void visit(ir::Value* value) {
    const ir::Type* type = simplify(value->type());
    if (type != value->type()) graph_.setType(value, type);
  }

  bool simplify(ir::Arg& arg) {
    switch (arg.kind()) {
      case ir::Arg::Kind::SymInt:
      case ir::Arg::Kind::SymBool:
      case ir::Arg::Kind::SymFloat:
        break;
      default:
        return false;
    }
    const sym::Node* before = arg.toSym();
    const sym::Node* after = simplify(before);
    if (after == before) return false;
    arg = after->isInt()    ? ir::Arg::symInt(sym::Int(after))
          : after->isBool() ? ir::Arg::symBool(sym::Bool(after))
                            : ir::Arg::symFloat(sym::Float(after));
    return true;
  }

  const sym::Node* simplify(const sym::Node* node) {
    auto [found, fresh] = simplified_.try_emplace(node, node);
    if (!fresh) return found->second;
    return simplified_[node] = simplifyFresh(node);
  }

  const sym::Node* simplifyFresh(const sym::Node* node) {
    try {
      const sym::Node* simpler = symbols_.facts().simplify(node);
      if (simpler->isBool()) {
        if (std::optional<bool> known = symbols_.facts().prove(simpler)) return symbols_.boolConst(*known);
      } else if (simpler->isInt()) {
        sym::Range range = symbols_.facts().rangeOf(simpler);
        if (range.isExact()) return symbols_.intConst(range.low);
      }
      return simpler;
    } catch (const std::runtime_error&) {  // Overflow, Undecided: it stays as it is
      return node;
    }
  }

  sym::Int simplify(const sym::Int& number) { return number.isConst() ? number : sym::Int(simplify(number.node())); }

  const ir::Type* simplify(const ir::Type* type) {
    auto [found, fresh] = simplifiedTypes_.try_emplace(type, type);
    if (!fresh) return found->second;
    return simplifiedTypes_[type] = simplifyFresh(type);
  }

  const ir::Type* simplifyFresh(const ir::Type* type) {
    if (const ir::TensorType* tensor = ir::asTensor(type)) {
      if (!tensor->symbolic) return type;
      ir::TensorSpec spec(*tensor);
      for (sym::Int& size : spec.sizes) size = simplify(size);
      for (sym::Int& stride : spec.strides) stride = simplify(stride);
      spec.offset = simplify(spec.offset);
      return types_.tensor(spec);
    }
    if (const ir::ScalarType* scalar = ir::asScalar(type)) {
      return scalar->expression ? types_.scalar(type->kind, simplify(scalar->expression)) : type;
    }
    if (const ir::ContainerType* container = ir::asContainer(type)) {
      const ir::Type* element = simplify(container->element);
      return type->kind == ir::TypeKind::List ? types_.list(element) : types_.optional(element);
    }
    return type;
  }

  ir::Graph& graph_;
  sym::Context& symbols_;
  ir::TypeTable& types_;
  ArgRewriter rewriter_;
  std::unordered_map<const sym::Node*, const sym::Node*> simplified_;
  std::unordered_map<const ir::Type*, const ir::Type*> simplifiedTypes_;
};

}  // namespace

void canonicalizeSymbols(ir::Graph& graph) { Canonicalizer(graph).visit(graph.top()); }

}  // namespace saker::passes
