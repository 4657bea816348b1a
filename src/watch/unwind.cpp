// Where an exception goes: the exception table of the code object.
#include "watch/errors.h"
#include "watch/exception_table.h"
#include "watch/handlers.h"

namespace saker::watch {

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
