// What Python code sees of symbols while a call is followed with symbols in place of numbers.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "aten/sym_node.h"
#include "watch/ref.h"

namespace saker {

// Our node inside the wrapper that torch's bindings put around the nodes of Python objects, or nullptr.
const aten::SymNode* unwrapPythonNode(const c10::SymNodeImpl& node);

// A symbolic float as torch.SymFloat, or as float where it is a number; and the other way round.
Ref wrapSymFloat(const c10::SymFloat& number);
c10::SymFloat symFloatOf(PyObject* number);
// A function of one number, of a torch.SymInt or torch.SymFloat; none with an error set where it has no value.
Ref applyToSymbol(sym::FloatOp op, PyObject* number);

// While one lives on this thread, a call is followed with symbols in place of numbers, and Python code is to see of
// them what it would see of numbers. Comparisons give True and False, with a guard. What shows the symbol itself (its
// text, its hash) raises, and is remembered.
class SymbolWatch {
 public:
  SymbolWatch();
  ~SymbolWatch();
  SymbolWatch(const SymbolWatch&) = delete;
  SymbolWatch& operator=(const SymbolWatch&) = delete;

  // nullptr: nobody watches on this thread.
  static SymbolWatch* current();
  // A torch.SymInt, SymFloat or SymBool, or the node of one, was about to be seen.
  void saw(PyObject* symbol);
  void saw(const aten::SymNode& node) { seen_.push_back(node.node()); }
  const std::vector<const sym::Node*>& seen() const { return seen_; }
  // A symbol could not do what a number can: the call is not the program's any more.
  void fail(const std::string& why) { failure_ = failure_.empty() ? why : failure_; }
  const std::string& failure() const { return failure_; }

 private:
  SymbolWatch* before_;
  std::vector<const sym::Node*> seen_;
  std::string failure_;
};

}  // namespace saker
