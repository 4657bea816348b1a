#include "ops/operator.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "ops/element.h"
#include "ops/families.h"
#include "support/check.h"

namespace saker::ops {

std::string_view name(Cost cost) {
  switch (cost) {
#define X(enumerator, text) \
  case Cost::enumerator:    \
    return text;
    SAKER_COSTS(X)
#undef X
  }
  return "";
}

bool Operator::isPure() const {
  if (!isRemovable() || has(kMayAlias) || has(kReadsState) || has(kNondeterministic) || has(kDynamicShape))
    return false;
  return !returnsAnyArgument();
}

bool Operator::returnsArgument(size_t i) const {
  return std::find(resultAlias.begin(), resultAlias.end(), static_cast<int8_t>(i)) != resultAlias.end();
}

bool Operator::returnsAnyArgument() const {
  return std::any_of(resultAlias.begin(), resultAlias.end(), [](int8_t alias) { return alias >= 0; });
}

namespace {

Variant variantOf(const ir::Schema& schema, const std::vector<int8_t>& resultAlias) {
  bool writes = false, writesKeyword = false;
  for (const ir::SchemaArgument& argument : schema.arguments) {
    writes |= argument.writes;
    writesKeyword |= argument.writes && argument.keywordOnly;
  }
  if (writesKeyword) return Variant::Out;
  if (writes && schema.name.ends_with('_')) return Variant::Inplace;
  bool aliases = std::any_of(resultAlias.begin(), resultAlias.end(), [](int8_t alias) { return alias >= 0; });
  return !writes && aliases ? Variant::View : Variant::Functional;
}

int8_t aliasedArgument(const ir::Schema& schema, const std::string& alias) {
  if (alias.empty()) return -1;
  // Tensor(a!) -> the set before an arrow names it: "a" of "a -> *".
  std::string set = alias.substr(0, alias.find(' '));
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const std::string& other = schema.arguments[i].alias;
    if (!other.empty() && other.substr(0, other.find(' ')) == set) return static_cast<int8_t>(i);
  }
  return -1;
}

void fill(Operator& op, const Row& row) {
  ir::SchemaError error;
  std::optional<ir::Schema> schema = ir::parseSchema(row.schema, &error);
  SAKER_CHECK(schema, row.schema.c_str());
  op.parsed = std::move(*schema);
  op.schema = &op.parsed;
  op.qualified = op.parsed.qualified();
  op.registered = true;
  op.infer = row.infer;
  op.cost = row.cost;
  op.traits = row.traits;
  op.bodies = row.bodies;
  op.check = row.check;
  op.item = row.item;
  SAKER_CHECK(op.parsed.arguments.size() <= 64, "an operator has more than 64 arguments");
  for (size_t i = 0; i < op.parsed.arguments.size(); ++i) {
    if (op.parsed.arguments[i].writes) op.writes |= uint64_t{1} << i;
  }
  for (std::string_view hidden : row.hiddenWrites) {
    std::optional<size_t> at = op.parsed.indexOf(hidden);
    SAKER_CHECK(at, "a hidden write names no argument");
    op.writes |= uint64_t{1} << *at;
  }
  for (const ir::SchemaArgument& result : op.parsed.returns) {
    op.resultAlias.push_back(aliasedArgument(op.parsed, result.alias));
  }
  op.variant = variantOf(op.parsed, op.resultAlias);
  op.ownMemory = op.writes == 0 && op.variant != Variant::View && !op.has(kMayAlias) &&
                 std::ranges::all_of(op.parsed.returns, [](const auto& result) { return result.alias.empty(); });
}

struct Table {
  std::deque<Operator> operators;  // stable addresses
  std::unordered_map<std::string_view, Operator*> byName;
  std::vector<const Operator*> sorted;

  Table() {
    Rows rows;
#define X(function) function(rows);
    SAKER_OPERATOR_FAMILIES(X)
#undef X
    for (const Row& row : rows) {
      Operator& op = operators.emplace_back();
      fill(op, row);
      bool fresh = byName.emplace(op.qualified, &op).second;
      SAKER_CHECK(fresh, ("an operator stands twice in the table: " + op.qualified).c_str());
      sorted.push_back(&op);
    }
    ElementRows elements;
#define X(function) function(elements);
    SAKER_ELEMENT_FAMILIES(X)
#undef X
    std::string unknown;
    for (const ElementRow& row : elements) {
      auto found = byName.find(row.op);
      if (found == byName.end()) {
        unknown += " " + row.op;
        continue;
      }
      SAKER_CHECK(!found->second->element, ("an operator has two rules: " + row.op).c_str());
      found->second->element = row.element;
      found->second->along = row.along;
    }
    SAKER_CHECK(unknown.empty(), ("rules of operators that are not in the table:" + unknown).c_str());
    std::sort(sorted.begin(), sorted.end(),
              [](const Operator* a, const Operator* b) { return a->qualified < b->qualified; });
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

const Operator* find(std::string_view qualified) {
  auto found = table().byName.find(qualified);
  return found == table().byName.end() ? nullptr : found->second;
}

std::span<const Operator* const> all() { return table().sorted; }

const ir::OpDef* lookup(std::string_view qualified) { return find(qualified); }

}  // namespace saker::ops
