// The one function of libsaker_codegen.so, in which LLVM is. Kernels cross as text, so that the library and its user
// share no C++ types.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct SakerEmit {
  const char* const* kernels;  // texts; functions are called kernel0, kernel1, ... in their order
  size_t count;
  const char* target;   // name of a saker::codegen::Target
  const char* tuneFor;  // model of the processor as LLVM calls it; empty: this one
  bool eagerFunctions;
  int form;                                   // 0: object file, 1: LLVM's text, 2: assembly
  void* user;                                 // given to the functions below
  bool (*has)(void* user, const char* name);  // whether a function can be called by this name
  void (*take)(void* user, const char* bytes, size_t count);
  void (*fail)(void* user, const char* message);
};

// Calls take or fail, once.
using SakerEmitFunction = void (*)(const SakerEmit*);
void saker_codegen_emit(const SakerEmit* request);
}
