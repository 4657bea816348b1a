// Our symbols as PyTorch sees them: a SymNodeImpl over an expression. Python meets it as torch.SymInt, torch.SymBool
// and torch.SymFloat; ATen, autograd and functorch compute with it. A question that facts answer leaves nothing behind;
// one that needs the example value leaves a guard in the context.
//
// Methods throw sym::Undecided, sym::Overflow and sym::TooLarge as expressions do, and DivisionByZero.
#pragma once

#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymNodeImpl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "ir/context.h"
#include "symbolic/int.h"

namespace saker::aten {

using SharedContext = std::shared_ptr<ir::Context>;

struct DivisionByZero : std::runtime_error {
  DivisionByZero() : std::runtime_error("division by zero") {}
};

class SymNode final : public c10::SymNodeImpl {
 public:
  SymNode(SharedContext context, const sym::Node* node) : context_(std::move(context)), node_(node) {}

  const SharedContext& context() const { return context_; }
  const sym::Node* node() const { return node_; }
  // The value in the run that is traced, as far as it is known. Leaves no guard.
  std::optional<int64_t> intExample() const;
  std::optional<bool> boolExample() const;
  std::optional<double> floatExample() const;

  bool is_int() override { return node_->isInt(); }
  bool is_bool() override { return node_->isBool(); }
  bool is_float() override { return node_->isFloat(); }

  c10::SymNode add(const c10::SymNode& other) override;
  c10::SymNode sub(const c10::SymNode& other) override;
  c10::SymNode mul(const c10::SymNode& other) override;
  c10::SymNode truediv(const c10::SymNode& other) override;
  c10::SymNode pow(const c10::SymNode& other) override;
  c10::SymNode float_pow(const c10::SymNode& other) override;
  c10::SymNode pow_by_natural(const c10::SymNode& other) override;
  c10::SymNode floordiv(const c10::SymNode& other) override;
  c10::SymNode mod(const c10::SymNode& other) override;
  c10::SymNode sym_min(const c10::SymNode& other) override;
  c10::SymNode sym_max(const c10::SymNode& other) override;
  c10::SymNode eq(const c10::SymNode& other) override;
  c10::SymNode ne(const c10::SymNode& other) override;
  c10::SymNode gt(const c10::SymNode& other) override;
  c10::SymNode lt(const c10::SymNode& other) override;
  c10::SymNode le(const c10::SymNode& other) override;
  c10::SymNode ge(const c10::SymNode& other) override;
  c10::SymNode sym_or(const c10::SymNode& other) override;
  c10::SymNode sym_and(const c10::SymNode& other) override;
  c10::SymNode sym_not() override;
  // Decides the condition: an expression has no conditional.
  c10::SymNode sym_ite(const c10::SymNode& thenValue, const c10::SymNode& elseValue) override;
  c10::SymNode neg() override;
  c10::SymNode floor() override { return rounded(sym::FloatOp::Floor); }
  c10::SymNode ceil() override { return rounded(sym::FloatOp::Ceil); }
  c10::SymNode sym_float() override;
  c10::SymNode clone() override { return make(node_); }
  c10::SymNode wrap_int(int64_t value) override;
  c10::SymNode wrap_float(double value) override;
  c10::SymNode wrap_bool(bool value) override;

  // What SymNodeImpl lacks and torch.SymInt, torch.SymFloat ask of their nodes in Python.
  c10::SymNode abs();
  c10::SymNode trunc() { return rounded(sym::FloatOp::Trunc); }
  c10::SymNode round() { return rounded(sym::FloatOp::Round); }
  c10::SymNode is_integer();
  c10::SymNode function(sym::FloatOp op);  // of one float: Sqrt, Sin, ...
  c10::SymNode sum(c10::ArrayRef<c10::SymNode> terms);

  c10::SymNode is_contiguous(c10::ArrayRef<c10::SymNode> sizes, c10::ArrayRef<c10::SymNode> strides) override;
  c10::SymNode is_channels_last_contiguous_2d(c10::ArrayRef<c10::SymNode> sizes,
                                              c10::ArrayRef<c10::SymNode> strides) override;
  c10::SymNode is_channels_last_contiguous_3d(c10::ArrayRef<c10::SymNode> sizes,
                                              c10::ArrayRef<c10::SymNode> strides) override;
  c10::SymNode is_channels_last_strides_2d(c10::ArrayRef<c10::SymNode> sizes,
                                           c10::ArrayRef<c10::SymNode> strides) override;
  c10::SymNode is_channels_last_strides_3d(c10::ArrayRef<c10::SymNode> sizes,
                                           c10::ArrayRef<c10::SymNode> strides) override;
  c10::SymNode is_non_overlapping_and_dense(c10::ArrayRef<c10::SymNode> sizes,
                                            c10::ArrayRef<c10::SymNode> strides) override;

  int64_t guard_int(const char* file, int64_t line) override;
  bool guard_bool(const char* file, int64_t line) override;
  double guard_float(const char* file, int64_t line) override;
  // Of a value nobody has seen yet: the answer that is asked for, and no guard.
  bool guard_or_false(const char* file, int64_t line) override { return guardOr(false, file, line); }
  bool guard_or_true(const char* file, int64_t line) override { return guardOr(true, file, line); }
  bool statically_known_true(const char* file, int64_t line) override;
  // Of a value nobody has seen yet: becomes a fact, to be checked when the program runs.
  bool expect_true(const char* file, int64_t line) override;
  int64_t int_() override { return guard_int("", 0); }
  bool bool_() override;

  bool has_hint() override;
  std::string str() override;
  std::optional<int64_t> constant_int() override;
  std::optional<bool> constant_bool() override;
  std::optional<int64_t> maybe_as_int() override;
  // Not of floats: torch.SymFloat cannot take the constant of its node out again.
  bool is_constant() override { return node_->kind == sym::Kind::Const || node_->kind == sym::Kind::BoolConst; }
  bool is_symbolic() override { return !is_constant(); }

  c10::SymNode make(const sym::Node* node) const;

 private:
  sym::Context& symbols() const { return context_->symbols(); }
  // The expression of the other operand, which may be a constant that is not ours.
  const sym::Node* operand(const c10::SymNode& other) const;
  std::vector<sym::Int> operands(c10::ArrayRef<c10::SymNode> nodes) const;
  const sym::Node* asFloat(const sym::Node* node) const;
  const sym::Node* number(const sym::Node* node) const;
  std::pair<const sym::Node*, const sym::Node*> numbers(const c10::SymNode& other) const;
  static bool bothInts(const sym::Node* a, const sym::Node* b) { return a->isInt() && b->isInt(); }
  const sym::Node* floatOp(sym::FloatOp op, const sym::Node* a, const sym::Node* b) const;
  const sym::Node* power(const sym::Node* base, int64_t exponent) const;
  const sym::Node* equal(const sym::Node* other) const;
  const sym::Node* atMost(const sym::Node* a, const sym::Node* b) const;
  const sym::Node* less(const sym::Node* a, const sym::Node* b) const;
  void requireNonzero(const sym::Node* divisor) const;
  c10::SymNode rounded(sym::FloatOp op);
  bool guardOr(bool otherwise, const char* file, int64_t line);

  SharedContext context_;
  const sym::Node* node_;
};

// The node behind a symbol of ours; nullptr for plain numbers and for symbols of someone else.
const SymNode* ourNode(const c10::SymInt& value);

c10::SymInt toSymInt(const SharedContext& context, sym::Int value);
c10::SymBool toSymBool(const SharedContext& context, sym::Bool value);
c10::SymFloat toSymFloat(const SharedContext& context, sym::Float value);

}  // namespace saker::aten
