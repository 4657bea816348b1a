#include "aot/sharing.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "aot/joint.h"

namespace saker::aot {

namespace {

bool isRowOfElements(const at::Tensor& tensor) { return !tensor.is_conj() && !tensor.is_neg(); }

}  // namespace

at::Tensor autogradBase(const at::Tensor& tensor) { return tensor.is_view() ? at::Tensor(tensor._base()) : tensor; }

bool refusesWrites(const at::Tensor& tensor) {
  using torch::autograd::CreationMeta;
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
  if (!meta || !meta->has_bw_view()) return tensor.requires_grad() && tensor.is_leaf();
  if (meta->get_creation_meta() != CreationMeta::DEFAULT) return true;
  const at::Tensor& base = meta->get_backward_view().base_;
  return base.requires_grad() && base.is_leaf();
}

SharedArguments eachAlone(std::span<const at::Tensor> arguments) {
  SharedArguments found;
  found.memories.resize(arguments.size());
  found.baseOf.resize(arguments.size());
  std::iota(found.memories.begin(), found.memories.end(), size_t{0});
  return found;
}

SharedArguments findShared(std::span<const at::Tensor> arguments) {
  SharedArguments found = eachAlone(arguments);
  for (auto [k, i] : aten::sharingPairs(arguments)) {
    if (arguments[k].is_same(arguments[i]) || !shareMemory(arguments[i], arguments[k])) continue;
    if (!sameStorage(arguments[i], arguments[k])) {
      if (liesApart(arguments[i], arguments[k])) continue;
      throw NotAheadOfTime(Why::ArgumentsShareStorages);
    }
    if (!overlap(arguments[i], arguments[k])) continue;
    size_t one = std::min(found.memories[i], found.memories[k]), other = std::max(found.memories[i], found.memories[k]);
    std::replace(found.memories.begin(), found.memories.end(), other, one);
  }
  std::map<size_t, std::vector<size_t>> groups;  // by their first
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].defined()) groups[found.memories[i]].push_back(i);
  }
  for (const auto& [i, members] : groups) {
    if (members.size() < 2) continue;
    at::Tensor base = autogradBase(arguments[i]);
    bool related = true, plain = isRowOfElements(base), grad = false;
    for (size_t member : members) {
      // A leaf may be a view of what has no gradient: it has its own, and what is a view of it leads there.
      related &= autogradBase(arguments[member]).is_same(base);
      related &= base.requires_grad() || !arguments[member].requires_grad();
      plain &= arguments[member].scalar_type() == base.scalar_type() && isRowOfElements(arguments[member]);
      grad |= arguments[member].requires_grad();
    }
    if (!plain) throw NotAheadOfTime(Why::ArgumentsShareBits);
    if (related && !base.is_inference()) {
      for (size_t member : members) found.baseOf[member] = found.bases.size();
      found.bases.push_back(i);
    } else if (grad) {
      throw NotAheadOfTime(Why::ArgumentsShareUnknown);
    }
  }
  return found;
}

}  // namespace saker::aot
