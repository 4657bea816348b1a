#include "lower/without_writes.h"

#include <algorithm>

#include "ir/clone.h"
#include "lower/space.h"
#include "ops/builder.h"
#include "ops/effects.h"
#include "ops/functional_form.h"
#include "ops/shape.h"
#include "passes/pass.h"

namespace saker::lower {
namespace {

using ir::Arg;
using ir::Node;
using ir::Value;

std::string cannot(const std::string& why) { return "writes that are not seen through: " + why; }

}  // namespace

std::string whyNotAStore(const Node& node) {
  const ops::Operator* op = ops::of(&node);
  ir::Attributes recorded = node.attributes();
  constexpr uint32_t others = ops::kRandom | ops::kFailsOnData | ops::kDataDependent | ops::kDynamicShape |
                              ops::kReadsState | ops::kEffect | ops::kSetsStorage;
  bool store = op->variant == ops::Variant::Inplace && op->writes == 1 && op->cost != ops::Cost::View &&
               !(op->traits & others) && node.regions().empty() && node.resultCount() == 1;
  if (!store || !ops::functionalForm(*op).op) return op->qualified + " writes";
  if (recorded.inferenceToggled || recorded.ownVersion) return op->qualified + " writes in another mode";
  const ir::TensorType* type = node.arg(0).isValue() ? node.arg(0).toValue()->tensor() : nullptr;
  if (!type || !ops::surelyApart(*type)) return op->qualified + " writes to elements that may lie in one place";
  return {};
}

bool writesParameters(const Node& group) {
  const ir::Region& body = *group.regions()[0];
  for (const Node* node = body.first(); node && !node->isReturn(); node = node->next()) {
    if (ops::writes(*node)) return true;
  }
  return false;
}

WithoutWrites withoutWrites(const Node& group) {
  WithoutWrites out;
  const ir::Graph& from = *group.region()->graph();
  const ir::Region& body = *group.regions()[0];
  ir::Graph flat(from.sharedContext());
  std::vector<Value*> values(from.valueLimit());
  for (const Value* each : body.parameters()) values[each->id()] = flat.addParameter(flat.top(), each->type());
  ir::copyNodes(from, body, flat, flat.top(), std::move(values));
  if (passes::Failure failure = passes::functionalize(flat)) {
    out.reason = cannot(*failure);
    return out;
  }
  // What it leaves at the end: copies into parameters.
  Node* end = flat.top()->terminator();
  std::vector<Arg> returned(end->args().begin(), end->args().end());
  static const ops::Operator* copy = ops::find("aten::copy_");
  std::vector<Node*> copies;
  for (Node* node = flat.top()->first(); node != end; node = node->next()) {
    if (ops::of(node) == copy) copies.push_back(node);
  }
  for (Node* node : copies) {
    Value *into = node->operand(0), *contents = node->operand(1);
    bool whole = into->isParameter() && into->tensor()->dtype == contents->tensor()->dtype &&
                 into->tensor()->rank == contents->tensor()->rank;
    for (size_t d = 0; whole && d < into->tensor()->rank; ++d) {
      whole = surelyEqual(into->tensor()->size(d), contents->tensor()->size(d));
    }
    if (!whole) {
      out.reason = cannot("a part of a tensor");
      return out;
    }
    // A value of its own, though it is a parameter or returned too.
    ops::Builder build(flat, flat.top(), end, node->origin());
    Value* own = build.tryCall("aten::alias", {Arg::value(contents)});
    if (!own) {
      out.reason = cannot("what is written");
      return out;
    }
    out.written.push_back(into->index());
    returned.push_back(Arg::value(own));
    flat.replaceAllUses(node->result(), into);
    flat.erase(node);
  }
  for (const Node* node = flat.top()->first(); node != end; node = node->next()) {
    if (!ops::of(node) || ops::effectsOf(*node).writes) {
      out.reason = cannot(node->op()->qualified);
      return out;
    }
  }
  flat.setArgs(end, returned);
  passes::eliminateDeadCode(flat);
  std::vector<const ir::Type*> types;
  for (const Arg& each : returned) types.push_back(each.toValue()->type());
  out.graph = std::make_unique<ir::Graph>(from.sharedContext());
  std::vector<Arg> operands;
  for (const Value* each : body.parameters()) {
    operands.push_back(Arg::value(out.graph->addParameter(out.graph->top(), each->type())));
  }
  Node* made = out.graph->append(out.graph->top(), group.op(), operands, types);
  ir::Region* inner = out.graph->addRegion(made);
  std::vector<Value*> inside(flat.valueLimit());
  for (const Value* each : flat.top()->parameters()) {
    inside[each->id()] = out.graph->addParameter(inner, each->type());
  }
  ir::copyNodes(flat, *flat.top(), *out.graph, inner, std::move(inside));
  out.group = made;
  return out;
}

}  // namespace saker::lower
