#include "ops/effects.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace saker::passes {
namespace {

// The expression that a scalar is, if it is one at every place of the graph: it is constant, an input, or computed from
// what is. A number read from data has a symbol too, but one that means nothing before the node that reads it.
const sym::Node* expressionOf(const ir::Value* value) {
  const ir::ScalarType* scalar = ir::asScalar(value->type());
  if (!scalar || !scalar->expression) return nullptr;
  const sym::Node* expression = scalar->expression;
  switch (expression->kind) {
    case sym::Kind::Const:
    case sym::Kind::BoolConst:
    case sym::Kind::FloatConst:
      return expression;
    default:
      break;
  }
  if (value->isParameter()) return value->region()->owner() ? nullptr : expression;
  ops::Effects effects = ops::effectsOf(*value->def());
  return effects.removable() && !effects.has(ops::kReadsState) ? expression : nullptr;
}

bool fold(ir::Arg& arg) {
  const sym::Node* expression = arg.isValue() ? expressionOf(arg.toValue()) : nullptr;
  if (!expression) return false;
  arg = expression->isInt()    ? ir::Arg::symInt(sym::Int(expression))
        : expression->isBool() ? ir::Arg::symBool(sym::Bool(expression))
                               : ir::Arg::symFloat(sym::Float(expression));
  return true;
}

void visit(ArgRewriter& rewriter, ir::Region* region) {
  for (ir::Node* node = region->first(); node; node = node->next()) {
    rewriter.rewrite(node, fold);
    for (ir::Region* body : node->regions()) visit(rewriter, body);
  }
}

}  // namespace

void foldScalars(ir::Graph& graph) {
  ArgRewriter rewriter(graph);
  visit(rewriter, graph.top());
}

}  // namespace saker::passes
