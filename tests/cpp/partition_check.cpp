#include "partition_check.h"

#include <functional>
#include <unordered_map>

#include "ir/print.h"
#include "ir/verifier.h"
#include "ops/operator.h"
#include "passes/infer_check.h"

namespace saker::autograd::testing {
namespace {

class Evaluation {
 public:
  Evaluation(Terms& terms, int& turn) : terms_(terms), turn_(turn) {}

  void set(const ir::Value* value, Terms::Term term) { values_[value] = term; }
  Terms::Term at(const ir::Value* value) const { return values_.at(value); }

  std::string text(const ir::Arg& arg) {
    if (arg.isValue()) {
      // A number with an expression is that expression.
      const ir::ScalarType* scalar = ir::asScalar(arg.toValue()->type());
      if (scalar && scalar->expression) return sym::toString(scalar->expression);
      return "t" + std::to_string(values_.at(arg.toValue()));
    }
    if (!arg.isList()) return terms_.constant(arg);
    std::string out = "[";
    for (const ir::Arg& element : arg.toList()) out += text(element) + ",";
    return out + "]";
  }

  void run(const ir::Node& node) {
    const ops::Operator* op = ops::of(&node);
    if (node.op()->qualified == "aten::clone" && node.arg(1).isNone()) return set(node.result(), at(node.operand(0)));
    std::string key = node.op()->qualified + "(";
    for (size_t i = 0; i < node.args().size(); ++i) {
      // Factories read no data of the tensor they are told to imitate.
      bool imitates = op && op->cost == ops::Cost::Fill && !op->writes && i == 0 && node.arg(0).isValue();
      key += (imitates ? shape(node.arg(0).toValue()->type()) : text(node.arg(i))) + ",";
    }
    for (const ir::Region* body : node.regions()) {
      for (ir::Value* parameter : body->parameters())
        set(parameter, terms_.named("p" + std::to_string(parameter->index())));
      for (const ir::Node* inner = body->first(); inner; inner = inner->next()) {
        if (inner->isReturn()) {
          for (const ir::Arg& arg : inner->args()) key += text(arg) + ";";
        } else {
          run(*inner);
        }
      }
    }
    if (!op || op->isRandom() || op->has(ops::kEffect)) key += "#" + std::to_string(turn_++);
    for (size_t i = 0; i < node.resultCount(); ++i) set(node.result(i), terms_.named(key + ")" + std::to_string(i)));
    if (!op || !op->writes) return;
    for (size_t i = 0; i < node.args().size(); ++i) {
      if (op->writes >> i & 1 && node.arg(i).isValue()) set(node.arg(i).toValue(), terms_.named(key + ")w"));
    }
  }

 private:
  static std::string shape(const ir::Type* type) {
    ir::TensorSpec spec(*ir::asTensor(type));
    std::string out(name(spec.dtype));
    for (ir::Int size : spec.sizes) out += "," + sym::toString(size);
    return out;
  }

  Terms& terms_;
  int& turn_;
  std::unordered_map<const ir::Value*, Terms::Term> values_;
};

void expectValid(const ir::Graph& graph) {
  for (const ir::Diagnostic& found : ir::verify(graph)) ADD_FAILURE() << found.message << "\n" << ir::print(graph);
  for (const ir::Diagnostic& found : passes::checkInference(graph)) {
    ADD_FAILURE() << found.message << "\n" << ir::print(graph);
  }
}

// Everything the backward mentions has a value: sizes of parameters, or parameters that are numbers.
void expectSymbolsBound(const ir::Graph& graph) {
  std::vector<bool> bound(graph.context().symbols().symbols().size());
  auto plain = [&](const sym::Node* node) {
    if (node && node->isSymbol()) bound[static_cast<size_t>(node->value)] = true;
  };
  auto bind = [&](const ir::Type* type) {
    if (const ir::TensorType* tensor = ir::asTensor(type)) {
      for (ir::Int size : tensor->sizes()) plain(size.node());
    } else if (const ir::ScalarType* scalar = ir::asScalar(type)) {
      plain(scalar->expression);
    }
  };
  for (const ir::Value* parameter : graph.top()->parameters()) bind(parameter->type());
  std::function<void(const sym::Node*)> expect = [&](const sym::Node* node) {
    if (!node) return;
    if (node->isSymbol()) {
      EXPECT_TRUE(bound[static_cast<size_t>(node->value)]) << sym::toString(node) << " in\n" << ir::print(graph);
    }
    for (const sym::Node* operand : node->args()) expect(operand);
  };
  std::function<void(const ir::Arg&)> expectArg = [&](const ir::Arg& arg) {
    if (arg.kind() >= ir::Arg::Kind::SymInt && arg.kind() <= ir::Arg::Kind::SymFloat) expect(arg.toSym());
    if (!arg.isList()) return;
    for (const ir::Arg& element : arg.toList()) expectArg(element);
  };
  auto expectType = [&](const ir::Type* type) {
    if (const ir::TensorType* tensor = ir::asTensor(type)) {
      for (size_t i = 0; i < 2 * size_t{tensor->rank}; ++i) expect(tensor->dims[i].node());
      expect(tensor->offset.node());
    } else if (const ir::ScalarType* scalar = ir::asScalar(type)) {
      expect(scalar->expression);
    }
  };
  for (const ir::Value* parameter : graph.top()->parameters()) expectType(parameter->type());
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    const ops::Operator* op = ops::of(node);
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (op && (op->has(ops::kDynamicShape) || op->has(ops::kDataDependent))) bind(node->result(i)->type());
      expectType(node->result(i)->type());
    }
    for (const ir::Arg& arg : node->args()) expectArg(arg);
  }
}

}  // namespace

std::string Terms::constant(const ir::Arg& arg) {
  if (arg.isNone()) return "None";
  if (arg.kind() >= ir::Arg::Kind::SymInt && arg.kind() <= ir::Arg::Kind::SymFloat) return sym::toString(arg.toSym());
  if (arg.kind() == ir::Arg::Kind::Int) return std::to_string(arg.toInt());
  return std::to_string(static_cast<int>(arg.kind())) + ":" + std::to_string(ir::hashArg(0, arg));
}

Terms::Result Terms::evaluate(const ir::Graph& graph, const std::vector<Term>& parameters, int& turn) {
  Evaluation evaluation(*this, turn);
  for (size_t i = 0; i < parameters.size(); ++i) evaluation.set(graph.top()->parameters()[i], parameters[i]);
  Result out;
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->isReturn()) {
      evaluation.run(*node);
      continue;
    }
    for (const ir::Arg& arg : node->args()) out.returned.push_back(evaluation.text(arg));
  }
  for (const ir::Value* parameter : graph.top()->parameters()) out.parametersAfter.push_back(evaluation.at(parameter));
  return out;
}

Cut cutAndCompare(const ir::Graph& joint, const JointLayout& layout, const PartitionOptions& options) {
  std::string before = ir::print(joint);
  std::variant<Cut, std::string> made = partition(joint, layout, options);
  EXPECT_EQ(ir::print(joint), before) << "the joint graph was changed";
  if (std::string* error = std::get_if<std::string>(&made)) {
    ADD_FAILURE() << *error;
    return {};
  }
  Cut cut = std::move(std::get<Cut>(made));
  expectValid(*cut.forward);
  expectValid(*cut.backward);
  expectSymbolsBound(*cut.backward);
  auto shown = [&] { return before + "\n" + ir::print(*cut.forward) + "\n" + ir::print(*cut.backward); };

  std::span<ir::Value* const> forwardParameters = cut.forward->top()->parameters();
  std::span<ir::Value* const> backwardParameters = cut.backward->top()->parameters();
  const ir::Node* forwardEnd = cut.forward->top()->terminator();
  EXPECT_EQ(forwardParameters.size(), layout.primals);
  EXPECT_EQ(forwardEnd->args().size(), layout.forwardResults + cut.saved.size()) << shown();
  EXPECT_EQ(backwardParameters.size(), cut.saved.size() + layout.tangents) << shown();
  if (::testing::Test::HasFailure()) return cut;

  Terms terms;
  std::vector<Terms::Term> inputs;
  for (size_t i = 0; i < layout.primals + layout.tangents; ++i) inputs.push_back(terms.named("x" + std::to_string(i)));
  int turn = 0;
  Terms::Result whole = terms.evaluate(joint, inputs, turn);
  turn = 0;
  Terms::Result forward = terms.evaluate(*cut.forward, {inputs.begin(), inputs.begin() + layout.primals}, turn);
  std::vector<Terms::Term> given;
  for (size_t i = 0; i < cut.saved.size(); ++i) {
    const ir::Arg& arg = forwardEnd->arg(layout.forwardResults + i);
    const ir::Value* primal = arg.isValue() && arg.toValue()->isParameter() ? arg.toValue() : nullptr;
    EXPECT_EQ(cut.saved[i].primal, primal ? std::optional<size_t>(primal->index()) : std::nullopt) << shown();
    const std::string& text = forward.returned[layout.forwardResults + i];
    given.push_back(text[0] == 't' ? std::stoi(text.substr(1)) : terms.named(text));
  }
  given.insert(given.end(), inputs.begin() + layout.primals, inputs.end());
  Terms::Result backward = terms.evaluate(*cut.backward, given, turn);
  std::vector<std::string> together(forward.returned.begin(), forward.returned.begin() + layout.forwardResults);
  together.insert(together.end(), backward.returned.begin(), backward.returned.end());
  EXPECT_EQ(together, whole.returned) << shown();
  // What a primal holds at the end: what the backward writes into it, else what the forward leaves there.
  std::vector<Terms::Term> after = std::move(forward.parametersAfter);
  for (size_t i = 0; i < cut.saved.size(); ++i) {
    bool written = backward.parametersAfter[i] != given[i];
    if (cut.saved[i].primal && written) after[*cut.saved[i].primal] = backward.parametersAfter[i];
  }
  for (size_t i = 0; i < layout.primals; ++i) {
    EXPECT_EQ(after[i], whole.parametersAfter[i]) << "primal " << i << "\n" << shown();
  }
  return cut;
}

std::string errorOf(const ir::Graph& joint, const JointLayout& layout, const PartitionOptions& options) {
  std::variant<Cut, std::string> made = partition(joint, layout, options);
  return std::holds_alternative<std::string>(made) ? std::get<std::string>(made) : "";
}

size_t count(const ir::Graph& graph, std::string_view op) {
  size_t found = 0;
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) found += node->op()->qualified == op;
  return found;
}

std::string savedNames(const Cut& cut) {
  std::string out;
  for (size_t i = 0; i < cut.saved.size(); ++i) {
    std::string name(cut.backward->top()->parameters()[i]->name());
    if (name.empty()) name = "int";
    out += (i ? " " : "") + (cut.saved[i].primal ? "[" + name + "]" : name);
  }
  return out;
}

}  // namespace saker::autograd::testing
