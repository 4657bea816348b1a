#include "host/subclass_effects.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "host/subclass_form.h"

namespace saker {

namespace {

// Can this be made again as the view that it is? Sizes that change are known to the capture only.
bool isMadeAgain(const at::Tensor& tensor) {
  if (!tensor.is_view()) return false;
  auto changes = [](const c10::SymInt& number) { return number.is_heap_allocated(); };
  c10::SymIntArrayRef sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  return std::none_of(sizes.begin(), sizes.end(), changes) && std::none_of(strides.begin(), strides.end(), changes) &&
         !changes(tensor.sym_storage_offset());
}

// The same view of another base.
at::Tensor viewOf(const at::Tensor& base, const at::Tensor& view) {
  const auto& made = torch::autograd::impl::get_view_autograd_meta(view)->get_backward_view();
  if (made.has_view_fn()) return made.view_fn()(base);
  return base.as_strided_symint(view.sym_sizes(), view.sym_strides(), view.sym_storage_offset());
}

}  // namespace

int64_t versionOf(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

std::vector<std::pair<size_t, at::Tensor>> ArgumentEffects::redo(const std::vector<at::Tensor>& arguments,
                                                                 const std::vector<int64_t>& versions,
                                                                 std::span<const at::Tensor> needed) const {
  for (size_t i = 0; i < contents.size(); ++i) {
    c10::AutoGradMode on(true);
    arguments[contents[i]].copy_(needed[bases_ + i]);
  }
  for (auto [argument, count] : writes_) {
    const at::Tensor& tensor = arguments[argument];
    while (!tensor.is_inference() && tensor._version() < versions[argument] + count) {
      torch::autograd::impl::bump_version(tensor);
    }
  }
  std::vector<std::pair<size_t, at::Tensor>> out;
  for (const View& view : views) {
    bool given = view.base < arguments.size();
    const at::Tensor& base = given ? arguments[view.base] : needed[view.base - arguments.size()];
    c10::AutoGradMode mode(view.grad);
    out.emplace_back(view.place, view.view.defined() ? viewOf(base, view.view) : base);
  }
  return out;
}

WatchedArguments::WatchedArguments(const std::vector<at::Tensor>& tensors, std::vector<size_t> watched)
    : tensors_(tensors), watched_(std::move(watched)) {
  for (size_t i : watched_) {
    versions_.push_back(versionOf(tensors_[i]));
    histories_.push_back(tensors_[i].grad_fn());
  }
}

ArgumentEffects WatchedArguments::ended(const std::vector<at::Tensor>& results, std::vector<at::Tensor>& needed) const {
  ArgumentEffects effects;
  for (size_t k = 0; k < watched_.size(); ++k) {
    const at::Tensor& tensor = tensors_[watched_[k]];
    if (int64_t moved = versionOf(tensor) - versions_[k]) effects.writes_.emplace_back(watched_[k], moved);
    if (tensor.grad_fn() != histories_[k]) effects.contents.push_back(watched_[k]);
  }
  findViews(results, effects, needed);
  effects.bases_ = needed.size();
  for (size_t i : effects.contents) needed.push_back(tensors_[i].clone());
  return effects;
}

std::optional<size_t> WatchedArguments::placeOf(const at::Tensor& base, std::vector<at::Tensor>& bases) const {
  for (size_t i : watched_) {
    if (tensors_[i].is_same(base)) return i;
  }
  if (!isWrapper(base)) return std::nullopt;
  auto known = std::find_if(bases.begin(), bases.end(), [&](const at::Tensor& each) { return each.is_same(base); });
  auto place = static_cast<size_t>(known - bases.begin());
  if (known == bases.end()) bases.push_back(base);
  return tensors_.size() + place;
}

// Behind the arguments are bases that the function made.
void WatchedArguments::findViews(const std::vector<at::Tensor>& results, ArgumentEffects& effects,
                                 std::vector<at::Tensor>& bases) const {
  std::vector<at::Tensor> viewed;  // of the results that are views: what they are views of
  for (const at::Tensor& result : results) {
    if (result.defined() && isMadeAgain(result)) viewed.emplace_back(result._base());
  }
  for (size_t place = 0; place < results.size(); ++place) {
    const at::Tensor& result = results[place];
    if (!result.defined()) continue;
    auto isResult = [&](const at::Tensor& other) { return other.is_same(result); };
    bool given = std::any_of(watched_.begin(), watched_.end(), [&](size_t i) { return isResult(tensors_[i]); });
    if (given) {
      effects.views.push_back({place, *placeOf(result, bases), {}, true});
    } else if (isMadeAgain(result)) {
      at::Tensor base(result._base());
      std::optional<size_t> of = placeOf(base, bases);
      if (of) effects.views.push_back({place, *of, result, !base.requires_grad() || result.grad_fn() != nullptr});
    } else if (std::any_of(viewed.begin(), viewed.end(), isResult) && isWrapper(result)) {
      effects.views.push_back({place, *placeOf(result, bases), {}, true});
    }
  }
}

}  // namespace saker
