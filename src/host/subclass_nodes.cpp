#include "host/subclass_nodes.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/autograd/variable_info.h>

#include <algorithm>
#include <stdexcept>

#include "aten/torch_version/autograd_node.h"
#include "capture/trace.h"
#include "capture/user_code.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/objects.h"

namespace saker {

namespace {

using torch::autograd::variable_list;

// A gradient, taken apart.
struct Gradient {
  at::Tensor tensor;
  FormPtr form;
  std::vector<at::Tensor> inner;

  explicit Gradient(at::Tensor given) : tensor(std::move(given)) { form = formOf(tensor, &inner); }
};

// What the class of the gradient turns it into for a tensor of another form; undefined if nothing.
at::Tensor coerced(const at::Tensor& gradient, const Form* form) {
  Ref object = Ref::steal(wrapTensor(gradient));
  Ref coerce =
      Ref::steal(object ? PyObject_GetAttrString(object.get(), "__coerce_same_metadata_as_tangent__") : nullptr);
  if (!coerce) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throwPythonError();
    PyErr_Clear();
    return {};
  }
  PyObject* kind = form ? form->kind.get() : reinterpret_cast<PyObject*>(tensorClass());
  PyObject* context = form ? form->context.get() : Py_None;
  Ref made = Ref::steal(PyObject_CallFunctionObjArgs(coerce.get(), context, kind, nullptr));
  if (!made) throwPythonError();
  return isTensor(made.get()) ? tensorOf(made.get()) : at::Tensor();
}

// The gradient as one of this form; most are.
Gradient asGuessed(at::Tensor given, const Form* form) {
  Gradient gradient(std::move(given));
  if (sameButSizes(gradient.form.get(), form)) return gradient;
  if (at::Tensor other = coerced(gradient.tensor, form); other.defined()) {
    Gradient turned(std::move(other));
    if (sameButSizes(turned.form.get(), form)) return turned;
  }
  throw std::runtime_error("the backward was compiled for a gradient that is " + describe(form) + ", and is given " +
                           describe(gradient.form.get()) +
                           ". Give one of the same kind, or a gradient that turns into one "
                           "(__coerce_same_metadata_as_tangent__).");
}

// Gradients that are missing beside others are zeros; without any there is none to give.
class InsideNode : public tracing::SubclassNode {
 public:
  variable_list apply(variable_list&& gradients) final {
    auto defined = [](const at::Tensor& gradient) { return gradient.defined(); };
    if (std::none_of(gradients.begin(), gradients.end(), defined)) return variable_list(num_outputs());
    HoldInterpreter gil;
    at::OptionalDeviceGuard guard;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = outputs_[i].zeros(guard);
    }
    return backward(std::move(gradients));
  }
  void release_variables() override {}

  void noteOutputs(const std::vector<at::Tensor>& outputs) {
    for (const at::Tensor& output : outputs) outputs_.emplace_back(output);
  }

 protected:
  virtual variable_list backward(variable_list gradients) = 0;

 private:
  std::vector<torch::autograd::VariableInfo> outputs_;
};

bool isDifferentiable(const at::Tensor& tensor) {
  return c10::isFloatingType(tensor.scalar_type()) || c10::isComplexType(tensor.scalar_type());
}

// Ties outputs, which have no history, to inputs by a node, if autograd is to know.
template <typename T, typename... Args>
std::vector<at::Tensor> tied(std::vector<at::Tensor> outputs, const std::vector<at::Tensor>& inputs, Args&&... args) {
  auto requiresGrad = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  if (!c10::GradMode::is_enabled() || std::none_of(inputs.begin(), inputs.end(), requiresGrad)) return outputs;
  auto node = aten::makeNode<T>(std::forward<Args>(args)...);
  torch::autograd::edge_list edges;
  for (const at::Tensor& input : inputs) {
    edges.push_back(input.requires_grad() ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
  }
  node->set_next_edges(std::move(edges));
  node->noteOutputs(outputs);
  for (at::Tensor& output : outputs) {
    if (isDifferentiable(output)) {
      torch::autograd::set_history(output, node);
    } else {
      node->add_input_metadata(torch::autograd::Node::undefined_input());
    }
  }
  return outputs;
}

class ToInner final : public InsideNode {
 public:
  ToInner(FormPtr form, GradientForm gradient) : form_(std::move(form)), gradient_(std::move(gradient)) {}
  std::string name() const override { return "SakerToInnerBackward"; }

 protected:
  variable_list backward(variable_list gradients) override {
    for (at::Tensor& gradient : gradients) gradient = asGuessed(std::move(gradient), nullptr).tensor;
    return {toOuter(gradient_ && *gradient_ ? *gradient_ : form_, gradients)};
  }

 private:
  FormPtr form_;
  GradientForm gradient_;
};

bool isFixed(const Form& form) {
  auto fixed = [](const c10::SymInt& number) { return !number.is_heap_allocated(); };
  return std::all_of(form.size.begin(), form.size.end(), fixed) &&
         std::all_of(form.stride.begin(), form.stride.end(), fixed) &&
         std::all_of(form.parts.begin(), form.parts.end(),
                     [](const Form::Part& part) { return !part.form || isFixed(*part.form); });
}

class ToOuter : public InsideNode {
 public:
  explicit ToOuter(FormPtr form, GradientForm found = nullptr) : form_(std::move(form)), found_(std::move(found)) {}
  std::string name() const override { return "SakerToOuterBackward"; }

 protected:
  variable_list backward(variable_list gradients) override {
    Gradient gradient = asGuessed(std::move(gradients[0]), form_.get());
    if (found_ && tracing::current() && isFixed(*gradient.form)) *found_ = gradient.form;
    return toInner(gradient.form, gradient.tensor, std::move(gradient.inner));
  }

 private:
  FormPtr form_;
  GradientForm found_;
};

class Result final : public ToOuter {
 public:
  Result(FormPtr form, std::shared_ptr<GivenTasks> given) : ToOuter(std::move(form)), given_(std::move(given)) {}
  std::string name() const override { return "SakerResultBackward"; }

 protected:
  variable_list backward(variable_list gradients) override {
    given_->insert(torch::autograd::get_current_graph_task_id());
    return ToOuter::backward(std::move(gradients));
  }

 private:
  std::shared_ptr<GivenTasks> given_;
};

class Split final : public InsideNode {
 public:
  Split(FormPtr form, std::shared_ptr<GivenTasks> given, std::shared_ptr<JoinedTasks> joined)
      : form_(std::move(form)), given_(std::move(given)), joined_(std::move(joined)) {}
  std::string name() const override { return "SakerSplitBackward"; }

 protected:
  variable_list backward(variable_list gradients) override {
    for (at::Tensor& gradient : gradients) gradient = asGuessed(std::move(gradient), nullptr).tensor;
    int task = torch::autograd::get_current_graph_task_id();
    if (!given_->contains(task) && !joined_->contains(task)) return {gradients[0]};
    return {toOuter(form_, gradients)};
  }

 private:
  FormPtr form_;
  std::shared_ptr<GivenTasks> given_;
  std::shared_ptr<JoinedTasks> joined_;
};

constexpr const char* kOtherClass = "the gradient of a plain tensor is of another class than before";

class Join final : public InsideNode {
 public:
  Join(std::shared_ptr<JoinedTasks> joined, size_t count) : joined_(std::move(joined)), count_(count) {}
  std::string name() const override { return "SakerJoinBackward"; }

 protected:
  variable_list backward(variable_list gradients) override {
    Gradient gradient(std::move(gradients[0]));
    bool traced = tracing::current() != nullptr;
    if (!gradient.form && !traced) {
      variable_list out(count_);
      out[0] = gradient.tensor;
      return out;
    }
    if (!gradient.form || gradient.form->plain != count_) refuseTakingApart(kOtherClass);
    joined_->add(torch::autograd::get_current_graph_task_id());
    if (traced) return gradient.inner;
    return toInner(gradient.form, gradient.tensor, std::move(gradient.inner));
  }

 private:
  std::shared_ptr<JoinedTasks> joined_;
  size_t count_;
};

class Note final : public InsideNode {
 public:
  explicit Note(std::function<void(FormPtr)> told) : told_(std::move(told)) {}
  std::string name() const override { return "SakerNoteBackward"; }

 protected:
  variable_list backward(variable_list gradients) override {
    Gradient gradient(std::move(gradients[0]));
    if (!gradient.form) return {gradient.tensor};
    told_(gradient.form);
    return {gradient.inner.at(0)};  // this capture is not used
  }

 private:
  std::function<void(FormPtr)> told_;
};

}  // namespace

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  c10::AutoGradMode off(false);
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.detach());
  return out;
}

void JoinedTasks::add(int task) {
  tasks_.push_back(task);
  if (tasks_.size() > kLimit) tasks_.pop_front();
}

bool JoinedTasks::contains(int task) const { return std::find(tasks_.begin(), tasks_.end(), task) != tasks_.end(); }

std::vector<at::Tensor> toInner(FormPtr form, const at::Tensor& outer, std::vector<at::Tensor> inner,
                                GradientForm gradient) {
  return tied<ToInner>(detached(inner), {outer}, std::move(form), std::move(gradient));
}

void countWith(const at::Tensor& inner, const at::Tensor& outer) {
  if (inner.is_inference() || outer.is_inference()) return;
  inner.unsafeGetTensorImpl()->set_version_counter(outer.unsafeGetTensorImpl()->version_counter());
}

at::Tensor toOuter(FormPtr form, const std::vector<at::Tensor>& inner, GradientForm found) {
  at::Tensor made;
  {
    c10::AutoGradMode off(false);
    made = build(*form, detached(inner));
  }
  return tied<ToOuter>({made}, inner, std::move(form), std::move(found))[0];
}

at::Tensor toResult(FormPtr form, std::shared_ptr<GivenTasks> given, const std::vector<at::Tensor>& inner) {
  at::Tensor made;
  {
    c10::AutoGradMode off(false);
    made = build(*form, detached(inner));
  }
  return tied<Result>({made}, inner, std::move(form), std::move(given))[0];
}

std::vector<at::Tensor> split(FormPtr form, std::shared_ptr<GivenTasks> given, std::shared_ptr<JoinedTasks> joined,
                              const at::Tensor& plain) {
  std::vector<at::Tensor> out = detached({plain});
  for (size_t i = 1; i < form->plain; ++i) {
    c10::AutoGradMode off(false);
    out.push_back(at::zeros({}, plain.options()).expand(plain.sizes()).detach());
  }
  if (!plain.requires_grad()) {
    out[0] = plain;
    return out;
  }
  return tied<Split>(std::move(out), {plain}, std::move(form), std::move(given), std::move(joined));
}

at::Tensor join(std::shared_ptr<JoinedTasks> joined, const std::vector<at::Tensor>& parts) {
  return tied<Join>(detached({parts[0]}), parts, std::move(joined), parts.size())[0];
}

at::Tensor note(std::function<void(FormPtr)> told, const at::Tensor& plain) {
  return tied<Note>(detached({plain}), {plain}, std::move(told))[0];
}

void refuseTakingApart(const char* why) {
  Ref type = Ref::steal(errorClass("NotTakenApart"));
  Ref error = Ref::steal(PyObject_CallFunction(type.get(), "ss", "Unsupported", why));
  if (error) PyErr_SetObject(type.get(), error.get());
  throwPythonError();
}

void nameSubclassNodes() {
  auto name = [](PyTypeObject& type, const std::type_info& node, const char* text) {
    torch::autograd::_initFunctionPyTypeObject(type, text, nullptr, nullptr);
    torch::autograd::registerCppFunction(node, &type);
  };
  static PyTypeObject inner, outer, result, divided, joined, noted;
  name(inner, typeid(ToInner), "SakerToInnerBackward");
  name(outer, typeid(ToOuter), "SakerToOuterBackward");
  name(result, typeid(Result), "SakerResultBackward");
  name(divided, typeid(Split), "SakerSplitBackward");
  name(joined, typeid(Join), "SakerJoinBackward");
  name(noted, typeid(Note), "SakerNoteBackward");
}

}  // namespace saker
