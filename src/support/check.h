// Broken invariants stop the program with a message; they are never used for "this cannot be compiled".
#pragma once

#include <cstdio>
#include <cstdlib>

namespace saker::detail {

[[noreturn]] inline void checkFailed(const char* file, int line, const char* what, const char* message) {
  std::fprintf(stderr, "saker: broken invariant at %s:%d: %s (%s)\n", file, line, message, what);
  std::abort();
}

}  // namespace saker::detail

#define SAKER_CHECK(condition, message) \
  ((condition) ? void() : ::saker::detail::checkFailed(__FILE__, __LINE__, #condition, message))
