// Copies of buffers beside pages that cannot be touched, for tests of generated code: a kernel that reads or writes
// outside of its tensors ends the process there.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>
#include <vector>

namespace saker::runtime {

// Off; buffers end where such a page begins; buffers begin where one ends.
enum class GuardPages : uint8_t { Off, Behind, Before };

GuardPages guardPages();
// By name: "", "behind", "before". False: there is no such mode.
bool setGuardPages(std::string_view mode);

// The buffers of one launch.
class GuardedBuffers {
 public:
  explicit GuardedBuffers(GuardPages mode) : mode_(mode) {}
  ~GuardedBuffers();
  GuardedBuffers(const GuardedBuffers&) = delete;
  GuardedBuffers& operator=(const GuardedBuffers&) = delete;

  // Where the first element is in the copy. What is not written is copied, and cannot be written there.
  void* add(const at::Tensor& tensor, bool written);
  // Copies what was written to where it belongs.
  void copyBack();

 private:
  struct Copy {
    void* base;
    size_t mapped;
    char* data;    // what a kernel may touch
    char* origin;  // the same in the tensor
    size_t bytes;
    bool written;
  };

  GuardPages mode_;
  std::vector<Copy> copies_;
};

}  // namespace saker::runtime
