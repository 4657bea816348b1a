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

}  // namespace saker::runtime
