// Whether a program's operators become kernels of machine code, and which.
#pragma once

namespace saker::runtime {

struct NativeCode {
  bool wanted = false;    // for this program, whatever the process has switched on (passes/stages.h)
  bool toTheBit = false;  // only those whose results are eager mode's to the bit
};

}  // namespace saker::runtime
