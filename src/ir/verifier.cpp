#include "ir/verifier.h"

#include <unordered_set>

#include "ir/print.h"

namespace saker::ir {
namespace {

// Regions may nest this deep; walks over a graph recurse.
constexpr int kMaxRegionDepth = 200;

class Verifier {
 public:
  Verifier(const Graph& graph, size_t limit)
      : graph_(graph), symbols_(graph.context().symbols()), limit_(limit), values_(graph.valueLimit()) {}

  std::vector<Diagnostic> run() {
    for (const sym::Symbol& symbol : symbols_.symbols()) {
      if (symbol.name == "None") report("symbol None has a name that means something else", nullptr);
    }
    if (structure(*graph_.top(), nullptr, 0)) region(*graph_.top(), nullptr);
    if (!stopped() && usesListed_ != operands_) {
      report("the values of the graph are used " + std::to_string(usesListed_) + " times, its nodes have " +
                 std::to_string(operands_) + " operands: a node outside of the graph uses a value",
             nullptr);
    }
    return std::move(found_);
  }

 private:
  enum class Visibility : uint8_t { Unseen, Visible, Ended };
  struct Entry {
    const Value* value = nullptr;
    Visibility visibility = Visibility::Unseen;
  };

  bool stopped() const { return found_.size() >= limit_ || broken_; }

  void report(const std::string& what, const Node* node) {
    if (found_.size() >= limit_) return;
    // Names are found only now: numbering walks the whole graph, which must be sound for that.
    std::string message = node ? (broken_ ? node->op()->qualified : names().of(node)) + ": " + what : what;
    found_.push_back({std::move(message), node, node ? node->location() : nullptr});
  }
  // The links themselves are wrong: nothing can be said about what lies behind them.
  bool reportBroken(const std::string& what, const Node* node) {
    broken_ = true;
    report(what, node);
    return false;
  }
  const ValueNames& names() {
    if (!names_) names_.emplace(graph_);
    return *names_;
  }
  std::string nameOf(const Value* value) { return broken_ ? "a value" : names().of(value); }

  // First the links of the whole graph: everything after, messages included, follows them.
  bool structure(const Region& region, const Node* owner, int depth) {
    if (depth > kMaxRegionDepth) return reportBroken("regions are nested too deeply", owner);
    if (region.graph() != &graph_) return reportBroken("a region belongs to another graph", owner);
    if (region.owner() != owner) return reportBroken("a region belongs to another node", owner);
    for (size_t i = 0; i < region.parameters().size(); ++i) {
      const Value* parameter = region.parameters()[i];
      if (!parameter || parameter->def() || parameter->region() != &region || parameter->index() != i) {
        return reportBroken("parameter " + std::to_string(i) + " of a region does not belong to it", owner);
      }
      if (!number(parameter, owner)) return false;
    }
    const Node* previous = nullptr;
    for (const Node* at = region.first(); at; previous = at, at = at->next()) {
      if (at->region() != &region) return reportBroken("is listed in a region that it is not in", at);
      if (at->prev() != previous) return reportBroken("has a wrong link to the node before it", at);
      for (size_t i = 0; i < at->resultCount(); ++i) {
        if (at->result(i)->def() != at || at->result(i)->index() != i) {
          return reportBroken("result " + std::to_string(i) + " does not belong to it", at);
        }
        if (!number(at->result(i), at)) return false;
      }
      for (const Region* body : at->regions()) {
        if (!structure(*body, at, depth + 1)) return false;
      }
    }
    if (region.last() != previous) return reportBroken("the last node of a region is not the end of its list", owner);
    return true;
  }

  // A circle among nodes is found here too: it comes to the same value again.
  bool number(const Value* value, const Node* node) {
    if (value->id() >= values_.size()) return reportBroken("a value has a number past the end", node);
    Entry& entry = values_[value->id()];
    if (entry.value) return reportBroken("two values have the same number", node);
    entry.value = value;
    return true;
  }

  void region(const Region& region, const Node* owner) {
    for (const Value* parameter : region.parameters()) define(parameter, owner);
    if (!region.terminator())
      report(owner ? "a region does not end in return" : "the graph does not end in return", owner);
    for (const Node* at = region.first(); at && !stopped(); at = at->next()) node(*at);
    leave(region);
  }

  void node(const Node& node) {
    if (node.isReturn() && node.next()) report("return is not the last node of its region", &node);
    if (node.isReturn() && (node.resultCount() || !node.regions().empty())) {
      report("return has results or regions", &node);
    }
    attributes(node);
    arguments(node);
    schema(node);
    bodies(node);
    operands_ += node.operandCount();
    for (const Region* body : node.regions()) {
      if (!stopped()) region(*body, &node);
    }
    for (size_t i = 0; i < node.resultCount() && !stopped(); ++i) define(node.result(i), &node);
  }

  void define(const Value* value, const Node* node) {
    values_[value->id()].visibility = Visibility::Visible;
    if (!value->name().empty() && !usedNames_.insert(value->name()).second) {
      report("two values are called %" + std::string(value->name()), node);
    }
    type(value->type(), node);
    uses(value, node);
  }

  void leave(const Region& region) {
    auto end = [&](const Value* value) { values_[value->id()].visibility = Visibility::Ended; };
    for (const Value* parameter : region.parameters()) end(parameter);
    for (const Node* at = region.first(); at; at = at->next()) {
      for (size_t i = 0; i < at->resultCount(); ++i) end(at->result(i));
    }
  }

  void uses(const Value* value, const Node* node) {
    const Use* previous = nullptr;
    for (const Use* use = value->firstUse(); use; previous = use, use = use->next) {
      bool linked = !previous || (use->link == &previous->next && use != value->firstUse());
      if (!linked) return void(reportBroken("the list of uses of a value is broken", node));
      if (use->value != value) return void(reportBroken("a use of another value is listed for a value", node));
      ++usesListed_;
    }
  }

  void arguments(const Node& node) {
    size_t next = 0;
    for (const Arg& arg : node.args()) {
      if (stopped()) return;
      argument(arg, node, next, 0);
    }
    if (next != node.operandCount()) reportBroken("has uses that no argument stands for", &node);
  }

  void argument(const Arg& arg, const Node& node, size_t& next, int depth) {
    switch (arg.kind()) {
      case Arg::Kind::Type:
        return report("has a type for an argument", &node);
      case Arg::Kind::SymInt:
      case Arg::Kind::SymBool:
      case Arg::Kind::SymFloat:
        return expression(arg.toSym(), &node);
      case Arg::Kind::List:
        if (depth > kMaxRegionDepth) return report("has lists nested too deeply", &node);
        for (const Arg& element : arg.toList()) {
          if (!stopped()) argument(element, node, next, depth + 1);
        }
        return;
      case Arg::Kind::Value:
        return operand(arg, node, next++);
      default:
        return;
    }
  }

  void operand(const Arg& arg, const Node& node, size_t index) {
    if (index >= node.operandCount()) return void(reportBroken("has arguments without a use", &node));
    const Use& use = node.operands()[index];
    const Value* value = arg.toValue();
    if (use.slot != &arg || use.value != value || use.user != &node || !use.link || *use.link != &use) {
      return void(reportBroken("operand " + std::to_string(index) + " and its use disagree", &node));
    }
    const Entry* entry = value->id() < values_.size() ? &values_[value->id()] : nullptr;
    if (!entry || entry->value != value) {
      if (!value->region()) return report("uses a value that is not in the graph", &node);
      return void(reportBroken("operand " + std::to_string(index) + " is a value of another graph", &node));
    }
    if (entry->visibility == Visibility::Ended) {
      report("uses " + nameOf(value) + ", which is defined in a region that has ended", &node);
    } else if (entry->visibility == Visibility::Unseen) {
      report("uses " + nameOf(value) + " before it is defined", &node);
    }
  }

  void schema(const Node& node) {
    const Schema* schema = node.op()->schema;
    if (!schema || stopped()) return;
    if (!schema->variadicArguments) {
      if (node.args().size() != schema->arguments.size()) {
        return report("expected " + std::to_string(schema->arguments.size()) + " arguments, found " +
                          std::to_string(node.args().size()),
                      &node);
      }
      for (size_t i = 0; i < schema->arguments.size(); ++i) {
        const SchemaArgument& expected = schema->arguments[i];
        if (std::optional<std::string> mismatch = schemaMismatch(expected.type, node.arg(i))) {
          report("argument " + expected.name + ": " + *mismatch, &node);
        } else if (expected.writes && !expected.type.list && !node.arg(i).isValue() && !node.arg(i).isNone()) {
          report("argument " + expected.name + ": expected a tensor that can be written, found a number", &node);
        }
      }
    }
    if (std::optional<std::string> mismatch = schemaMismatch(*schema, node)) report(*mismatch, &node);
  }

  void attributes(const Node& node) {
    Attributes known = node.attributes();
    if (node.isReturn() && known != Attributes{}) report("return has attributes", &node);
    if (known.isCheckpointed() != (known.region != 0)) report("names a checkpoint region without being in one", &node);
  }

  // Operators that nobody knows may have any.
  void bodies(const Node& node) {
    if (!node.op()->schema || stopped()) return;
    if (node.op()->check) {
      if (std::optional<std::string> wrong = node.op()->check(node)) report(*wrong, &node);
    } else if (!node.regions().empty()) {
      report("has bodies, which the operator does not take", &node);
    }
  }

  void type(const Type* type, const Node* node) {
    if (type == lastType_ || !checkedTypes_.insert(type).second) return;
    lastType_ = type;
    if (const TensorType* tensor = asTensor(type)) {
      auto negative = [](const Int& number) { return number.isConst() && number.constant() < 0; };
      for (size_t i = 0; i < 2 * size_t{tensor->rank}; ++i) {
        if (negative(tensor->dims[i])) report("a tensor has a negative size or stride: " + toString(type), node);
        size(tensor->dims[i], node);
      }
      if (negative(tensor->offset)) report("a tensor has a negative offset: " + toString(type), node);
      size(tensor->offset, node);
    } else if (const ScalarType* scalar = asScalar(type)) {
      if (scalar->expression) expression(scalar->expression, node);
    } else if (const ContainerType* container = asContainer(type)) {
      this->type(container->element, node);
    }
  }

  void size(const Int& number, const Node* node) {
    if (number.isConst()) return;
    if (!number.node()->isInt()) return report("a size is not an integer", node);
    expression(number.node(), node);
  }

  void expression(const sym::Node* expression, const Node* node) {
    if (!checkedExpressions_.insert(expression).second) return;
    if (expression->context != &symbols_) return report("an expression belongs to another context", node);
    bool isSymbol = expression->kind == sym::Kind::Symbol || expression->kind == sym::Kind::BoolSymbol ||
                    expression->kind == sym::Kind::FloatSymbol;
    if (isSymbol) {
      size_t index = static_cast<size_t>(expression->value);
      if (index >= symbols_.symbols().size() || symbols_.symbols()[index].node != expression) {
        return report("a symbol is not one of the context", node);
      }
    }
    for (const sym::Node* operand : expression->args()) this->expression(operand, node);
  }

  const Graph& graph_;
  const sym::Context& symbols_;
  size_t limit_;
  std::vector<Entry> values_;  // by id
  std::vector<Diagnostic> found_;
  bool broken_ = false;
  size_t operands_ = 0;
  size_t usesListed_ = 0;
  const Type* lastType_ = nullptr;
  std::unordered_set<const Type*> checkedTypes_;
  std::unordered_set<const sym::Node*> checkedExpressions_;
  std::unordered_set<std::string_view> usedNames_;
  std::optional<ValueNames> names_;
};

}  // namespace

std::vector<Diagnostic> verify(const Graph& graph, size_t limit) { return Verifier(graph, limit).run(); }

}  // namespace saker::ir
