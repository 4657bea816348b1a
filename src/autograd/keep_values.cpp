#include "autograd/keep_values.h"

#include <algorithm>
#include <optional>
#include <span>

#include "ir/clone.h"
#include "ir/each_operand.h"
#include "ops/builder.h"
#include "ops/control_flow.h"
#include "ops/effects.h"
#include "passes/bodies.h"
#include "passes/same_values.h"

namespace saker::autograd {
namespace {

using ir::Arg;
using ir::Node;
using ir::Value;
using passes::SameValues;

bool sameArgs(std::span<const Arg> a, std::span<const Arg> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), ir::sameArg);
}

// A node of a derivative's body that costs nothing to be run again: a view, or one that reads no tensor.
bool isFree(const Node& node) {
  if (node.operandCount() == 0) return true;
  for (size_t i = 0; i < node.resultCount(); ++i) {
    if (ops::sharedArgument(node.result(i))) return true;
  }
  return false;
}

// What a body of a derivative reads of the body of the forward: a value of its own, and the one that is the same.
struct Read {
  Value* later;
  Value* earlier;
};

bool areTensors(const Node& node) {
  for (size_t i = 0; i < node.resultCount(); ++i) {
    if (!node.result(i)->tensor()) return false;
  }
  return true;
}

std::vector<Read> readsOf(const ir::Region& later, const SameValues& same) {
  std::vector<Read> reads;
  std::vector<bool> isKept(later.graph()->nodeLimit()), isRead(later.graph()->valueLimit());
  auto read = [&](Value* value) {
    if (value->region() != &later || value->isParameter()) return;
    const Node& def = *value->def();
    Value* earlier = same.of(value);
    if (!earlier || isFree(def) || !areTensors(def)) {
      isKept[def.id()] = true;
    } else if (!isRead[value->id()]) {
      isRead[value->id()] = true;
      reads.push_back({value, earlier});
    }
  };
  for (const Node* node = later.last(); node; node = node->prev()) {
    bool isNew = node->isReturn() || !ops::effectsOf(*node).removable();
    if (isNew || isKept[node->id()]) ir::eachOperand(*node, read);
  }
  std::reverse(reads.begin(), reads.end());
  return reads;
}

void returnAlso(ir::Graph& graph, ir::Region* body, const std::vector<Value*>& more) {
  Node* end = body->terminator();
  std::vector<Arg> returned(end->args().begin(), end->args().end());
  for (Value* value : more) returned.push_back(Arg::value(value));
  graph.setArgs(end, returned);
}

// A node with the same bodies and more results.
Node* withResults(ir::Graph& graph, Node* node, const std::vector<const ir::Type*>& more) {
  std::vector<const ir::Type*> types;
  std::vector<size_t> from;
  for (size_t i = 0; i < node->resultCount(); ++i) {
    types.push_back(node->result(i)->type());
    from.push_back(i);
  }
  types.insert(types.end(), more.begin(), more.end());
  std::vector<Arg> args(node->args().begin(), node->args().end());
  return passes::rebuild(graph, node, args, types, from);
}

// --- branches: (condition, given...) and (condition, given..., tangents...) ---

bool isDerivativeOfIf(const Node& earlier, const Node& later) {
  return ops::isIf(later) && later.args().size() > earlier.args().size() &&
         sameArgs(earlier.args(), later.args().first(earlier.args().size()));
}

// A result that either branch gives, or something like it.
struct Given {
  std::optional<size_t> result;  // that there is already
  const ir::Type* type = nullptr;
  Value* values[2] = {};
  std::vector<Value*> readers[2];
};

std::vector<Given> givenBy(const Node& earlier, const std::vector<Read> (&reads)[2]) {
  std::vector<Given> given;
  for (size_t branch = 0; branch < 2; ++branch) {
    std::span<const Arg> returned = earlier.regions()[branch]->terminator()->args();
    for (const Read& read : reads[branch]) {
      auto at = std::find_if(returned.begin(), returned.end(),
                             [&](const Arg& arg) { return arg.isValue() && arg.toValue() == read.earlier; });
      std::optional<size_t> result;
      if (at != returned.end()) result = static_cast<size_t>(at - returned.begin());
      auto find = [&](auto&& fits) { return std::find_if(given.begin(), given.end(), fits); };
      auto found = find([&](const Given& each) { return each.values[branch] == read.earlier; });
      if (found == given.end()) {
        found = find([&](const Given& each) {
          if (result || each.result) return each.result == result;
          return each.type == read.earlier->type() && !each.values[branch];
        });
      }
      if (found == given.end()) found = given.insert(given.end(), Given{result, read.earlier->type(), {}, {}});
      found->values[branch] = read.earlier;
      found->readers[branch].push_back(read.later);
    }
  }
  return given;
}

Node* keepOfIf(ir::Graph& graph, Node* earlier, Node* later) {
  std::vector<Read> reads[2];
  for (size_t branch = 0; branch < 2; ++branch) {
    const ir::Region &first = *earlier->regions()[branch], &second = *later->regions()[branch];
    SameValues same(graph);
    for (size_t i = 0; i < first.parameters().size(); ++i) same.tell(second.parameters()[i], first.parameters()[i]);
    same.find(first, second);
    reads[branch] = readsOf(second, same);
  }
  std::vector<Given> given = givenBy(*earlier, reads);
  if (given.empty()) return earlier;
  std::vector<const ir::Type*> types;
  for (Given& each : given) {
    if (each.result) continue;
    each.result = earlier->resultCount() + types.size();
    types.push_back(each.type);
  }
  size_t before = earlier->resultCount();
  Node* made = withResults(graph, earlier, types);
  for (size_t branch = 0; branch < 2; ++branch) {
    ir::Region* body = made->regions()[branch];
    ops::Builder build(graph, body, body->terminator());
    std::vector<Value*> more;  // memory of the same type where this branch has nothing to give
    for (const Given& each : given) {
      if (*each.result < before) continue;
      more.push_back(each.values[branch] ? each.values[branch] : build.memoryOf(*ir::asTensor(each.type)));
    }
    returnAlso(graph, body, more);
    for (const Given& each : given) {
      for (Value* reader : each.readers[branch]) graph.replaceAllUses(reader, made->result(*each.result));
    }
  }
  return made;
}

// --- while loops: what steps give beside what they carry is in the history ---

bool isDerivativeOfWhile(const Node& earlier, const Node& later) {
  if (!ops::isWhileBackward(later) || !sameArgs(earlier.args(), later.args().first(2))) return false;
  std::span<const Arg> history = later.arg(ops::kWhileHistory).toList();
  return history.size() == 1 && history[0].toValue() == earlier.result(earlier.resultCount() - 1);
}

// The same node, whose condition and step are those of the loop now, and whose last body is given values of each step.
void giveKept(ir::Graph& graph, const Node& loop, Node* later, const std::vector<Read>& reads) {
  std::vector<const ir::Type*> types;
  for (size_t i = 0; i < later->resultCount(); ++i) types.push_back(later->result(i)->type());
  Node* made = graph.create(later->op(), later->args(), types, 3, later->origin());
  graph.insertBefore(later->region(), later, made);
  for (size_t b = 0; b < 2; ++b) {
    const ir::Region& from = *loop.regions()[b];
    std::vector<Value*> values(graph.valueLimit());
    for (Value* outer : passes::outerValues(from)) values[outer->id()] = outer;
    for (const Value* parameter : from.parameters()) {
      values[parameter->id()] = graph.addParameter(made->regions()[b], parameter->type(), parameter->name());
    }
    ir::copyNodes(graph, from, graph, made->regions()[b], std::move(values));
  }
  ir::Region *from = later->regions()[2], *back = made->regions()[2];
  for (const Read& read : reads) graph.replaceAllUses(read.later, graph.addParameter(back, read.earlier->type()));
  for (Value* parameter : from->parameters()) {
    graph.replaceAllUses(parameter, graph.addParameter(back, parameter->type(), parameter->name()));
  }
  while (Node* node = from->first()) {
    graph.unlink(node);
    graph.append(back, node);
  }
  for (size_t i = 0; i < later->resultCount(); ++i) graph.replaceAllUses(later->result(i), made->result(i));
  graph.erase(later);
}

void keepOfWhile(ir::Graph& graph, Node* earlier, Node* later) {
  const ir::Region &step = *earlier->regions()[1], &back = *later->regions()[2];
  size_t carried = earlier->arg(ops::kWhileCarried).toList().size();
  // Another derivative has asked for other values already: one history keeps those of one.
  if (step.terminator()->args().size() != carried) return;
  SameValues same(graph);
  size_t first = back.parameters().size() - step.parameters().size();
  for (size_t i = 0; i < step.parameters().size(); ++i) {
    same.tell(back.parameters()[first + i], step.parameters()[i]);
  }
  same.find(step, back);
  std::vector<Read> reads = readsOf(back, same);
  if (reads.empty()) return;
  std::vector<Value*> kept;
  for (const Read& read : reads) kept.push_back(read.earlier);
  returnAlso(graph, earlier->regions()[1], kept);
  giveKept(graph, *earlier, later, reads);
}

// --- all of them ---

// The nodes behind it that may be its derivatives read what it reads.
std::vector<Node*> derivativesOf(const Node& earlier) {
  std::vector<Node*> found;
  for (Node* later = earlier.next(); later; later = later->next()) {
    bool isOne = ops::isIf(earlier)      ? isDerivativeOfIf(earlier, *later)
                 : ops::isWhile(earlier) ? isDerivativeOfWhile(earlier, *later)
                                         : false;
    if (isOne && !later->attributes().recomputes()) found.push_back(later);
  }
  return found;
}

void keepValues(ir::Graph& graph, ir::Region* region) {
  for (Node* node = region->first(); node; node = node->next()) {
    if (node->regions().empty()) continue;
    if (!node->attributes().recomputes()) {
      for (Node* later : derivativesOf(*node)) {
        if (ops::isIf(*node)) {
          node = keepOfIf(graph, node, later);
        } else {
          keepOfWhile(graph, node, later);
        }
      }
    }
    for (ir::Region* body : node->regions()) keepValues(graph, body);
  }
}

}  // namespace

void keepValues(ir::Graph& joint) { keepValues(joint, joint.top()); }

}  // namespace saker::autograd
