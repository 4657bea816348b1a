// Questions to a symbol: what it is, what is known, and the guards that an answer leaves.
#include "aten/sym_node.h"
#include "symbolic/context.h"

namespace saker::aten {

using sym::Kind;

namespace {

std::string place(const char* file, int64_t line) {
  return file && *file ? std::string(file) + ":" + std::to_string(line) : std::string();
}

}  // namespace

std::optional<int64_t> SymNode::intExample() const {
  return sym::evaluateInt(node_, sym::exampleAssignment(symbols()));
}

std::optional<bool> SymNode::boolExample() const { return sym::evaluateBool(node_, sym::exampleAssignment(symbols())); }

std::optional<double> SymNode::floatExample() const {
  return sym::evaluateFloat(node_, sym::exampleAssignment(symbols()));
}

int64_t SymNode::guard_int(const char* file, int64_t line) {
  TORCH_CHECK(node_->isInt(), "not an integer: ", toString(node_));
  return symbols().guardInt(node_, place(file, line));
}

bool SymNode::guard_bool(const char* file, int64_t line) {
  TORCH_CHECK(node_->isBool(), "not a condition: ", toString(node_));
  return symbols().decide(node_, place(file, line));
}

double SymNode::guard_float(const char* file, int64_t line) {
  TORCH_CHECK(node_->isFloat(), "not a float: ", toString(node_));
  if (node_->kind == Kind::FloatConst) return node_->number;
  std::optional<double> number = floatExample();
  if (!number) throw sym::Undecided("no number is known for " + toString(node_));
  // A comparison does not tell zeros apart, and holds for no nan.
  if (!(*number < 0 || *number > 0)) throw sym::Undecided("no guard tells " + toString(node_) + " from other numbers");
  symbols().decide(symbols().floatCompare(Kind::Eq, node_, symbols().floatConst(*number)), place(file, line));
  return *number;
}

bool SymNode::bool_() {
  if (node_->isBool()) return guard_bool("", 0);
  if (node_->isInt()) return !symbols().decide(symbols().eq(node_, symbols().intConst(0)));
  return !symbols().decide(symbols().floatCompare(Kind::Eq, node_, symbols().floatConst(0)));
}

bool SymNode::guardOr(bool otherwise, const char* file, int64_t line) {
  return has_hint() || symbols().facts().prove(node_) ? guard_bool(file, line) : otherwise;
}

bool SymNode::statically_known_true(const char*, int64_t) {
  return symbols().facts().prove(node_) == std::optional(true);
}

bool SymNode::expect_true(const char* file, int64_t line) {
  if (has_hint() || symbols().facts().prove(node_)) return guard_bool(file, line);
  return symbols().facts().assume(node_);
}

bool SymNode::has_hint() {
  if (node_->isInt()) return intExample().has_value();
  return node_->isBool() ? boolExample().has_value() : floatExample().has_value();
}

std::string SymNode::str() { return toString(node_); }

std::optional<int64_t> SymNode::constant_int() {
  return node_->kind == Kind::Const ? std::optional(node_->value) : std::nullopt;
}

std::optional<bool> SymNode::constant_bool() {
  return node_->kind == Kind::BoolConst ? std::optional(node_->value != 0) : std::nullopt;
}

// Facts may have made a number of a symbol: after a guard `s0 == 4` it is one.
std::optional<int64_t> SymNode::maybe_as_int() {
  if (!node_->isInt()) return std::nullopt;
  sym::Range range = symbols().facts().rangeOf(node_);
  return range.isExact() ? std::optional(range.low) : std::nullopt;
}

}  // namespace saker::aten
