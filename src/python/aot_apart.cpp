#include "python/aot_apart.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "host/errors.h"
#include "host/gil.h"
#include "python/taken_apart.h"

namespace saker::python {

// A function compiled on the plain tensors inside of arguments, for arguments of one structure.
class Apart {
 public:
  explicit Apart(std::shared_ptr<TakenApart> taken) : taken_(std::move(taken)) {}

  std::optional<Ref> run(PyObject* compile, const std::vector<TakenTensor>& tensors, const CallArguments& call) {
    if (eager) return std::nullopt;
    if (taken_->onlyNotes() && !takeNotes(compile, tensors)) return std::nullopt;
    auto given = std::make_shared<GivenTasks>();
    std::vector<int64_t> versions;
    for (const at::Tensor& tensor : call.tensors) versions.push_back(versionOf(tensor));
    std::vector<at::Tensor> plain = taken_->unwrap(tensors, given);
    if (aot::belongToEager(plain)) return std::nullopt;
    Variant found = variant(compile, plain);  // what runs may come back here, and compile more
    if (!found.native) return std::nullopt;
    if (!found.results->effects.writeArguments()) taken_->countTogether(tensors, plain);
    std::optional<std::vector<at::Tensor>> returned;
    std::vector<c10::IValue> numbers;
    {
      ReleaseInterpreter released;
      returned = (*found.native)(std::move(plain), &numbers);
    }
    if (!returned) return std::nullopt;
    const ApartResults& results = *found.results;
    std::vector<at::Tensor> outputs = results.wrap(std::move(*returned), given);
    std::span<const at::Tensor> all(outputs);
    size_t count = outputs.size() - results.effects.needed();
    auto views = results.effects.redo(call.tensors, versions, all.subspan(count));
    return results.tree.build(all.first(count), numbers, views);
  }

  int traverse(const Visitor& visit) const { return taken_.use_count() == 1 ? taken_->traverse(visit) : 0; }

  bool eager = false;  // the function does with a subclass what cannot be done with the tensors inside

 private:
  struct Variant {
    std::shared_ptr<const aot::CompiledFunction> native;  // nullptr: eager mode
    std::shared_ptr<const ApartResults> results;
  };

  // Finds out the gradients of plain arguments. False: this call is one for eager mode.
  bool takeNotes(PyObject* compile, const std::vector<TakenTensor>& tensors) {
    std::shared_ptr<TakenApart> noting = taken_;
    std::vector<at::Tensor> plain = noting->unwrap(tensors, nullptr);
    if (aot::belongToEager(plain)) return false;
    compileWith(compile, noting, plain);
    if (taken_ == noting) taken_ = noting->withGradients();  // another thread may have been faster
    return true;
  }

  Variant variant(PyObject* compile, const std::vector<at::Tensor>& plain) {
    aot::Signature signature = aot::signatureOf(plain);
    uint64_t hash = hashOf(signature);
    if (Variant* found = variants_.find(hash, [&](const aot::Signature& key) { return key == signature; })) {
      return *found;
    }
    python::Variant made = compileWith(compile, taken_, plain);
    return variants_.add(hash, std::move(signature), {made.native, taken_->recorded()});
  }

  static python::Variant compileWith(PyObject* compile, const std::shared_ptr<TakenApart>& taken,
                                     const std::vector<at::Tensor>& plain) {
    py::tuple args(plain.size());
    for (size_t i = 0; i < plain.size(); ++i) args[i] = py::cast(plain[i]);
    return compileFunction(compile, py::cast(taken), args, py::dict());
  }

  std::shared_ptr<TakenApart> taken_;
  KeyedList<aot::Signature, Variant> variants_;
};

struct Aparts::Key {
  Structure structure;
  std::vector<FormPtr> forms;   // by tensor
  std::vector<uint64_t> state;  // what decides, beside these, what a function does to its arguments in autograd's eyes
};

namespace {

std::vector<uint64_t> stateOf(const std::vector<at::Tensor>& tensors) {
  std::vector<uint64_t> state{c10::GradMode::is_enabled(), c10::InferenceMode::is_enabled()};
  std::vector<size_t> first = firstOfEach(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    state.push_back(first[i] << 3 | static_cast<uint64_t>(tensor.requires_grad()) << 2 |
                    static_cast<uint64_t>(tensor.is_leaf()) << 1 | static_cast<uint64_t>(tensor.is_view()));
  }
  return state;
}

bool sameForms(const std::vector<FormPtr>& forms, const std::vector<TakenTensor>& tensors) {
  return std::equal(forms.begin(), forms.end(), tensors.begin(), tensors.end(),
                    [](const FormPtr& form, const TakenTensor& taken) { return same(form.get(), taken.form.get()); });
}

}  // namespace

Aparts::Aparts() : made_(std::make_unique<KeyedList<Key, std::shared_ptr<Apart>>>()) {}
Aparts::~Aparts() = default;

bool Aparts::takes(const CallArguments& call) {
  bool any = false;
  for (const at::Tensor& tensor : call.tensors) {
    // A ragged size of a nested tensor belongs to its tensor of offsets: made of stand-ins it would be another one.
    if (tensor.is_nested()) return false;
    any = any || isWrapper(tensor);
  }
  return any;
}

std::optional<Ref> Aparts::run(PyObject* compile, PyObject* function, const CallArguments& call) {
  // Outside of autograd, the tensors inside know nothing of a history.
  if (!c10::GradMode::is_enabled() && std::any_of(call.tensors.begin(), call.tensors.end(), [](const at::Tensor& each) {
        return each.requires_grad() && !each.is_leaf() && isWrapper(each);
      })) {
    return std::nullopt;
  }
  std::vector<TakenTensor> tensors;
  std::vector<uint64_t> state = stateOf(call.tensors);
  uint64_t hash = hashOf(state) ^ call.structure.tree.hash();
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    TakenTensor& taken = tensors.emplace_back(TakenTensor{call.tensors[i], nullptr, {}});
    taken.form = formOf(taken.tensor, &taken.inner);
    if (taken.form) hash = hash * 31 + hashOf(*taken.form);
  }
  auto matches = [&](const Key& key) {
    return key.state == state && key.structure == call.structure && sameForms(key.forms, tensors);
  };
  std::shared_ptr<Apart> apart;
  if (std::shared_ptr<Apart>* found = made_->find(hash, matches)) {
    apart = *found;
  } else {
    auto taken = std::make_shared<TakenApart>(py::reinterpret_borrow<py::object>(function), call, tensors);
    apart = std::make_shared<Apart>(std::move(taken));
    Key key{call.structure, {}, std::move(state)};
    for (const TakenTensor& each : tensors) key.forms.push_back(each.form);
    made_->add(hash, std::move(key), apart);
  }
  try {
    return apart->run(compile, tensors, call);
  } catch (...) {
    Ref refused = Ref::steal(errorClass("NotTakenApart"));
    if (!setPythonError()) throw;
    if (!PyErr_ExceptionMatches(refused.get())) throwPythonError();
    PyErr_Clear();  // while capturing: nothing has been done yet
    apart->eager = true;
    return std::nullopt;
  }
}

int Aparts::traverse(const Visitor& visit) const {
  return made_->each([&](const auto& entry) {
    if (int stop = entry.key.structure.traverse(visit)) return stop;
    return entry.value.use_count() == 1 ? entry.value->traverse(visit) : 0;
  });
}

void bindApart(py::module_& module) {
  auto tensorsOf = [](const py::args& args) {
    std::vector<at::Tensor> tensors;
    for (py::handle tensor : args) tensors.push_back(THPVariable_Unpack(tensor.ptr()));
    return tensors;
  };
  auto listOf = [](PyObject* list) {
    if (!list) throw py::error_already_set();
    return py::reinterpret_steal<py::list>(list);
  };
  py::class_<TakenApart, std::shared_ptr<TakenApart>>(module, "TakenApart")
      .def("__call__",
           [=](TakenApart& self, const py::args& plain) {
             return listOf(asPython([&] { return self.record(tensorsOf(plain)).release().ptr(); }));
           })
      // Is a capture to find out the gradients of plain arguments, and nothing else?
      .def_property_readonly("only_notes", &TakenApart::onlyNotes)
      .def("again", [=](const TakenApart& self, const py::args& plain) {
        return listOf(asPython([&] { return self.again(tensorsOf(plain)).release().ptr(); }));
      });
}

}  // namespace saker::python
