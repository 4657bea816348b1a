#include "kernel/kernel.h"

namespace saker::kernel {
namespace {

struct OpRow {
  std::string_view name;
  int operands;
};
constexpr OpRow kOps[] = {
#define X(enumerator, name, operands) {name, operands},
    SAKER_KERNEL_OPS(X)
#undef X
};
constexpr std::string_view kReductions[] = {
#define X(enumerator, name) name,
    SAKER_KERNEL_REDUCTIONS(X)
#undef X
};

}  // namespace

std::string_view name(Op op) { return kOps[static_cast<size_t>(op)].name; }
int operandCount(Op op) { return kOps[static_cast<size_t>(op)].operands; }
std::string_view name(Reduction reduction) { return kReductions[static_cast<size_t>(reduction)]; }

}  // namespace saker::kernel
