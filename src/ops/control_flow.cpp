#include "ops/control_flow.h"

#include <algorithm>
#include <string>

#include "ops/families.h"
#include "ops/infer.h"

namespace saker::ops {
namespace {

const Operator* callOperator() {
  static const Operator* op = find("saker::call");
  return op;
}

const Operator* ifOperator() {
  static const Operator* op = find("saker::if");
  return op;
}

const Operator* loopOperator() {
  static const Operator* op = find("saker::loop");
  return op;
}

// ---- types ----

bool sameTensors(const TensorType& a, const TensorType& b) {
  ir::TensorFlags x = a.flags, y = b.flags;
  x.requiresGrad = y.requiresGrad = false;  // autograd's affair
  if (a.dtype != b.dtype || a.layout != b.layout || a.device != b.device || a.rank != b.rank || x != y) return false;
  if (!a.offset.same(b.offset)) return false;
  return std::equal(a.dims, a.dims + 2 * size_t{a.rank}, b.dims, [](Int m, Int n) { return m.same(n); });
}

bool isNumberKind(ir::TypeKind kind) { return kind >= ir::TypeKind::Int && kind <= ir::TypeKind::Scalar; }

// May a value of type `given` stand where `wanted` is?
bool fits(const ir::Type* given, const ir::Type* wanted) {
  if (given == wanted) return true;
  if (const TensorType* tensor = ir::asTensor(wanted)) {
    return ir::asTensor(given) && sameTensors(*ir::asTensor(given), *tensor);
  }
  if (wanted->kind == ir::TypeKind::Optional) {
    return given->kind == ir::TypeKind::None || fits(given, ir::asContainer(wanted)->element);
  }
  if (wanted->kind == ir::TypeKind::Scalar) return isNumberKind(given->kind);
  if (given->kind != wanted->kind) return false;
  if (const ir::ScalarType* scalar = ir::asScalar(wanted)) return !scalar->expression;
  const ir::ContainerType* container = ir::asContainer(wanted);
  return container && fits(ir::asContainer(given)->element, container->element);
}

ir::TypeKind kindOf(const Arg& constant) {
  switch (constant.kind()) {
    case Arg::Kind::Bool:
    case Arg::Kind::SymBool:
      return ir::TypeKind::Bool;
    case Arg::Kind::Int:
    case Arg::Kind::SymInt:
      return ir::TypeKind::Int;
    case Arg::Kind::Float:
    case Arg::Kind::SymFloat:
      return ir::TypeKind::Float;
    case Arg::Kind::Complex:
      return ir::TypeKind::Complex;
    case Arg::Kind::String:
      return ir::TypeKind::String;
    case Arg::Kind::DType:
      return ir::TypeKind::DType;
    case Arg::Kind::Device:
      return ir::TypeKind::Device;
    case Arg::Kind::Layout:
      return ir::TypeKind::Layout;
    case Arg::Kind::MemoryFormat:
      return ir::TypeKind::MemoryFormat;
    case Arg::Kind::Opaque:
      return ir::TypeKind::Opaque;
    default:
      return ir::TypeKind::None;
  }
}

const sym::Node* expressionOf(const Arg& arg) {
  return arg.kind() >= Arg::Kind::SymInt && arg.kind() <= Arg::Kind::SymFloat ? arg.toSym() : nullptr;
}

bool isExpression(const sym::Node* expression, const Arg& arg) {
  if (expressionOf(arg)) return expressionOf(arg) == expression;
  switch (expression->kind) {
    case sym::Kind::Const:
      return arg.kind() == Arg::Kind::Int && arg.toInt() == expression->value;
    case sym::Kind::BoolConst:
      return arg.kind() == Arg::Kind::Bool && arg.toBool() == (expression->value != 0);
    default:
      return false;
  }
}

bool fits(const Arg& given, const ir::Type* wanted) {
  if (given.isValue()) return fits(given.toValue()->type(), wanted);
  if (wanted->kind == ir::TypeKind::Optional) return given.isNone() || fits(given, ir::asContainer(wanted)->element);
  if (given.isList()) {
    if (wanted->kind != ir::TypeKind::List) return false;
    const ir::Type* element = ir::asContainer(wanted)->element;
    return std::all_of(given.toList().begin(), given.toList().end(), [&](const Arg& a) { return fits(a, element); });
  }
  if (wanted->kind == ir::TypeKind::Scalar) return isNumberKind(kindOf(given));
  if (kindOf(given) != wanted->kind) return false;
  if (wanted->kind == ir::TypeKind::Opaque) return given.toOpaque()->className == ir::asOpaque(wanted)->className;
  const ir::ScalarType* scalar = ir::asScalar(wanted);
  return scalar && (!scalar->expression || isExpression(scalar->expression, given));
}

bool isCondition(const Arg& arg) {
  if (!arg.isValue()) return kindOf(arg) == ir::TypeKind::Bool;
  const ir::Type* type = arg.toValue()->type();
  if (type->kind == ir::TypeKind::Bool) return true;
  const TensorType* tensor = ir::asTensor(type);
  if (!tensor || tensor->dtype != DType::Bool) return false;
  return std::all_of(tensor->sizes().begin(), tensor->sizes().end(), [](Int size) { return size.isConst(1); });
}

bool isTrips(const Arg& arg) {
  if (arg.isValue()) return arg.toValue()->type()->kind == ir::TypeKind::Int;
  return arg.isNone() || kindOf(arg) == ir::TypeKind::Int;
}

// It changes from trip to trip, so it is no expression.
bool isCounter(const ir::Type* type) { return type->kind == ir::TypeKind::Int && !ir::asScalar(type)->expression; }

// ---- what the verifier asks ----

using Mismatch = std::optional<std::string>;

std::string number(size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

Mismatch badEdge(const char* from, const char* to, size_t i, const Arg& given, const ir::Type* wanted) {
  if (fits(given, wanted)) return std::nullopt;
  std::string found = given.isValue() ? "a value of type " + ir::toString(given.toValue()->type()) : "a constant";
  return std::string(from) + " " + std::to_string(i) + " does not fit " + to + " " + std::to_string(i) + ": expected " +
         ir::toString(wanted) + ", found " + found;
}

Mismatch badBodies(const ir::Node& node, size_t first, size_t wanted, bool loops) {
  size_t counter = loops ? 1 : 0;
  if (node.regions().size() != wanted) {
    return "expected " + std::string(wanted == 1 ? "one body" : "two bodies") + ", found " +
           std::to_string(node.regions().size());
  }
  std::span<const Arg> given = node.args().subspan(first);
  if (loops && node.resultCount() != given.size()) {
    return "expected " + number(given.size(), "result") + ", one for each carried value, found " +
           std::to_string(node.resultCount());
  }
  for (const ir::Region* body : node.regions()) {
    std::span<ir::Value* const> parameters = body->parameters();
    if (parameters.size() != given.size() + counter) {
      return "expected a body with " + number(given.size() + counter, "parameter") + ", found " +
             std::to_string(parameters.size());
    }
    if (loops && !isCounter(parameters[0]->type())) {
      return "expected an int that counts the trips, found " + ir::toString(parameters[0]->type());
    }
    const ir::Node* end = body->terminator();
    if (!end) continue;  // reported by the verifier
    std::span<const Arg> returned = end->args();
    if (returned.size() != node.resultCount() + counter) {
      return "expected a body that returns " + number(node.resultCount() + counter, "value") + ", found " +
             std::to_string(returned.size());
    }
    if (loops && !isCondition(returned[0])) return "what a body returns first is no condition";
    for (size_t i = 0; i < given.size(); ++i) {
      if (Mismatch bad = badEdge("operand", "parameter", i, given[i], parameters[i + counter]->type())) return bad;
    }
    for (size_t i = 0; i < node.resultCount(); ++i) {
      const Arg& value = returned[i + counter];
      if (Mismatch bad = badEdge("returned value", "result", i, value, node.result(i)->type())) return bad;
      if (!loops) continue;
      if (Mismatch bad = badEdge("returned value", "parameter", i, value, parameters[i + 1]->type())) return bad;
      if (Mismatch bad = badEdge("operand", "result", i, given[i], node.result(i)->type())) return bad;
    }
  }
  return std::nullopt;
}

Mismatch checkCall(const ir::Node& node) { return badBodies(node, 0, 1, false); }

Mismatch checkIf(const ir::Node& node) {
  if (node.args().empty() || !isCondition(node.arg(kIfCondition))) {
    return "expected a condition: a bool, or a bool tensor with one element";
  }
  return badBodies(node, kIfCondition + 1, 2, false);
}

Mismatch checkLoop(const ir::Node& node) {
  if (node.args().empty() || !isTrips(node.arg(kLoopTrips))) return "expected a number of trips: an int or None";
  if (node.args().size() < 2 || !isCondition(node.arg(kLoopCondition))) {
    return "expected a condition: a bool, or a bool tensor with one element";
  }
  return badBodies(node, kLoopCondition + 1, 1, true);
}

void asItsBodies(Infer&) { unsupported("the results are what the bodies return"); }

}  // namespace

bool isCall(const ir::Node& node) { return node.op() == callOperator(); }
bool isIf(const ir::Node& node) { return node.op() == ifOperator(); }
bool isLoop(const ir::Node& node) { return node.op() == loopOperator(); }

std::span<const Arg> passedArguments(const ir::Node& node) {
  if (isCall(node)) return node.args();
  return node.args().subspan(isLoop(node) ? kLoopCondition + 1 : kIfCondition + 1);
}

std::span<ir::Value* const> passedParameters(const ir::Region& body) {
  return body.parameters().subspan(isLoop(*body.owner()) ? 1 : 0);
}

std::span<const Arg> returnedArguments(const ir::Region& body) {
  return body.terminator()->args().subspan(isLoop(*body.owner()) ? 1 : 0);
}

void addControlFlow(Rows& rows) {
  rows.push_back({.schema = "saker::call(...) -> ...",
                  .infer = asItsBodies,
                  .cost = Cost::Library,
                  .bodies = 1,
                  .check = checkCall});
  rows.push_back(
      {.schema = "saker::if(...) -> ...", .infer = asItsBodies, .cost = Cost::Library, .bodies = 2, .check = checkIf});
  rows.push_back({.schema = "saker::loop(...) -> ...",
                  .infer = asItsBodies,
                  .cost = Cost::Library,
                  .bodies = 1,
                  .check = checkLoop});
}

}  // namespace saker::ops
