#include "ops/group.h"

#include <string>

#include "ops/families.h"
#include "ops/infer.h"

namespace saker::ops {
namespace {

using Mismatch = std::optional<std::string>;

Mismatch badType(const char* what, size_t i, const ir::Type* wanted, const ir::Type* found) {
  if (wanted == found) return std::nullopt;
  return std::string(what) + " " + std::to_string(i) + " does not fit: expected " + ir::toString(wanted) + ", found " +
         ir::toString(found);
}

Mismatch badCount(const char* what, size_t wanted, size_t found) {
  if (wanted == found) return std::nullopt;
  return "expected " + std::to_string(wanted) + " " + what + ", found " + std::to_string(found);
}

Mismatch checkGroup(const ir::Node& node) {
  if (Mismatch bad = badCount("body", 1, node.regions().size())) return bad;
  const ir::Region& body = *node.regions()[0];
  if (Mismatch bad = badCount("parameters", node.args().size(), body.parameters().size())) return bad;
  for (size_t i = 0; i < node.args().size(); ++i) {
    if (!node.arg(i).isValue() || !node.arg(i).toValue()->tensor()) return "an operand is no tensor";
    const ir::Type* given = node.arg(i).toValue()->type();
    if (Mismatch bad = badType("operand", i, body.parameters()[i]->type(), given)) return bad;
  }
  if (!body.terminator()) return std::nullopt;  // reported by the verifier
  std::span<const Arg> returned = body.terminator()->args();
  if (Mismatch bad = badCount("returned values", node.resultCount(), returned.size())) return bad;
  for (size_t i = 0; i < returned.size(); ++i) {
    if (!returned[i].isValue()) return "what a group returns is no tensor";
    if (Mismatch bad = badType("returned value", i, node.result(i)->type(), returned[i].toValue()->type())) return bad;
  }
  return std::nullopt;
}

void asItsBody(Infer&) { unsupported("the results are what the body returns"); }

}  // namespace

bool isGroup(const ir::Node& node) {
  static const Operator* op = find("saker::fused");
  return node.op() == op;
}

void addGroups(Rows& rows) {
  rows.push_back({.schema = "saker::fused(...) -> ...",
                  .infer = asItsBody,
                  .cost = Cost::Pointwise,
                  .bodies = 1,
                  .check = checkGroup});
}

}  // namespace saker::ops
