// The exception table of a code object: which handler covers an instruction. Internal to this folder.
#pragma once

#include <Python.h>

namespace saker::watch {

struct Handler {
  int target = 0;
  int depth = 0;       // of the value stack
  bool lasti = false;  // wants the index of the instruction that raised
};

// Numbers of the table: groups of 6 bits, the highest first; bit 6 says that another follows.
inline int readNumber(const unsigned char*& table) {
  int number = *table & 63;
  while ((*table & 64) != 0) number = number << 6 | (*++table & 63);
  ++table;
  return number;
}

inline bool findHandler(PyCodeObject* code, int index, Handler& handler) {
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

}  // namespace saker::watch
