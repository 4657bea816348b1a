#include "ops/builder.h"

#include "ops/infer.h"
#include "support/check.h"

namespace saker::ops {

ir::Node* Builder::tryCall(const Operator& op, std::span<const ir::Arg> args) {
  Inferred inferred = infer(op, graph_.context(), args);
  if (!inferred.ok()) return nullptr;
  ir::Node* node = graph_.create(&op, args, inferred.results, 0, location_);
  graph_.insertBefore(region_, position_, node);
  return node;
}

ir::Node* Builder::call(const Operator& op, std::span<const ir::Arg> args) {
  ir::Node* node = tryCall(op, args);
  SAKER_CHECK(node, op.qualified.c_str());
  return node;
}

ir::Value* Builder::call(std::string_view name, std::initializer_list<ir::Arg> args) {
  const Operator* op = find(name);
  SAKER_CHECK(op, "a builder was asked for an operator that is not in the table");
  return call(*op, std::span<const ir::Arg>(args.begin(), args.size()))->result();
}

}  // namespace saker::ops
