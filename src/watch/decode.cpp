#include "watch/decode.h"

#include <new>

#include "watch/frame.h"

namespace saker::watch {

namespace {

void drop(void* instructions) { delete[] static_cast<LoopInstruction*>(instructions); }

// Where code objects keep our instructions. The index belongs to the interpreter and is asked for once.
Py_ssize_t extraIndex() {
#if PY_VERSION_HEX >= 0x030c0000
  static const Py_ssize_t index = PyUnstable_Eval_RequestCodeExtraIndex(drop);
#else
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(drop);
#endif
  return index;
}

int setExtra(PyCodeObject* code, void* extra) {
#if PY_VERSION_HEX >= 0x030c0000
  return PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), extraIndex(), extra);
#else
  return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), extraIndex(), extra);
#endif
}

LoopInstruction* decode(PyCodeObject* code) {
  // Not what runs: that is specialised and instrumented. This has the compiler's instructions at the same indexes.
  PyObject* bytes = PyCode_GetCode(code);
  if (bytes == nullptr) return nullptr;
  const std::span<const unsigned char> units(reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes)),
                                             static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
  const int count = static_cast<int>(units.size() / 2);
  auto* instructions = new (std::nothrow) LoopInstruction[static_cast<size_t>(count)];
  if (instructions != nullptr) {
    for (int index = 0; index < count; ++index) instructions[index].index = index;
    for (int index = 0; index < count;) {
      const Unit unit = readUnit(units, index, cacheCounts);
      instructions[index] = translate(units, unit);
      instructions[index].index = index + instructions[index].proper;
      index = unit.next;
    }
  }
  Py_DECREF(bytes);
  return instructions;
}

}  // namespace

Unit readUnit(std::span<const unsigned char> bytes, int index, const unsigned char* caches) {
  constexpr int extendedArg = 144;  // the same in all versions up to 3.12
  Unit unit{.begin = index, .proper = index};
  while (true) {
    const auto at = static_cast<size_t>(2 * unit.proper);
    unit.opcode = bytes[at];
    unit.arg = unit.arg << 8 | bytes[at + 1];
    if (unit.opcode != extendedArg) break;
    ++unit.proper;
  }
  unit.next = unit.proper + 1 + caches[unit.opcode];
  return unit;
}

const LoopInstruction* decoded(PyCodeObject* code) {
  if (void* known = saker_code_extra(code, extraIndex()); known != nullptr) return static_cast<LoopInstruction*>(known);
  LoopInstruction* made = decode(code);
  if (made == nullptr || setExtra(code, made) < 0) {
    PyErr_Clear();
    delete[] made;
    return nullptr;
  }
  return made;
}

}  // namespace saker::watch
