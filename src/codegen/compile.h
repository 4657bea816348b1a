// Makes machine code of kernels, in process, on all cores. LLVM does it, from a library of its own that is loaded when
// the first kernel is compiled (load.h); code that was made once is kept.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "kernel/kernel.h"

namespace saker::codegen {

struct Options {
  // Call the functions that eager mode calls, instead of our own polynomials, which are as accurate but differ in bits.
  bool eagerFunctions = false;
};

// The code lives as long as this does.
struct Compiled {
  kernel::Function function = nullptr;
  double milliseconds = 0;  // its share of the time of the module in which it was compiled
  size_t bytes = 0;         // of code
  std::shared_ptr<const void> memory;
};

struct Result {
  std::vector<Compiled> kernels;  // as they were given; none if there is an error
  std::string error;              // why this machine or installation cannot compile
  bool ok() const { return error.empty(); }
};

// Kernels are valid (kernel/verify.h). Thread-safe. Kept code is found by text, target and options.
Result compile(std::span<const kernel::Kernel* const> kernels, Target target, const Options& options = {});

enum class Form { Llvm, Assembly };
// What one kernel is compiled through, for reading; or an error.
struct Listing {
  std::string text, error;
};
Listing list(const kernel::Kernel& kernel, Target target, const Options& options, Form form);

// Gives the address of a function by name (Sleef_expf16_u10), or null. The C library is asked afterwards. Set before
// the first kernel is compiled: where vector functions are missing, single numbers are computed one after another.
using Resolver = void* (*)(const char* name);
void setResolver(Resolver resolver);

// How much code is kept at most, in kernels; the longest unused goes first. Code that somebody holds stays.
void setCacheLimit(size_t kernels);
struct Statistics {
  size_t compiled = 0, found = 0, kept = 0;
  double milliseconds = 0;  // spent in compile(), with waiting
};
Statistics statistics();

}  // namespace saker::codegen
