#include "ops/builder.h"

#include <vector>

#include "ops/infer.h"
#include "support/check.h"

namespace saker::ops {

namespace {

const Operator& named(std::string_view name) {
  const Operator* op = find(name);
  SAKER_CHECK(op, "a builder was asked for an operator that is not in the table");
  return *op;
}

}  // namespace

ir::Value* Builder::memoryOf(const ir::TensorType& type) {
  std::vector<ir::Arg> sizes, strides;
  for (sym::Int size : type.sizes()) sizes.push_back(ir::Arg::symInt(size));
  for (sym::Int stride : type.strides()) strides.push_back(ir::Arg::symInt(stride));
  return call("aten::empty_strided", {ir::Arg::list(sizes), ir::Arg::list(strides), ir::Arg::dtype(type.dtype),
                                      ir::Arg::none(), ir::Arg::device(type.device), ir::Arg::none()});
}

ir::Node* Builder::insert(const Operator& op, std::span<const ir::Arg> args, std::span<const ir::Type* const> results) {
  ir::Node* node = graph_.create(&op, args, results, 0, origin_);
  graph_.insertBefore(region_, position_, node);
  return node;
}

ir::Node* Builder::tryCall(const Operator& op, std::span<const ir::Arg> args) {
  Inferred inferred = infer(op, graph_.context(), args);
  return inferred.ok() ? insert(op, args, inferred.results) : nullptr;
}

ir::Node* Builder::call(const Operator& op, std::span<const ir::Arg> args) {
  ir::Node* node = tryCall(op, args);
  SAKER_CHECK(node, op.qualified.c_str());
  return node;
}

ir::Value* Builder::tryCall(std::string_view name, std::initializer_list<ir::Arg> args) {
  ir::Node* node = tryCall(named(name), std::span<const ir::Arg>(args.begin(), args.size()));
  return node ? node->result() : nullptr;
}

ir::Value* Builder::call(std::string_view name, std::initializer_list<ir::Arg> args) {
  return call(named(name), std::span<const ir::Arg>(args.begin(), args.size()))->result();
}

}  // namespace saker::ops
