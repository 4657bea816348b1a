// Numbers that a program computes of floats that change, and of numbers in tensors, and that decide what it does:
// guards compute them before a replay, and compare what comes of it with what came of it when the call was recorded.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/context.h"
#include "symbolic/flat.h"
#include "watch/ref.h"

namespace saker::frontend {

struct Found;

// By Py_LT, ...: the comparison of the other operand with the first one.
inline int swappedComparison(int op) {
  constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  return kSwapped[op];
}

class NumberGuard {
 public:
  // What an expression is computed of: a float at a place, or a tensor of no dimensions to which numbers are added.
  struct Leaf {
    uint32_t place;
    uint32_t cell;
    std::vector<double> added;
  };

  explicit NumberGuard(std::shared_ptr<ir::Context> context) : context_(std::move(context)) {}
  uint32_t add(const sym::Node* expression) { return flat_.add(expression); }
  void addLeaf(uint32_t place, const sym::Node* symbol, std::vector<double> added);
  // The program compares the numbers of two cells, by Py_LT, ...
  void compares(uint32_t left, int op, uint32_t right, bool answer);
  // It gives the number of a cell to a function of C that asks for nothing but its value; nullptr among the arguments
  // stands for the number.
  void gives(uint32_t cell, Ref function, std::vector<Ref> arguments, Ref result);

  const std::vector<Leaf>& leaves() const { return leaves_; }
  bool holds(const Found& found) const;
  // `of`: what it is computed of.
  std::string text(const std::string& of) const;
  template <typename Visit>
  void eachObject(Visit visit) const {
    for (const Ref& each : arguments_) visit(each.get());
    visit(function_.get());
    visit(result_.get());
  }

 private:
  bool givesSame(double number) const;

  std::shared_ptr<ir::Context> context_;  // owns the expressions
  sym::Flat flat_;
  std::vector<Leaf> leaves_;
  uint32_t left_ = 0, right_ = 0;
  int op_ = 0;
  bool answer_ = false;
  Ref function_, result_;
  std::vector<Ref> arguments_;
};

}  // namespace saker::frontend
