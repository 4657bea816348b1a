#include "python/describe.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <algorithm>

#include "aten/enums.h"
#include "ir/clone.h"
#include "ir/graph.h"
#include "ir/print.h"
#include "passes/regions.h"
#include "python/results.h"
#include "runtime/program.h"

namespace saker::python {

namespace {

py::object borrowed(PyObject* object) { return py::reinterpret_borrow<py::object>(object); }

std::string_view operation(sym::Kind kind) {
  switch (kind) {
    case sym::Kind::Mul:
      return "mul";
    case sym::Kind::Add:
      return "add";
    case sym::Kind::FloorDiv:
      return "floordiv";
    case sym::Kind::Mod:
      return "mod";
    case sym::Kind::Min:
      return "min";
    case sym::Kind::Max:
      return "max";
    case sym::Kind::Eq:
      return "eq";
    case sym::Kind::Ne:
      return "ne";
    case sym::Kind::Le:
      return "le";
    case sym::Kind::Lt:
      return "lt";
    case sym::Kind::And:
      return "and";
    case sym::Kind::Or:
      return "or";
    case sym::Kind::Not:
      return "not";
    default:
      return "";
  }
}

std::string_view operation(sym::FloatOp op) {
  switch (op) {
#define X(name, arity)     \
  case sym::FloatOp::name: \
    return "float " #name;
    SAKER_FLOAT_OPS(X)
#undef X
  }
  return "";
}

// A number; ("symbol", name); or (operation, operands...).
py::object expression(const sym::Node* node) {
  std::vector<py::object> parts;
  auto operands = [&] {
    for (const sym::Node* operand : node->args()) parts.push_back(expression(operand));
  };
  switch (node->kind) {
    case sym::Kind::Const:
      return py::int_(node->value);
    case sym::Kind::BoolConst:
      return py::bool_(node->value != 0);
    case sym::Kind::FloatConst:
      return py::float_(node->number);
    case sym::Kind::Symbol:
    case sym::Kind::BoolSymbol:
    case sym::Kind::FloatSymbol:
      return py::make_tuple("symbol", sym::toString(node));
    case sym::Kind::Mul:
    case sym::Kind::Add:
      parts = {py::str(std::string(operation(node->kind))), py::int_(node->value)};
      operands();
      break;
    case sym::Kind::Eq:
    case sym::Kind::Ne:
    case sym::Kind::Le:
      parts = {py::str(std::string(operation(node->kind)))};
      operands();
      if (node->count == 1) parts.push_back(py::int_(0));
      break;
    case sym::Kind::ToInt:
      parts = {py::str("int"), py::str(std::string(operation(static_cast<sym::FloatOp>(node->value))))};
      operands();
      break;
    case sym::Kind::Float:
      parts = {py::str(std::string(operation(static_cast<sym::FloatOp>(node->value))))};
      operands();
      break;
    default:
      parts = {py::str(std::string(operation(node->kind)))};
      operands();
  }
  return py::tuple(py::cast(parts));
}

// Constants are Python's own. ("value", number), ("expression", expression, text) and ("opaque", class, number) are the
// rest; nothing else is a tuple.
py::object argument(const ir::Arg& arg) {
  using Kind = ir::Arg::Kind;
  switch (arg.kind()) {
    case Kind::None:
    case Kind::Type:
      return py::none();
    case Kind::Bool:
      return py::bool_(arg.toBool());
    case Kind::Int:
      return py::int_(arg.toInt());
    case Kind::Float:
      return py::float_(arg.toFloat());
    case Kind::Complex:
      return py::cast(arg.toComplex());
    case Kind::String:
      return py::str(arg.toString().data(), arg.toString().size());
    case Kind::DType:
      return borrowed(reinterpret_cast<PyObject*>(torch::getTHPDtype(aten::fromDType(arg.toDType()))));
    case Kind::Device:
      return py::cast(aten::fromDevice(arg.toDevice()));
    case Kind::Layout:
      return borrowed(reinterpret_cast<PyObject*>(torch::getTHPLayout(aten::fromLayout(arg.toLayout()))));
    case Kind::MemoryFormat:
      return borrowed(
          torch::utils::getTHPMemoryFormat(static_cast<c10::MemoryFormat>(static_cast<int>(arg.toMemoryFormat()))));
    case Kind::SymInt:
    case Kind::SymBool:
    case Kind::SymFloat:
      return py::make_tuple("expression", expression(arg.toSym()), sym::toString(arg.toSym()));
    case Kind::Opaque:
      return py::make_tuple("opaque", std::string(arg.toOpaque()->className), arg.toOpaque()->number);
    case Kind::Value: {
      const ir::ScalarType* scalar = ir::asScalar(arg.toValue()->type());
      if (scalar && scalar->kind <= ir::TypeKind::Float && scalar->expression) {
        return py::make_tuple("expression", expression(scalar->expression), sym::toString(scalar->expression));
      }
      return py::make_tuple("value", arg.toValue()->id());
    }
    case Kind::List: {
      py::list items;
      for (const ir::Arg& item : arg.toList()) items.append(argument(item));
      return items;
    }
  }
  return py::none();
}

py::list arguments(std::span<const ir::Arg> args) {
  py::list out;
  for (const ir::Arg& arg : args) out.append(argument(arg));
  return out;
}

// A size as a number, or as its expression and the text of that.
py::object size(sym::Int value) {
  if (value.isConst()) return py::int_(value.constant());
  return py::make_tuple("expression", expression(value.node()), sym::toString(value));
}

// {"id", "label": as in the text of the graph, "text"}, for a tensor {"dtype", "sizes", "strides", "device"}, for a
// number {"number": what it is known to be}.
py::dict value(const ir::Value& described, const ir::ValueNames& names) {
  py::dict out;
  out["id"] = described.id();
  out["label"] = names.of(&described);
  out["name"] = std::string(described.name());
  out["text"] = ir::toString(described.type());
  const ir::TensorType* type = described.tensor();
  if (const ir::ScalarType* scalar = ir::asScalar(described.type()); scalar && scalar->expression) {
    out["number"] = py::make_tuple("expression", expression(scalar->expression), sym::toString(scalar->expression));
  }
  if (!type) return out;
  py::list sizes, strides;
  for (sym::Int s : type->sizes()) sizes.append(size(s));
  for (sym::Int s : type->strides()) strides.append(size(s));
  out["dtype"] = borrowed(reinterpret_cast<PyObject*>(torch::getTHPDtype(aten::fromDType(type->dtype))));
  out["sizes"] = sizes;
  out["strides"] = strides;
  out["device"] = py::cast(aten::fromDevice(type->device));
  return out;
}

py::object location(const ir::Location* where) {
  if (!where) return py::none();
  return py::make_tuple(std::string(where->file), where->line, std::string(where->function));
}

// {"parameters", "nodes", "returns"}; a node has "bodies", each a region again. Numbers are unique in the graph.
py::dict describeRegion(const ir::Region& region, const ir::ValueNames& names) {
  py::list parameters, nodes;
  for (const ir::Value* parameter : region.parameters()) parameters.append(value(*parameter, names));
  py::dict out;
  out["returns"] = py::list();
  for (const ir::Node* node = region.first(); node; node = node->next()) {
    if (node->isReturn()) {
      out["returns"] = arguments(node->args());
      continue;
    }
    py::list results, bodies;
    for (size_t i = 0; i < node->resultCount(); ++i) results.append(value(*node->result(i), names));
    for (const ir::Region* body : node->regions()) bodies.append(describeRegion(*body, names));
    py::dict entry;
    entry["id"] = node->id();
    entry["op"] = node->op()->qualified;
    entry["args"] = arguments(node->args());
    entry["results"] = results;
    entry["location"] = location(node->location());
    entry["grad"] = !node->attributes().noGrad;
    entry["bodies"] = bodies;
    nodes.append(entry);
  }
  out["parameters"] = parameters;
  out["nodes"] = nodes;
  return out;
}

py::dict describeGraph(const ir::Graph& graph) {
  py::dict out = describeRegion(*graph.top(), ir::ValueNames(graph));
  out["name"] = graph.name();
  return out;
}

py::dict describeProgram(const runtime::Program& program) {
  // Regions that the program marked are calls there.
  std::unique_ptr<ir::Graph> outlined = passes::hasRegions(*program.graph) ? ir::clone(*program.graph) : nullptr;
  if (outlined) passes::outlineCalls(*outlined, {});
  py::dict out = describeGraph(outlined ? *outlined : *program.graph);
  out["arguments"] = program.arguments;
  out["results"] = program.results;
  out["differentiable"] = program.differentiable;
  out["functional"] = program.recorded != nullptr;
  py::dict symbols;
  for (const sym::Symbol& symbol : program.context->symbols().symbols()) {
    if (symbol.example) symbols[py::str(symbol.name)] = *symbol.example;
  }
  out["symbols"] = symbols;
  py::list gradients, objects;
  for (const runtime::Program::Gradient& gradient : program.gradients) gradients.append(gradient.parameter);
  for (const c10::IValue& object : program.objects) {
    bool known = object.isGenerator() || object.isCustomClass();
    objects.append(known ? torch::jit::toPyObject(object) : py::object(py::none()));
  }
  out["gradients"] = gradients;
  out["objects"] = objects;
  size_t shown = 0;
  for (const ir::Node* node = program.graph->top()->first(); node; node = node->next()) {
    shown += node->attributes().shown;
  }
  out["shown"] = shown;
  return out;
}

}  // namespace

void bindDescribe(py::module_& module) {
  module.def("describe_graph", &describeGraph, py::arg("graph"));
  module.def("describe_program", &describeProgram, py::arg("program"));
}

}  // namespace saker::python
