// A fused group of operators in a run: kernels that are launched one after the other, once there is machine code of
// them. Until then, and where a tensor does not lie as the graph tells, the operators of the group are called.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "ir/graph.h"
#include "kernel/kernel.h"
#include "lower/in_place.h"
#include "lower/lower.h"
#include "runtime/guard_pages.h"
#include "runtime/launches.h"
#include "runtime/sizes.h"
#include "runtime/together.h"
#include "runtime/workspace.h"

namespace saker::runtime {

// An integer that is a number, or known only in a run; or the bits of a float that is.
struct Known {
  enum class As : uint8_t { Integer, Double, Single };

  int64_t number = 0;
  uint32_t cell = kNone;
  As as = As::Integer;

  int64_t in(Sizes& sizes) const {
    return cell == kNone ? number : as == As::Integer ? sizes.integer(cell) : bits(sizes);
  }
  // A float may have no value: where Python raises.
  bool hasValue(Sizes& sizes) const { return as == As::Integer || sizes.value(cell).known; }

 private:
  int64_t bits(Sizes& sizes) const;
};

// Machine code of the kernels of one group. Whoever compiles holds it too, and may outlive the group.
struct GroupCode {
  std::vector<kernel::Kernel> kernels;
  std::vector<codegen::Compiled> compiled;  // once it is ready
  std::atomic<bool> ready = false;
};

class FusedCode {
 public:
  FusedCode(const ir::Node& group, SizePlan& sizes);

  // Why there are no kernels; empty: there are.
  const std::string& reason() const { return reason_; }
  const std::shared_ptr<GroupCode>& code() const { return code_; }
  bool isReady() const { return code_->ready.load(std::memory_order_acquire); }
  // The layouts of operands that its kernels count on.
  const std::vector<Told>& operands() const { return operands_; }

  // Operands that its kernels are done with, element by element, before a result is written.
  const std::vector<lower::InPlace>& inPlace() const { return inPlace_; }

  // How many times kernels were launched in this process; several at once count once.
  static uint64_t launched();
  GroupFacts facts() const;
  // Have all numbers that its kernels are given a value?
  bool hasNumbers(Sizes& sizes) const;
  // Of a group that is small (GroupFacts): its kernel, to be launched with others.
  void addTo(Launches& launches, std::span<const at::Tensor> operands, std::span<const at::Tensor> results,
             Sizes& sizes) const;
  static void launchTogether(Launches& launches);
  // Computes all results from all operands. Only where code is ready. False: an operator would raise, call them.
  // Temporaries lie in `scratch` or in the workspace, if there is one.
  bool launch(std::span<const at::Tensor> operands, std::span<const at::Tensor> results, Sizes& sizes,
              Workspace* workspace, void* scratch) const;
  // What its temporaries need, if that is known; 0: nothing, or it is known in a run only.
  size_t scratchBytes() const { return scratchBytes_; }

 private:
  struct Launch {
    std::vector<lower::Operand> buffers;
    std::vector<Known> arguments;
    Known steps, work;
  };
  struct Temporary {
    c10::ScalarType dtype;
    Known elements;
  };
  // Temporaries of one launch of the group, one behind the other.
  struct Temporaries {
    c10::SmallVector<at::Tensor, 4> apart;  // each between pages that cannot be touched, if that is asked for
    c10::SmallVector<void*, 8> pointers;
    at::Tensor own;
  };
  void allocate(Temporaries& made, Sizes& sizes, Workspace* workspace, void* scratch, bool apart) const;
  void placeTemporaries();

  static void* pointer(const at::Tensor& tensor, bool written, GuardedBuffers* guarded);

  std::string reason_;
  std::vector<Launch> launches_;
  std::vector<Temporary> temporaries_;
  std::vector<size_t> offsets_;  // of temporaries, if their sizes are known
  size_t scratchBytes_ = 0;
  std::vector<Told> operands_;
  std::vector<lower::InPlace> inPlace_;
  std::shared_ptr<GroupCode> code_;
};

}  // namespace saker::runtime
