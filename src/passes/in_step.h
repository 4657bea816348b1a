// Compares bodies node by node, both in step: operators, arguments, types and bodies. What else must be equal, and
// which values stand for each other, a class that derives from this says.
#pragma once

#include "ir/graph.h"

namespace saker::passes {

// Derived has
//   bool sameFacts(const ir::Node& a, const ir::Node& b)          what a node is beside its operator and arguments
//   bool sameConstant(const ir::Arg& a, const ir::Arg& b) const   of arguments that are neither values nor lists
//   bool sameValue(const ir::Value* a, const ir::Value* b) const  of arguments
//   void tell(const ir::Value* b, ir::Value* a)                   both stand for each other from here on
template <typename Derived>
class InStep {
 protected:
  bool equal(const ir::Region& a, const ir::Region& b) {
    if (a.parameters().size() != b.parameters().size()) return false;
    for (size_t i = 0; i < a.parameters().size(); ++i) {
      if (a.parameters()[i]->type() != b.parameters()[i]->type()) return false;
      self().tell(b.parameters()[i], a.parameters()[i]);
    }
    const ir::Node *x = a.first(), *y = b.first();
    for (; x && y; x = x->next(), y = y->next()) {
      if (!equal(*x, *y)) return false;
      tellResults(*x, *y);
    }
    return !x && !y;
  }

  bool equal(const ir::Node& a, const ir::Node& b) {
    if (a.op() != b.op() || a.args().size() != b.args().size() || a.resultCount() != b.resultCount() ||
        a.regions().size() != b.regions().size() || !self().sameFacts(a, b)) {
      return false;
    }
    for (size_t i = 0; i < a.args().size(); ++i) {
      if (!equal(a.arg(i), b.arg(i))) return false;
    }
    for (size_t i = 0; i < a.resultCount(); ++i) {
      if (a.result(i)->type() != b.result(i)->type()) return false;
    }
    for (size_t i = 0; i < a.regions().size(); ++i) {
      if (!equal(*a.regions()[i], *b.regions()[i])) return false;
    }
    return true;
  }

  void tellResults(const ir::Node& a, const ir::Node& b) {
    for (size_t i = 0; i < a.resultCount(); ++i) self().tell(b.result(i), a.result(i));
  }

  bool equal(const ir::Arg& a, const ir::Arg& b) {
    if (a.isValue() || b.isValue()) return a.isValue() && b.isValue() && self().sameValue(a.toValue(), b.toValue());
    if (!a.isList() || !b.isList()) return self().sameConstant(a, b);
    if (a.toList().size() != b.toList().size()) return false;
    for (size_t i = 0; i < a.toList().size(); ++i) {
      if (!equal(a.toList()[i], b.toList()[i])) return false;
    }
    return true;
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

}  // namespace saker::passes
