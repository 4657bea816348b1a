#include "python/symbols.h"

#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>

#include "aten/context.h"
#include "aten/enums.h"
#include "aten/sym_node.h"
#include "aten/symbolic_tensor.h"
#include "host/symbol_watch.h"
#include "ops/operator.h"
#include "python/refusal.h"
#include "symbolic/context.h"
#include "symbolic/parse.h"

namespace saker::python {

namespace {

using aten::SymNode;
using sym::FloatOp;

// Somebody is about to see a symbol where a number would be.
void show(const SymNode& node, const char* how) {
  SymbolWatch* watching = SymbolWatch::current();
  if (!watching) return;
  watching->saw(node);
  throw sym::Undecided(std::string("a size that changes is looked at: ") + how);
}

void tellWatch(const std::exception& error) {
  if (SymbolWatch* watching = SymbolWatch::current()) watching->fail(error.what());
}

// A comparison that Python asks for.
using Comparison = c10::SymNode (aten::SymNode::*)(const c10::SymNode& other);
template <Comparison compare>
c10::SymNode compared(SymNode& self, const c10::SymNode& other) {
  c10::SymNode answer = (self.*compare)(other);
  return SymbolWatch::current() ? self.wrap_bool(answer->guard_bool("", 0)) : answer;
}

class SymbolSpace {
 public:
  SymbolSpace() : context_(aten::newContext()) {}
  explicit SymbolSpace(aten::SharedContext context) : context_(std::move(context)) {}

  const aten::SharedContext& context() const { return context_; }
  sym::Context& symbols() const { return context_->symbols(); }

  void checkName(const std::string& name) const {
    if (!sym::isSymbolName(name)) throw py::value_error("not a name for a symbol: " + name);
    if (symbols().find(name)) throw py::value_error("there is a symbol " + name + " already");
  }

  c10::SymInt symbol(const std::string& name, int64_t low, std::optional<int64_t> high,
                     std::optional<int64_t> example) {
    checkName(name);
    sym::Range range{low, high.value_or(sym::Range::kInf)};
    if (range.empty()) throw py::value_error("no value is possible for " + name);
    if (example && !range.contains(*example)) throw py::value_error("the example of " + name + " is not in its range");
    return aten::toSymInt(context_, symbols().symbol(name, range, example));
  }

  // An object of torch for a node; torch's own conversions make only torch.SymInt of nodes that are not Python's.
  py::object object(const char* type, const sym::Node* node) const {
    return py::module_::import("torch").attr(type)(c10::make_intrusive<SymNode>(context_, node));
  }

  const sym::Node* parse(const std::string& text) const {
    size_t position = 0;
    std::string error;
    const sym::Node* node = sym::parseExpression(symbols(), text, position, error);
    if (node && position != text.size()) error = "unexpected text";
    if (!error.empty()) throw py::value_error(error + " at column " + std::to_string(position + 1) + ": " + text);
    return node;
  }

  const sym::Node* condition(const py::object& given) const {
    if (py::isinstance<py::str>(given)) return parse(py::cast<std::string>(given));
    if (py::isinstance<py::bool_>(given)) return symbols().boolConst(py::cast<bool>(given));
    return nodeOf(given)->node();
  }

  // The node of a torch.SymInt, torch.SymBool or torch.SymFloat of this space.
  const SymNode* nodeOf(const py::handle& value) const {
    const auto* node = py::cast<const SymNode*>(value.attr("node"));
    if (node->context() != context_) throw py::value_error("a symbol of another space");
    return node;
  }

 private:
  aten::SharedContext context_;
};

std::vector<std::string> guards(const SymbolSpace& space) {
  std::vector<std::string> texts;
  for (const sym::Guard& guard : space.symbols().guards()) texts.push_back(toString(guard.condition));
  return texts;
}

std::vector<std::string> facts(const SymbolSpace& space) {
  std::vector<std::string> texts;
  const sym::Facts& facts = space.symbols().facts();
  for (const sym::Symbol& symbol : space.symbols().symbols()) {
    if (symbol.node->kind != sym::Kind::Symbol) continue;
    sym::Range range = facts.rangeOf(symbol.node);
    if (range.low != sym::Range::kNegInf) texts.push_back(symbol.name + " >= " + std::to_string(range.low));
    if (range.high != sym::Range::kInf) texts.push_back(symbol.name + " <= " + std::to_string(range.high));
  }
  for (const sym::Node* condition : facts.assumed()) {
    std::string text = toString(condition);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
}

// The value of a symbol's expression where the symbols are as in `values`, and as in the examples otherwise.
py::object evaluate(const SymbolSpace& space, const py::handle& value, const py::kwargs& values) {
  const sym::Node* node = space.nodeOf(value)->node();
  sym::Assignment assignment = sym::exampleAssignment(space.symbols());
  for (auto [name, number] : values) {
    const sym::Symbol* symbol = space.symbols().find(py::cast<std::string>(name));
    if (!symbol) throw py::key_error("no symbol " + py::cast<std::string>(name));
    size_t index = static_cast<size_t>(symbol->node->value);
    if (symbol->node->isFloat()) {
      assignment.floats[index] = py::cast<double>(number);
    } else {
      assignment.ints[index] = py::cast<int64_t>(number);
    }
  }
  if (node->isInt()) return py::cast(sym::evaluateInt(node, assignment));
  return node->isBool() ? py::cast(sym::evaluateBool(node, assignment))
                        : py::cast(sym::evaluateFloat(node, assignment));
}

at::Tensor tensor(const SymbolSpace&, const std::vector<c10::SymInt>& sizes,
                  const std::optional<std::vector<c10::SymInt>>& strides, const c10::SymInt& offset,
                  c10::ScalarType dtype, const py::object& device) {
  if (strides && strides->size() != sizes.size()) throw py::value_error("as many strides as sizes are needed");
  auto where = py::cast<c10::Device>(py::module_::import("torch").attr("device")(device));
  return aten::symbolicTensor(sizes, strides ? *strides : aten::rowMajorStrides(sizes), offset, dtype, where);
}

py::object example(const SymNode& node) {
  if (node.node()->isInt()) return py::cast(node.intExample());
  return node.node()->isBool() ? py::cast(node.boolExample()) : py::cast(node.floatExample());
}

// An integer operation without an expression: decides both operands.
template <typename Operation>
auto bitwise(Operation operation) {
  return [operation](SymNode& a, const c10::SymNode& b) {
    return a.wrap_int(operation(a.guard_int("", 0), b->guard_int("", 0)));
  };
}

c10::SymNode roundTo(SymNode& node, const std::optional<int>& digits) {
  if (!digits || node.is_int()) return node.round();
  py::object rounded = py::module_::import("builtins").attr("round")(node.guard_float("", 0), *digits);
  return node.wrap_float(py::cast<double>(rounded));
}

py::object numberType(SymNode& node) {
  const char* name = node.is_int() ? "int" : node.is_bool() ? "bool" : "float";
  return py::module_::import("builtins").attr(name);
}

// Beside the methods that torch._C._SymNode has for every node, those that torch/fx/experimental/sym_node.py and
// symbolic_shapes.py expect. `expr` and `shape_env` stand in for sympy and ShapeEnv as far as these files go.
void bindNode(py::module_& module) {
  py::class_<SymNode, c10::SymNodeImpl, c10::intrusive_ptr<SymNode>> node(module, "SymNode", "The node of a symbol.");
  auto text = [](SymNode& self) {
    show(self, "as text");
    return self.str();
  };
  node.def("__str__", text)
      .def("__repr__", text)
      .def("str", text)
      .def("_graph_repr", text)
      .def("is_nested_int",
           [](SymNode& self) {  // torch.SymInt asks before it is hashed
             show(self, "its hash");
             return self.is_nested_int();
           })
      .def("eq", &compared<&SymNode::eq>)
      .def("ne", &compared<&SymNode::ne>)
      .def("lt", &compared<&SymNode::lt>)
      .def("le", &compared<&SymNode::le>)
      .def("gt", &compared<&SymNode::gt>)
      .def("ge", &compared<&SymNode::ge>)
      .def("abs", &SymNode::abs)
      .def("pos", &SymNode::clone)
      .def("trunc", &SymNode::trunc)
      .def("sym_int", &SymNode::trunc)
      .def("round", &roundTo, py::arg("ndigits") = std::nullopt)
      .def("is_integer", &SymNode::is_integer)
      .def("sym_sum", [](SymNode& self, const std::vector<c10::SymNode>& terms) { return self.sum(terms); })
      .def("sym_ite", &SymNode::sym_ite)
      .def("bitwise_and", bitwise([](int64_t a, int64_t b) { return a & b; }))
      .def("bitwise_or", bitwise([](int64_t a, int64_t b) { return a | b; }))
      .def("bitwise_xor", bitwise([](int64_t a, int64_t b) { return a ^ b; }))
      .def("maybe_as_int", &SymNode::maybe_as_int)
      .def("statically_known_true", &SymNode::statically_known_true)
      .def_property_readonly("pytype", &numberType)
      .def_property_readonly("constant", [](SymNode&) { return py::none(); })
      .def_property_readonly("hint", &example)
      .def_property_readonly("_hint", &example)
      .def_property_readonly("expr", [](const py::object& self) { return self; })
      .def_property_readonly("shape_env", [](SymNode& self) { return SymbolSpace(self.context()); });
  const std::pair<const char*, FloatOp> functions[] = {
      {"sym_sqrt", FloatOp::Sqrt}, {"sym_log2", FloatOp::Log2}, {"sym_sin", FloatOp::Sin},
      {"sym_cos", FloatOp::Cos},   {"sym_tan", FloatOp::Tan},   {"sym_asin", FloatOp::Asin},
      {"sym_acos", FloatOp::Acos}, {"sym_atan", FloatOp::Atan}, {"sym_sinh", FloatOp::Sinh},
      {"sym_cosh", FloatOp::Cosh}, {"sym_tanh", FloatOp::Tanh},
  };
  for (const auto& [name, op] : functions) node.def(name, [op](SymNode& self) { return self.function(op); });
}

void bindSpace(py::module_& module) {
  py::class_<SymbolSpace>(module, "SymbolSpace",
                          "Symbols, what is known about them, and the guards that were left by asking about them.\n\n"
                          ">>> space = saker.SymbolSpace()\n"
                          ">>> rows = space.symbol('rows', example=8)\n"
                          ">>> rows > 5, space.guards")
      .def(py::init<>())
      .def("symbol", &SymbolSpace::symbol, py::arg("name"), py::arg("low") = 2, py::arg("high") = std::nullopt,
           py::arg("example") = std::nullopt,
           "A new integer between low and high; by default a size that may change, which is at least 2. Without an "
           "example, questions that need its value are refused.")
      .def(
          "float_symbol",
          [](SymbolSpace& self, const std::string& name, std::optional<double> example) {
            self.checkName(name);
            return self.object("SymFloat", self.symbols().floatSymbol(name, example).node());
          },
          py::arg("name"), py::arg("example") = std::nullopt)
      .def(
          "bool_symbol",
          [](SymbolSpace& self, const std::string& name, std::optional<bool> example) {
            self.checkName(name);
            return self.object("SymBool", self.symbols().boolSymbol(name, example).node());
          },
          py::arg("name"), py::arg("example") = std::nullopt)
      .def("guards", &guards, "The conditions that must hold for the answers given so far.")
      .def("facts", &facts, "What is known, guards included.")
      .def(
          "assume",
          [](SymbolSpace& self, const py::object& condition) {
            if (!self.symbols().facts().assume(self.condition(condition))) {
              throw py::value_error("contradicts what is known");
            }
          },
          py::arg("condition"), "Takes a condition (torch.SymBool or text) for granted.")
      .def("evaluate", &evaluate, py::arg("value"), "A symbolic value with numbers put in for symbols, by name.")
      .def("tensor", &tensor, py::arg("sizes"), py::arg("strides") = std::nullopt, py::arg("offset") = c10::SymInt(0),
           py::arg("dtype") = c10::kFloat, py::arg("device") = "meta",
           "A tensor without data whose sizes, strides and offset may be symbols.")
      // What symbolic_shapes.py asks a ShapeEnv.
      .def("_maybe_evaluate_static",
           [](SymbolSpace& self, const SymNode& node) { return self.symbols().facts().prove(node.node()); })
      .def(
          "evaluate_sym_node",
          [](SymbolSpace&, SymNode& node, bool, std::optional<bool> fallback) {
            if (!fallback) return node.guard_bool("", 0);
            return *fallback ? node.guard_or_true("", 0) : node.guard_or_false("", 0);
          },
          py::arg("node"), py::arg("size_oblivious") = false, py::arg("fallback_value") = std::nullopt);
}

}  // namespace

void bindSymbols(py::module_& module) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const aten::DivisionByZero& error) {
      tellWatch(error);
      PyErr_SetString(PyExc_ZeroDivisionError, error.what());
    } catch (const sym::Undecided& error) {
      tellWatch(error);
      setRefusal({ops::Reason::Undecided, error.what()});
    } catch (const sym::Overflow& error) {
      tellWatch(error);
      setRefusal({ops::Reason::Overflow, error.what()});
    }
  });
  bindNode(module);
  bindSpace(module);
}

}  // namespace saker::python
