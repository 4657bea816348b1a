// Whether a program's operators become kernels of machine code, and which functions these call.
#pragma once

namespace saker::runtime {

struct NativeCode {
  bool wanted = false;          // for this program, whatever the process has switched on (passes/stages.h)
  bool eagerFunctions = false;  // exp and its like as eager mode computes them, in place of polynomials
};

}  // namespace saker::runtime
