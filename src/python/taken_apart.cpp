#include "python/taken_apart.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include "aot/aliases.h"
#include "aot/paths.h"
#include "aten/version_counter.h"
#include "capture/trace.h"
#include "host/objects.h"
#include "host/owned.h"

namespace saker::python {

namespace {

bool isCapturing() {
  tracing::Trace* trace = tracing::current();
  return trace && trace->mode() == tracing::Mode::Capture;
}

bool anyRequiresGrad(const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}

// Hands out plain tensors, so many at a time.
class Parts {
 public:
  explicit Parts(std::span<const at::Tensor> plain) : left_(plain) {}
  std::vector<at::Tensor> take(size_t count) {
    std::vector<at::Tensor> parts(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(count));
    left_ = left_.subspan(count);
    return parts;
  }

 private:
  std::span<const at::Tensor> left_;
};

// Subclasses that were made of some tensors: of the same ones, the same.
class MadeOf {
 public:
  template <typename Make>
  at::Tensor get(const std::vector<at::Tensor>& parts, const Make& make) {
    std::vector<const c10::TensorImpl*> key;
    for (const at::Tensor& part : parts) key.push_back(part.unsafeGetTensorImpl());
    auto [known, added] = made_.try_emplace(std::move(key));
    if (added) known->second = make();
    return known->second;
  }

 private:
  std::map<std::vector<const c10::TensorImpl*>, at::Tensor> made_;
};

// What can be given other values in place.
struct Geometry {
  std::vector<c10::SymInt> sizes, strides;
  c10::SymInt offset;

  explicit Geometry(const at::Tensor& tensor)
      : sizes(tensor.sym_sizes().vec()), strides(tensor.sym_strides().vec()), offset(tensor.sym_storage_offset()) {}
  bool operator==(const Geometry& other) const {
    return sizes == other.sizes && strides == other.strides && offset == other.offset;
  }
};

std::vector<at::Tensor> insideOf(const TakenTensor& taken, GradientForm gradient = nullptr, bool saved = false) {
  if (!taken.form) return {taken.tensor};
  if (!taken.tensor.requires_grad()) return saved ? detached(taken.inner) : taken.inner;
  return toInner(taken.form, taken.tensor, taken.inner, std::move(gradient));
}

TakenTensor takeApart(const at::Tensor& tensor) {
  TakenTensor taken{tensor, nullptr, {}};
  taken.form = formOf(tensor, &taken.inner);
  return taken;
}

bool isSame(const TakenTensor& a, const TakenTensor& b) {
  return same(a.form.get(), b.form.get()) &&
         std::equal(a.inner.begin(), a.inner.end(), b.inner.begin(), b.inner.end(),
                    [](const at::Tensor& left, const at::Tensor& right) { return left.is_same(right); });
}

// The plain tensors of results; what is given twice has one inside.
std::vector<at::Tensor> takeAllApart(const std::vector<at::Tensor>& tensors, std::vector<FormPtr>* forms) {
  std::vector<size_t> first = firstOfEach(tensors);
  std::vector<std::vector<at::Tensor>> parts;
  std::vector<at::Tensor> plain;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TakenTensor taken = takeApart(tensors[i]);
    parts.push_back(first[i] == i ? insideOf(taken) : parts[first[i]]);
    plain.insert(plain.end(), parts[i].begin(), parts[i].end());
    if (forms) forms->push_back(taken.form);
  }
  return plain;
}

}  // namespace

std::vector<size_t> firstOfEach(const std::vector<at::Tensor>& tensors) {
  std::unordered_map<const c10::TensorImpl*, size_t> known;
  std::vector<size_t> first;
  for (const at::Tensor& tensor : tensors) {
    first.push_back(known.try_emplace(tensor.unsafeGetTensorImpl(), first.size()).first->second);
  }
  return first;
}

// What a backward has saved of a result is what the graph returned. Parts that the caller finds count by themselves.
static void countResult(const at::Tensor& result, const std::vector<at::Tensor>& inner) {
  if (!result.requires_grad()) return;
  std::vector<at::Tensor> parts;
  formOf(result, &parts);
  for (const at::Tensor& part : parts) {
    if (!part.is_inference()) part.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(0));
  }
  for (size_t i = 1; i < inner.size(); ++i) {
    if (aten::sharesVersion(inner[i], inner[0])) return;
  }
  countWith(result, inner[0]);
}

size_t TakenApart::plainOf(size_t place) const {
  if (forms_[place]) return forms_[place]->plain;
  auto gradient = gradients_.find(place);
  return gradient == gradients_.end() ? 1 : gradient->second->plain;
}

void TakenApart::countTogether(const std::vector<TakenTensor>& tensors, const std::vector<at::Tensor>& plain) const {
  Parts parts(plain);
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<at::Tensor> inner = parts.take(plainOf(i));
    for (size_t k = 0; tensors[i].form && k < inner.size(); ++k) {
      if (!inner[k].is_same(tensors[i].inner[k])) countWith(inner[k], tensors[i].tensor);
    }
  }
}

std::vector<at::Tensor> ApartResults::wrap(std::vector<at::Tensor> plain,
                                           const std::shared_ptr<GivenTasks>& given) const {
  Parts parts(plain);
  MadeOf made;
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < forms.size(); ++i) {
    const FormPtr& form = forms[i];
    std::vector<at::Tensor> inner = parts.take(form ? form->plain : 1);
    out.push_back(!form ? inner[0] : made.get(inner, [&] {
      at::Tensor result = anyRequiresGrad(inner) ? toResult(form, given, inner) : build(*form, inner);
      int64_t inside = inner.empty() ? -1 : versionOf(inner[0]);
      if (inside == versions[i] && !effects.writeArguments()) countResult(result, inner);
      while (versionOf(result) < versions[i]) torch::autograd::impl::bump_version(result);
      return result;
    }));
  }
  return out;
}

TakenApart::TakenApart(py::object function, const CallArguments& call, const std::vector<TakenTensor>& tensors)
    : function_(std::move(function)), first_(firstOfEach(call.tensors)) {
  tree_.add(py::make_tuple(call.positional(), call.named()).ptr(), leaves_);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!THPVariable_Check(leaves_[i].get())) continue;
    places_.push_back(i);
    leaves_[i] = Ref();
  }
  for (const TakenTensor& taken : tensors) {
    forms_.push_back(taken.form);
    gradientForms_.push_back(std::make_shared<FormPtr>());
    bool leaf = aot::isLeafWithGrad(taken.tensor);
    gradLeaf_.push_back(leaf);
    unwritable_.push_back(leaf || taken.tensor.is_view());
    onlyNotes_ = onlyNotes_ || (!taken.form && taken.tensor.requires_grad());
  }
}

std::shared_ptr<TakenApart> TakenApart::withGradients() const {
  auto made = std::make_shared<TakenApart>(*this);
  made->onlyNotes_ = false;
  made->gradients_ = *noted_;
  made->joined_ = std::make_shared<JoinedTasks>();
  made->recorded_ = nullptr;
  return made;
}

std::vector<at::Tensor> TakenApart::unwrap(const std::vector<TakenTensor>& tensors,
                                           const std::shared_ptr<GivenTasks>& given) const {
  // A backward may read those that require no grad themselves.
  bool saved = c10::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const TakenTensor& each) {
                 return each.tensor.requires_grad();
               });
  std::vector<std::vector<at::Tensor>> parts(tensors.size());
  std::vector<at::Tensor> plain;
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto gradient = gradients_.find(i);
    if (gradient != gradients_.end()) {
      parts[i] = split(gradient->second, given, joined_, tensors[i].tensor);
    } else {
      parts[i] = first_[i] == i ? insideOf(tensors[i], gradientForms_[i], saved) : parts[first_[i]];
    }
    plain.insert(plain.end(), parts[i].begin(), parts[i].end());
  }
  return plain;
}

// The argument that stands in this place, which is a plain tensor.
at::Tensor TakenApart::wrapPlain(size_t place, const std::vector<at::Tensor>& parts) const {
  if (!parts[0].requires_grad()) return parts[0];
  if (gradients_.contains(place)) return join(joined_, parts);
  if (!onlyNotes_ || !isCapturing()) return parts[0];
  return note([place, noted = noted_](FormPtr form) { (*noted)[place] = std::move(form); }, parts[0]);
}

std::vector<at::Tensor> TakenApart::wrap(const std::vector<at::Tensor>& plain) const {
  Parts parts(plain);
  MadeOf made;
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < forms_.size(); ++i) {
    const FormPtr& form = forms_[i];
    std::vector<at::Tensor> inner = parts.take(plainOf(i));
    out.push_back(!form ? wrapPlain(i, inner) : made.get(inner, [&] {
      if (anyRequiresGrad(inner)) return toOuter(form, inner, gradientForms_[i]);
      at::Tensor outer = build(*form, inner);
      if (gradLeaf_[i]) outer.set_requires_grad(true);  // in no_grad, those inside know nothing of it
      return outer;
    }));
  }
  return out;
}

// Which results are given gradients must tell of what class those of plain arguments are.
void TakenApart::checkGradients(const std::vector<at::Tensor>& results) const {
  size_t differentiable = 0, subclasses = 0;
  for (const at::Tensor& result : results) {
    if (!result.defined() || !result.requires_grad()) continue;
    ++differentiable;
    subclasses += isWrapper(result);
  }
  if (!gradients_.empty() && subclasses > 1 && subclasses < differentiable) {
    refuseTakingApart("the class of a plain tensor's gradient depends on the gradients of results");
  }
}

TakenApart::Called TakenApart::call(const std::vector<at::Tensor>& plain) const {
  std::vector<at::Tensor> tensors = wrap(plain);
  std::vector<Ref> given = leaves_;
  std::vector<Geometry> before;
  std::vector<TakenTensor> made;
  std::vector<size_t> watched;
  for (size_t i = 0; i < tensors.size(); ++i) {
    given[places_[i]] = owned(wrapTensor(tensors[i]));
    before.emplace_back(tensors[i]);
    made.push_back(takeApart(tensors[i]));
    if (forms_[i] || gradients_.contains(i)) watched.push_back(i);
  }
  WatchedArguments arguments(tensors, std::move(watched));
  Ref both = tree_.build(given);
  Ref result = owned(PyObject_Call(function_.ptr(), PyTuple_GET_ITEM(both.get(), 0), PyTuple_GET_ITEM(both.get(), 1)));
  Called called{std::make_shared<ApartResults>(result.get()), {}, {}, {}};
  for (const Ref& leaf : called.results->tree.leaves()) {
    called.leaves.push_back(THPVariable_Check(leaf.get()) ? THPVariable_Unpack(leaf.get()) : at::Tensor());
  }
  if (isCapturing()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!(Geometry(tensors[i]) == before[i])) {
        refuseTakingApart("a tensor subclass is given other sizes or strides");
      }
      if (forms_[i] && !isSame(takeApart(tensors[i]), made[i])) {
        refuseTakingApart("a tensor subclass is given other tensors inside");
      }
    }
    checkGradients(called.leaves);
  }
  called.results->effects = arguments.ended(called.leaves, called.needed);
  called.made = called.leaves;
  for (const ArgumentEffects::View& view : called.results->effects.views) called.made[view.place].reset();
  for (at::Tensor& leaf : called.made) {
    if (std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& t) { return t.is_same(leaf); })) leaf.reset();
  }
  return called;
}

// Hooks on one result see what another one sends, in eager mode.
static bool dependOnEachOther(const std::vector<at::Tensor>& results) {
  using torch::autograd::Edge;
  std::vector<Edge> own, next;
  for (const at::Tensor& result : results) {
    if (!result.defined() || !result.grad_fn()) continue;
    own.push_back(torch::autograd::impl::gradient_edge(result));
    for (const Edge& edge : result.grad_fn()->next_edges()) {
      if (edge.is_valid()) next.push_back(edge);
    }
  }
  if (own.size() < 2) return false;
  aot::Paths paths(next, own);
  return std::any_of(own.begin(), own.end(), [&](const Edge& edge) {
    std::vector<bool> from = paths.tangents(edge.function.get());
    return std::find(from.begin(), from.end(), true) != from.end();
  });
}

py::list TakenApart::record(const std::vector<at::Tensor>& plain) {
  Called called = call(plain);
  if (dependOnEachOther(called.made)) refuseTakingApart("a result depends on another one");
  ApartResults& results = *called.results;
  for (size_t argument : results.effects.contents) {
    if (unwritable_[argument]) refuseTakingApart("autograd may not let an argument be written");
  }
  for (const ArgumentEffects::View& view : results.effects.views) results.tree.leaveOut(view.place);
  results.tree.finish();
  if (const Ref& opaque = results.tree.opaque()) {
    std::string kind = Py_TYPE(opaque.get())->tp_name;
    refuseTakingApart(("a result is a " + kind + ", which each call makes anew and which may hold tensors").c_str());
  }
  py::list out;
  for (const Ref& number : results.tree.numbers()) out.append(py::handle(number.get()));
  std::vector<at::Tensor> found;
  for (const Ref& tensor : results.tree.tensors()) {
    found.push_back(THPVariable_Unpack(tensor.get()));
    if (aot::isLeafWithGrad(found.back()) && isWrapper(found.back()))
      refuseTakingApart("a result is a leaf that requires grad");
  }
  found.insert(found.end(), called.needed.begin(), called.needed.end());
  for (const at::Tensor& tensor : found) results.versions.push_back(versionOf(tensor));
  for (const at::Tensor& tensor : takeAllApart(found, &results.forms)) out.append(py::cast(tensor));
  results.tree.forget();
  recorded_ = std::move(called.results);
  return out;
}

py::list TakenApart::again(const std::vector<at::Tensor>& plain) const {
  Called called = call(plain);
  for (const ArgumentEffects::View& view : called.results->effects.views) called.leaves[view.place].reset();
  std::vector<at::Tensor> found;
  for (const at::Tensor& leaf : called.leaves) {
    if (leaf.defined()) found.push_back(leaf);
  }
  found.insert(found.end(), called.needed.begin(), called.needed.end());
  py::list out;
  for (const at::Tensor& tensor : takeAllApart(found, nullptr)) out.append(py::cast(tensor));
  return out;
}

int TakenApart::traverse(const Visitor& visit) const {
  if (int stop = visit.visit(function_.ptr(), visit.argument)) return stop;
  if (int stop = tree_.traverse(visit)) return stop;
  return visit(leaves_);
}

}  // namespace saker::python
