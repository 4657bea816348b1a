// Compiles kernels of fused groups while the program goes on: one thread, which hands each batch to all cores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/fused.h"

namespace saker::runtime {

// Makes the groups ready some time later; with SAKER_COMPILE=sync before it returns.
void compileSoon(std::vector<std::shared_ptr<GroupCode>> groups);
// Waits until everything that was asked for is compiled.
void waitForCode();
// Why the last batch was not compiled; empty: it was.
std::string compileError();

// Compiles at once, by the thread that asks.
codegen::Result compileNow(const std::vector<const kernel::Kernel*>& kernels);

// What this machine and installation compile with.
struct CodeStatus {
  std::string target;                  // that is used
  std::vector<std::string> supported;  // that the processor has
  std::string library, error;          // where LLVM's part is, or why it is not there
  size_t threads = 1;                  // that compile
  bool vectorFunctions = false;        // does PyTorch's library have those that eager mode calls?
};
CodeStatus codeStatus();

}  // namespace saker::runtime
