#include "frontend/number_guards.h"

#include "capture/tape.h"
#include "frontend/guards.h"
#include "frontend/kinds.h"
#include "host/objects.h"

namespace saker::frontend {

namespace {

bool compare(double left, int op, double right) {
  switch (op) {
    case Py_LT:
      return left < right;
    case Py_LE:
      return left <= right;
    case Py_EQ:
      return left == right;
    case Py_NE:
      return left != right;
    case Py_GT:
      return left > right;
    default:
      return left >= right;
  }
}

std::optional<double> numberAt(PyObject* object, const std::vector<double>& added) {
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  const at::Tensor& tensor = tensorOf(object);  // a guard of its own has looked at its geometry
  size_t end = (static_cast<size_t>(tensor.storage_offset()) + 1) * tensor.itemsize();
  if (tensor.storage().nbytes() < end) return std::nullopt;
  const void* data = tensor.const_data_ptr();
  bool single = tensor.scalar_type() == at::kFloat;
  double number = single ? *static_cast<const float*>(data) : *static_cast<const double*>(data);
  return tracing::Tape::ItemSource::compute(number, added, single);
}

}  // namespace

void NumberGuard::addLeaf(uint32_t place, const sym::Node* symbol, std::vector<double> added) {
  leaves_.push_back({place, flat_.add(symbol), std::move(added)});
}

void NumberGuard::compares(uint32_t left, int op, uint32_t right, bool answer) {
  left_ = left, op_ = op, right_ = right, answer_ = answer;
}

void NumberGuard::gives(uint32_t cell, Ref function, std::vector<Ref> arguments, Ref result) {
  left_ = cell;
  function_ = std::move(function);
  arguments_ = std::move(arguments);
  result_ = std::move(result);
}

bool NumberGuard::givesSame(double number) const {
  Ref value = Ref::steal(PyFloat_FromDouble(number));
  std::vector<PyObject*> arguments;
  for (const Ref& each : arguments_) arguments.push_back(each ? each.get() : value.get());
  Ref now = Ref::steal(PyObject_Vectorcall(function_.get(), arguments.data(), arguments.size(), nullptr));
  if (!now) PyErr_Clear();
  return now && sameValue(now.get(), result_.get());
}

bool NumberGuard::holds(const Found& found) const {
  std::vector<sym::Cell> cells(flat_.cellCount());
  for (const Leaf& leaf : leaves_) {
    std::optional<double> number = numberAt(found[leaf.place], leaf.added);
    if (!number) return false;
    cells[leaf.cell].setReal(*number);
  }
  std::optional<double> left = flat_.value(cells, left_).real();
  if (!left) return false;  // it has no value now, and the program raises
  if (function_) return givesSame(*left);
  std::optional<double> right = flat_.value(cells, right_).real();
  return right && compare(*left, op_, *right) == answer_;
}

std::string NumberGuard::text(const std::string& of) const {
  std::string what = "what is computed of " + of;
  if (function_) return what + " gives the same to " + nameOf(function_.get()) + "()";
  static const char* const kSigns[] = {"<", "<=", "==", "!=", ">", ">="};
  std::vector<sym::Cell> cells(flat_.cellCount());
  std::optional<double> right = flat_.value(cells, right_).real();  // known where it is a constant
  std::string asked = what + " " + kSigns[op_] + " ";
  if (!right) {
    asked += "another such number";
  } else {
    Ref number = Ref::steal(PyFloat_FromDouble(*right));
    Ref text = Ref::steal(PyObject_Repr(number.get()));
    asked += PyUnicode_AsUTF8(text.get());
  }
  return answer_ ? asked : "not: " + asked;
}

}  // namespace saker::frontend
