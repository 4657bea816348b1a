// Branches whose condition is known and loops of one trip or none give way to what they do. Of the others, what is
// passed to a body that does not read it, and what nobody reads of their results, is left out.
#include <algorithm>

#include "ops/control_flow.h"
#include "passes/bodies.h"
#include "passes/inline.h"
#include "passes/pass.h"

namespace saker::passes {
namespace {

using ir::Arg;
using ir::Node;

std::optional<bool> knownCondition(const Arg& arg) {
  return arg.kind() == Arg::Kind::Bool ? std::optional(arg.toBool()) : std::nullopt;
}

// Does the loop surely run this often, at most once?
std::optional<int64_t> knownTrips(const Node& loop) {
  std::optional<bool> enters = knownCondition(loop.arg(ops::kLoopCondition));
  const Arg& trips = loop.arg(ops::kLoopTrips);
  bool isNumber = trips.kind() == Arg::Kind::Int;
  if (enters == false || (isNumber && trips.toInt() <= 0)) return 0;
  return enters == true && isNumber && trips.toInt() == 1 ? std::optional<int64_t>(1) : std::nullopt;
}

// True if the node is gone.
bool unfold(ir::Graph& graph, Node* node) {
  if (ops::isCall(*node)) return false;
  if (ops::isIf(*node)) {
    std::optional<bool> condition = knownCondition(node->arg(ops::kIfCondition));
    if (condition) inlineRegion(graph, node, node->regions()[*condition ? 0 : 1], ops::passedArguments(*node));
    return condition.has_value();
  }
  std::optional<int64_t> trips = knownTrips(*node);
  if (!trips) return false;
  std::vector<Arg> carried(ops::passedArguments(*node).begin(), ops::passedArguments(*node).end());
  if (*trips == 0) {
    for (size_t i = 0; i < carried.size(); ++i) replaceUses(graph, node->result(i), carried[i]);
    graph.erase(node);
    return true;
  }
  ir::Region* body = node->regions()[0];
  std::span<const Arg> returned = ops::returnedArguments(*body);
  std::vector<Arg> results(returned.begin(), returned.end());
  graph.setArgs(body->terminator(), results);
  carried.insert(carried.begin(), Arg::integer(0));
  inlineRegion(graph, node, body, carried);
  return true;
}

// Is the parameter read by anything but its own place in the return?
bool isRead(const ir::Region& body, size_t i) {
  const ir::Value* parameter = ops::passedParameters(body)[i];
  for (const ir::Use* use = parameter->firstUse(); use; use = use->next) {
    bool own = ops::isLoop(*body.owner()) && use->slot == &ops::returnedArguments(body)[i];
    if (!own) return true;
  }
  return false;
}

bool all(const std::vector<bool>& kept) { return std::find(kept.begin(), kept.end(), false) == kept.end(); }

// Drops operands, parameters and results that nobody reads.
void dropUnread(ir::Graph& graph, Node* node) {
  bool loops = ops::isLoop(*node);
  size_t passed = ops::passedArguments(*node).size(), first = node->args().size() - passed;
  std::vector<bool> keepOperand(passed), keepResult(node->resultCount());
  for (const ir::Region* body : node->regions()) {
    for (size_t i = 0; i < passed; ++i) keepOperand[i] = keepOperand[i] || isRead(*body, i);
  }
  for (size_t i = 0; i < keepResult.size(); ++i) {
    keepResult[i] = node->result(i)->hasUses() || (loops && keepOperand[i]);
  }
  if (loops) keepOperand = keepResult;  // a loop carries both or neither
  if (all(keepOperand) && all(keepResult)) return;

  std::vector<Arg> args(node->args().begin(), node->args().begin() + static_cast<ptrdiff_t>(first));
  for (size_t i = 0; i < passed; ++i) {
    if (keepOperand[i]) args.push_back(node->arg(first + i));
  }
  std::vector<const ir::Type*> results;
  std::vector<size_t> from;
  for (size_t i = 0; i < keepResult.size(); ++i) {
    if (!keepResult[i]) continue;
    results.push_back(node->result(i)->type());
    from.push_back(i);
  }
  for (ir::Region* body : node->regions()) {
    std::span<const Arg> before = body->terminator()->args();
    std::vector<Arg> returned(before.begin(), before.end() - static_cast<ptrdiff_t>(keepResult.size()));
    for (size_t i : from) returned.push_back(ops::returnedArguments(*body)[i]);
    graph.setArgs(body->terminator(), returned);
  }
  std::vector<bool> parameters(loops ? 1 : 0, true);
  parameters.insert(parameters.end(), keepOperand.begin(), keepOperand.end());
  rebuild(graph, node, args, results, from, parameters);
}

// The same for a scan, whose body also takes slices and gives rows. One slice stays: it says how often.
void dropUnreadOfScan(ir::Graph& graph, Node* node) {
  const ir::Region& body = *node->regions()[0];
  size_t carried = node->arg(ops::kScanCarried).toList().size(), sliced = node->arg(ops::kScanSliced).toList().size();
  std::span<const Arg> returned = body.terminator()->args();
  std::vector<bool> keepResult, needed(graph.valueLimit());
  for (size_t i = 0; i < node->resultCount(); ++i) {
    keepResult.push_back(node->result(i)->hasUses());
    if (i >= carried && keepResult[i]) needed[returned[i].toValue()->id()] = true;
  }
  std::vector<bool> carries(keepResult.begin(), keepResult.begin() + static_cast<ptrdiff_t>(carried));
  markCarried(body, carries, needed);
  std::copy(carries.begin(), carries.end(), keepResult.begin());
  std::vector<bool> keepParameter = carries;
  for (size_t i = carried; i < body.parameters().size(); ++i)
    keepParameter.push_back(needed[body.parameters()[i]->id()]);
  auto slices = keepParameter.begin() + static_cast<ptrdiff_t>(carried);
  if (std::find(slices, slices + static_cast<ptrdiff_t>(sliced), true) == slices + static_cast<ptrdiff_t>(sliced)) {
    *slices = true;
  }
  if (all(keepResult) && all(keepParameter)) return;

  std::vector<Arg> returns, lists[3];
  std::vector<const ir::Type*> results;
  std::vector<size_t> from;
  for (size_t i = 0; i < keepResult.size(); ++i) {
    if (!keepResult[i]) continue;
    results.push_back(node->result(i)->type());
    returns.push_back(returned[i]);
    from.push_back(i);
  }
  graph.setArgs(body.terminator(), returns);
  eraseUnread(graph, node->regions()[0]);  // nothing reads a parameter that goes
  size_t next = 0;
  for (size_t list = 0; list < 3; ++list) {
    for (const Arg& item : node->arg(ops::kScanCarried + list).toList()) {
      if (keepParameter[next++]) lists[list].push_back(item);
    }
  }
  const Arg args[] = {node->arg(ops::kScanReverse), Arg::list(lists[0]), Arg::list(lists[1]), Arg::list(lists[2])};
  rebuild(graph, node, args, results, from, keepParameter);
}

void visit(ir::Graph& graph, ir::Region* region) {
  // Backwards: what a dropped result was the last to read may be dropped in a node before it.
  for (Node* node = region->last(); node;) {
    Node* before = node->prev();
    if (ops::isIf(*node) || ops::isLoop(*node) || ops::isCall(*node)) {
      for (ir::Region* body : node->regions()) visit(graph, body);
      forwardInvariants(graph, node);
      if (!unfold(graph, node)) dropUnread(graph, node);
    } else {
      for (ir::Region* body : node->regions()) visit(graph, body);
      if (ops::isScan(*node)) dropUnreadOfScan(graph, node);
    }
    node = before;
  }
}

}  // namespace

void simplifyControlFlow(ir::Graph& graph) { visit(graph, graph.top()); }

}  // namespace saker::passes
