// Operators on numbers, comparisons, membership, f-strings.
#include "watch/handlers.h"

namespace saker::watch {

namespace {

Flow unary(Machine& m, Unary op, unaryfunc function) {
  if (!m.observer().unary(op, m.top())) return Flow::Stop;
  PyObject* result = function(m.top());
  if (result != nullptr) m.observer().unaryDone(op, m.top(), result);
  return m.replace(1, result);
}

PyObject* power(PyObject* left, PyObject* right) { return PyNumber_Power(left, right, Py_None); }
PyObject* inplacePower(PyObject* left, PyObject* right) { return PyNumber_InPlacePower(left, right, Py_None); }

// In CPython's order, which is that of `Binary`: the plain operators, then those in place.
constexpr int operatorCount = 13;
constexpr binaryfunc binaryFunctions[2 * operatorCount] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    inplacePower,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

// Two ints or two floats have the last word on their operators: no need to ask both types in turn.
binaryfunc numberFunction(int op, PyObject* left, PyObject* right) {
  PyTypeObject* type = Py_TYPE(left);
  if (type != Py_TYPE(right) || (type != &PyLong_Type && type != &PyFloat_Type)) return nullptr;
  switch (static_cast<Binary>(op % operatorCount)) {  // in place they do the same
    case Binary::Add:
      return type->tp_as_number->nb_add;
    case Binary::Subtract:
      return type->tp_as_number->nb_subtract;
    case Binary::Multiply:
      return type->tp_as_number->nb_multiply;
    default:
      return nullptr;
  }
}

}  // namespace

Flow unaryNegative(Machine& m) { return unary(m, Unary::Negative, PyNumber_Negative); }
Flow unaryPositive(Machine& m) { return unary(m, Unary::Positive, PyNumber_Positive); }
Flow unaryInvert(Machine& m) { return unary(m, Unary::Invert, PyNumber_Invert); }

Flow unaryNot(Machine& m) {
  PyObject* value = m.top();
  if (!m.observer().unary(Unary::Not, value)) return Flow::Stop;
  const int result = PyObject_IsTrue(value);
  return m.replace(1, result < 0 ? nullptr : truth(result == 0));
}

Flow binaryOp(Machine& m) {
  PyObject* left = m.top(2);
  PyObject* right = m.top();
  const bool inplace = m.arg() >= operatorCount;
  const auto op = static_cast<Binary>(inplace ? m.arg() - operatorCount : m.arg());
  if (!m.observer().binary(op, inplace, left, right)) return Flow::Stop;
  binaryfunc function = numberFunction(m.arg(), left, right);
  if (function == nullptr) function = binaryFunctions[m.arg()];
  PyObject* result = function(left, right);
  if (result != nullptr) m.observer().binaryDone(op, inplace, left, right, result);
  return m.replace(2, result);
}

Flow compare(Machine& m) {
  PyObject* left = m.top(2);
  PyObject* right = m.top();
  if (!m.observer().compares(m.arg(), left, right)) return Flow::Stop;
  PyTypeObject* type = Py_TYPE(left);
  const bool numbers = type == Py_TYPE(right) && (type == &PyLong_Type || type == &PyFloat_Type);
  PyObject* result = numbers ? type->tp_richcompare(left, right, m.arg()) : PyObject_RichCompare(left, right, m.arg());
  if (result != nullptr && !numbers) m.observer().compared(left, right, result);
  return m.replace(2, result);
}

Flow contains(Machine& m) {
  if (!m.observer().contains(m.top(), m.top(2))) return Flow::Stop;
  const int found = PySequence_Contains(m.top(), m.top(2));
  return m.replace(2, found < 0 ? nullptr : truth((found != 0) != (m.arg() != 0)));
}

Flow identity(Machine& m) {
  if (!m.observer().identifies(m.top(2), m.top())) return Flow::Stop;
  const bool same = m.top(2) == m.top();
  return m.replace(2, truth(same != (m.arg() != 0)));
}

// {value!r:spec}: two low bits say how it is converted, the third that there is a format specification.
Flow formatValue(Machine& m) {
  static constexpr char conversions[] = {0, 's', 'r', 'a'};
  const int conversion = m.arg() & 3;
  const bool specified = (m.arg() & 4) != 0;
  PyObject* value = m.top(specified ? 2 : 1);
  PyObject* specification = specified ? m.top() : nullptr;
  if (!m.observer().formats(value, conversions[conversion], specification)) return Flow::Stop;
  if (specified) m.pop();
  const Ref owned = Ref::steal(specification);
  if (conversion != 0) {
    PyObject* text = conversion == 1   ? PyObject_Str(value)
                     : conversion == 2 ? PyObject_Repr(value)
                                       : PyObject_ASCII(value);
    if (m.replace(1, text) == Flow::Error) return Flow::Error;
  }
  if (PyUnicode_CheckExact(m.top()) && specification == nullptr) return Flow::Next;
  return m.replace(1, PyObject_Format(m.top(), specification));
}

}  // namespace saker::watch
