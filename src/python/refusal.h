// saker.Refusal from C++.
#pragma once

#include "ops/infer.h"

namespace saker::python {

void setRefusal(const ops::Refusal& refusal);  // as the interpreter's pending error
[[noreturn]] void raiseRefusal(const ops::Refusal& refusal);

}  // namespace saker::python
