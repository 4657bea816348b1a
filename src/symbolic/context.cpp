#include "symbolic/context.h"

#include <bit>

#include "support/check.h"
#include "symbolic/bounds.h"
#include "symbolic/builder.h"

namespace saker::sym {
namespace {

// Beyond this an expression costs more than it can be worth: nothing is memoised per node, and all walks recurse.
constexpr uint32_t kMaxWeight = 20000;
constexpr uint32_t kMaxDepth = 150;

bool sameOperands(const Node& node, std::span<const Node* const> operands) {
  if (node.count != operands.size()) return false;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (node.operands[i] != operands[i]) return false;
  }
  return true;
}

}  // namespace

Context::Context() {
  false_ = intern(Kind::BoolConst, 0, {});
  true_ = intern(Kind::BoolConst, 1, {});
}

Context::~Context() = default;

const Node* Context::make(Kind kind, uint64_t value, uint64_t hash, std::span<const Node* const> operands,
                          Range range) {
  uint64_t weight = 1;
  uint32_t depth = 0;
  uint64_t symbols = 0;
  for (const Node* operand : operands) {
    weight += operand->weight;
    symbols |= operand->symbols;
    if (operand->depth > depth) depth = operand->depth;
  }
  if (weight > kMaxWeight || depth >= kMaxDepth) throw TooLarge();
  Node* node = arena_.make<Node>();
  node->kind = kind;
  node->id = made_++;
  node->hash = hash;
  node->value = static_cast<int64_t>(value);
  node->context = this;
  node->count = static_cast<uint32_t>(operands.size());
  node->operands = arena_.copy(operands).data();
  node->weight = static_cast<uint32_t>(weight);
  node->depth = depth + 1;
  node->symbols = node->isSymbol() ? uint64_t{1} << (value % 64) : symbols;
  node->range = range;
  return node;
}

const Node* Context::intern(Kind kind, uint64_t value, std::span<const Node* const> operands) {
  uint64_t hash = hashMix(static_cast<uint64_t>(kind) + 1, value);
  for (const Node* operand : operands) {
    SAKER_CHECK(operand->context == this, "an expression of another context");
    hash = hashMix(hash, operand->hash);
  }
  auto same = [&](const Node& node) {
    return node.kind == kind && static_cast<uint64_t>(node.value) == value && sameOperands(node, operands);
  };
  return nodes_.findOrMake(hash, same, [&] {
    Range range = boundsOf(kind, static_cast<int64_t>(value), operands, nullptr);
    return make(kind, value, hash, operands, range);
  });
}

// Each symbol is a node of its own, also where an index is used again after a rollback: expressions that were made
// with the old symbol (and with its range) are then different ones.
const Node* Context::newSymbol(Kind kind, std::string_view name, Range range) {
  SAKER_CHECK(isSymbolName(name), "not a name for a symbol");
  SAKER_CHECK(!find(name), "a symbol of this name exists");
  SAKER_CHECK(!range.empty(), "a symbol without possible values");
  size_t index = symbols_.size();
  uint64_t hash = hashMix(hashMix(static_cast<uint64_t>(kind) + 1, index), made_);
  const Node* node = make(kind, index, hash, {}, range);
  std::string_view kept = arena_.copy(name);
  byName_.emplace(kept, index);
  symbols_.push_back({std::string(name), node, std::nullopt, std::nullopt});
  return node;
}

// Found again by index and range: which facts it belongs to makes no difference to what is built with it.
const Node* Context::hiddenSymbol(int64_t index, Range range) {
  uint64_t value = static_cast<uint64_t>(index);
  uint64_t hash = hashMix(static_cast<uint64_t>(Kind::Symbol) + 1, value);
  hash = hashMix(hashMix(hash, static_cast<uint64_t>(range.low)), static_cast<uint64_t>(range.high));
  auto same = [&](const Node& node) { return node.kind == Kind::Symbol && node.value == index && node.range == range; };
  return nodes_.findOrMake(hash, same, [&] { return make(Kind::Symbol, value, hash, {}, range); });
}

Int Context::symbol(std::string_view name, Range range, std::optional<int64_t> example) {
  SAKER_CHECK(!example || range.contains(*example), "the example of a symbol lies outside its range");
  const Node* node = newSymbol(Kind::Symbol, name, range);
  symbols_.back().example = example;
  facts_.setRange(node, range);
  return Int(node);
}

Bool Context::boolSymbol(std::string_view name, std::optional<bool> example) {
  const Node* node = newSymbol(Kind::BoolSymbol, name, {0, 1});
  if (example) symbols_.back().example = *example;
  facts_.setRange(node, {0, 1});
  return Bool(node);
}

Float Context::floatSymbol(std::string_view name, std::optional<double> example) {
  const Node* node = newSymbol(Kind::FloatSymbol, name, Range::all());
  symbols_.back().floatExample = example;
  facts_.setRange(node, Range::all());
  return Float(node);
}

const Symbol* Context::find(std::string_view name) const {
  auto found = byName_.find(name);
  return found == byName_.end() ? nullptr : &symbols_[found->second];
}

const Node* Context::intConst(int64_t value) { return intern(Kind::Const, static_cast<uint64_t>(value), {}); }
const Node* Context::boolConst(bool value) { return value ? true_ : false_; }
const Node* Context::floatConst(double value) { return intern(Kind::FloatConst, std::bit_cast<uint64_t>(value), {}); }

const Node* Context::add(const Node* a, const Node* b) {
  const Node* terms[] = {a, b};
  return sum(terms);
}
const Node* Context::sub(const Node* a, const Node* b) { return Builder(*this).sub(a, b); }
const Node* Context::mul(const Node* a, const Node* b) {
  const Node* factors[] = {a, b};
  return product(factors);
}
const Node* Context::neg(const Node* a) { return Builder(*this).sub(intConst(0), a); }
const Node* Context::sum(std::span<const Node* const> terms) { return Builder(*this).sum(terms); }
const Node* Context::product(std::span<const Node* const> factors) { return Builder(*this).product(factors); }
const Node* Context::floorDiv(const Node* a, const Node* b) { return Builder(*this).floorDiv(a, b); }
const Node* Context::mod(const Node* a, const Node* b) { return Builder(*this).mod(a, b); }
const Node* Context::minMax(Kind kind, const Node* a, const Node* b) {
  const Node* operands[] = {a, b};
  return minMax(kind, operands);
}
const Node* Context::minMax(Kind kind, std::span<const Node* const> operands) {
  return Builder(*this).minMax(kind, operands);
}
const Node* Context::eq(const Node* a, const Node* b) { return Builder(*this).compareInts(Kind::Eq, a, b); }
const Node* Context::ne(const Node* a, const Node* b) { return Builder(*this).compareInts(Kind::Ne, a, b); }
const Node* Context::le(const Node* a, const Node* b) { return Builder(*this).compareInts(Kind::Le, a, b); }
const Node* Context::lt(const Node* a, const Node* b) { return logicalNot(le(b, a)); }
const Node* Context::logical(Kind kind, const Node* a, const Node* b) {
  const Node* operands[] = {a, b};
  return logical(kind, operands);
}
const Node* Context::logical(Kind kind, std::span<const Node* const> operands) {
  return Builder(*this).logical(kind, operands);
}
const Node* Context::logicalNot(const Node* a) { return Builder(*this).logicalNot(a); }
const Node* Context::floatOp(FloatOp op, std::span<const Node* const> operands) {
  return Builder(*this).floatOp(op, operands);
}
const Node* Context::floatCompare(Kind kind, const Node* a, const Node* b) {
  return Builder(*this).floatCompare(kind, a, b);
}
const Node* Context::toInt(FloatOp rounding, const Node* a) { return Builder(*this).toInt(rounding, a); }

void Context::rollback(const Checkpoint& checkpoint) {
  SAKER_CHECK(checkpoint.symbols <= symbols_.size(), "not a checkpoint of now");
  while (symbols_.size() > checkpoint.symbols) {
    byName_.erase(symbols_.back().name);
    symbols_.pop_back();
  }
  guards_ = checkpoint.guards;
  facts_ = checkpoint.facts;
}

bool isSymbolName(std::string_view name) {
  for (std::string_view word : {"and", "or", "not", "True", "False", "inf", "nan"}) {
    if (name == word) return false;
  }
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  for (char c : name) {
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

}  // namespace saker::sym
