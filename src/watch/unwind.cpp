// Where an exception goes: the exception table of the code object.
#include "watch/errors.h"
#include "watch/handlers.h"

namespace saker::watch {

namespace {

struct Handler {
  int target = 0;
  int depth = 0;       // of the value stack
  bool lasti = false;  // wants the index of the instruction that raised
};

// Numbers of the table: groups of 6 bits, the highest first; bit 6 says that another follows.
int readNumber(const unsigned char*& table) {
  int number = *table & 63;
  while ((*table & 64) != 0) number = number << 6 | (*++table & 63);
  ++table;
  return number;
}

bool findHandler(PyCodeObject* code, int index, Handler& handler) {
  const auto* table = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const auto* end = table + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (table < end) {
    const int start = readNumber(table);
    if (start > index) return false;  // sorted
    const int length = readNumber(table);
    const int target = readNumber(table);
    const int depth = readNumber(table);
    if (index >= start + length) continue;
    handler = {.target = target, .depth = depth >> 1, .lasti = (depth & 1) != 0};
    return true;
  }
  return false;
}

}  // namespace

bool unwind(Machine& m) {
  const int index = m.index();
  Handler handler;
  while (!m.observer().abandons() && findHandler(m.frame.code, index, handler)) {
    m.drain(m.frame.bottom + handler.depth);
    if (handler.lasti) {
      PyObject* lasti = PyLong_FromLong(static_cast<long>(*m.frame.position - m.frame.units));
      if (lasti == nullptr) continue;  // with the new exception
      m.push(lasti);
    }
    if (saker_frame_handled(&m.frame, handler.target) < 0) continue;
    m.push(takeRaised());
    m.next = m.code + handler.target;
    return true;
  }
  m.drain(m.frame.bottom);
  saker_frame_unwound(&m.frame, index);
  return false;
}

}  // namespace saker::watch
