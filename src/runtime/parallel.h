// Work that PyTorch's threads do together. `at::parallel_for` is a template that is serial where the compiler was not
// asked for OpenMP; here the threads are asked by the functions that the library exports, whatever the compiler.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace saker::runtime {

// Does steps [0, steps), in parts of at least `grain` steps. Parts may be done at the same time; a part raises nothing.
void inParallel(int64_t steps, int64_t grain, c10::function_ref<void(int64_t begin, int64_t end)> work);

}  // namespace saker::runtime
