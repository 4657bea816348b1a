// What a compiled function counts on beside the sizes of its arguments: the state of autograd and of the thread, and
// how arguments are related. A function is compiled once for each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace saker::aot {

using Signature = std::vector<uint64_t>;

Signature signatureOf(std::span<const at::Tensor> arguments);

// Compares numbers with those of a signature one by one, without making another one.
class SignatureMatch {
 public:
  explicit SignatureMatch(std::span<const uint64_t> expected) : expected_(expected) {}
  void push_back(uint64_t number) {
    matches_ = matches_ && at_ < expected_.size() && expected_[at_] == number;
    ++at_;
  }
  // Have all come?
  bool isWhole() const { return matches_ && at_ == expected_.size(); }

 private:
  std::span<const uint64_t> expected_;
  size_t at_ = 0;
  bool matches_ = true;
};

// Gives the numbers of the signature to one of the two.
template <typename Out>
void tellSignature(std::span<const at::Tensor> arguments, Out& out);

// A call that is to be made in eager mode whatever was compiled: inside of a torch.func transform, a mode that sees
// every operator, anomaly detection, or a trace.
bool threadBelongsToEager();
// Or with tensors of a class that answers for itself.
bool belongToEager(std::span<const at::Tensor> arguments);

}  // namespace saker::aot
