// NumPy: what it does to the memory of tensors is a call of the host in the graph; what it does to constants is pure.
#pragma once

#include <set>
#include <tuple>
#include <unordered_map>

#include "frontend/host_call.h"
#include "frontend/number_guards.h"
#include "frontend/subject.h"

namespace saker::frontend {

// A NumPy array or scalar that the call found or made, as a tensor over its memory; or a float that is data.
struct Array {
  at::Tensor tensor;  // of a float that Python computed: none, until it is asked for
  bool scalar;
  bool readOnly;
  bool isFloat = false;
  const sym::Node* number = nullptr;  // of a float, as the graph has it, once it is asked for
};

class Arrays final : public SubjectOf<Arrays> {
 public:
  using SubjectOf::SubjectOf;

  // nullptr: it is none.
  const Array* arrayOf(PyObject* object) const {
    auto found = arrays_.find(object);
    return found == arrays_.end() ? nullptr : &found->second;
  }
  bool any() const { return !arrays_.empty(); }
  bool holdsArrays(PyObject* object, int depth = 0) const;
  // Floats that are data, in numbers.cpp: does a function of C take them out of a view, an iterator or a deque, out of
  // sight, to compute with them?
  bool takesUnseen(PyObject* callable, const Values& args);
  // Does it give on the elements of what it is given, and asks them nothing?
  static bool givesElementsOn(PyObject* callable);
  // A key, an index, an element that is looked for: is it data? Then the recording ends.
  bool findsByData(PyObject* key);
  void foundArray(uint32_t place, PyObject* object);
  // A float that is data: an input of the graph.
  void addFloat(PyObject* number, const at::Tensor& tensor) {
    arrays_.emplace(number, Array{tensor, true, false, true});
  }
  // The tensor of an array, a scalar or a float that is data.
  at::Tensor tensorFor(PyObject* object) const;

  // A call of the host begins, as an operator of the graph; hosted() has what it gave. `asIs`: an object from outside
  // that is no value is given as it is, and must be this very one.
  bool hosts(PyObject* callable, const Values& args, PyObject* names, bool asIs = false);
  // The same for code of the user's, which runs whenever it would, with gradients of its own.
  // `keeps`: it may keep the lists that it is given.
  bool hostsUserCode(PyObject* callable, const Values& args, PyObject* names, bool keeps = false);
  void begin(c10::intrusive_ptr<HostCall> call) { hosted_.emplace(Hosted{std::move(call), {}}); }
  // The call that has begun, or nullptr.
  HostCall* hosting() const { return hosted_ ? hosted_->call.get() : nullptr; }
  void hosted(PyObject* result);
  // The result of something that may have begun a call of the host.
  void gave(PyObject* result) {
    if (hosted_) hosted(result);
    if (computed_) computed(result);
  }
  void took();

  // In place of min() and max(), which give one of their arguments, while there are floats that are data; and what it
  // stands for.
  PyObject* insteadOf(PyObject* callable) const;
  static PyObject* standsFor(PyObject* callable);

  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
  bool called(PyObject* callable, PyObject* result, bool spread) override;
  Answer readsAttribute(PyObject* owner, PyObject* name) override;
  void found(uint32_t place, PyObject* object) override;
  void goesOn() override;
  std::optional<Stop> seal() override;

  // Operators of Python.
  Answer binary(watch::Binary op, bool inplace, PyObject* left, PyObject* right);
  Answer unary(watch::Unary op, PyObject* operand);
  Answer compares(int op, PyObject* left, PyObject* right);
  Answer item(PyObject* array, PyObject* key, PyObject* valueOrNull, bool writes);

 private:
  struct Hosted {
    c10::intrusive_ptr<HostCall> call;
    std::vector<at::Tensor> tensors;
  };
  std::optional<HostPart> hostPart(PyObject* object, std::vector<at::Tensor>& tensors, bool asIs = false);
  bool doesEffectsFirst();
  // A list that code of the user's may keep, and the call or others change afterwards.
  bool isKept(PyObject* list) const { return keeps_ && PyList_CheckExact(list); }
  std::optional<HostPart> keptList(PyObject* list);
  // A tensor and a number that is data meet in an operator.
  Answer meets(watch::Binary op, bool inplace, PyObject* left, PyObject* right);
  bool expects(const Array& data);

  // Floats that are data, in numbers.cpp. The number of a float that is data, or of a constant.
  const sym::Node* numberOf(PyObject* object);
  bool isNumber(PyObject* object) const;
  // Python is about to compute this: an expression of the graph. Nothing: with something else than numbers.
  Answer computes(sym::FloatOp op, const Values& operands);
  Answer computesBy(PyObject* callable, const Values& args);
  Answer computesBinary(watch::Binary op, PyObject* left, PyObject* right);
  void computed(PyObject* result);
  void consumed(PyObject* callable, PyObject* result);
  bool holdsBehind(PyObject* object, int depth = 0) const;
  // An operator is about to be called with floats that are data, alone or in lists.
  bool onlyFloats(const Values& args) const;
  bool expectsNumbers(std::string function, const Values& args);
  // `.item()` of a tensor of floats is about to be called.
  bool asksItem(PyObject* callable, const Values& args);
  // A float that was found at a place, and may change, is compared with a number: that the answer is the same is a
  // guard. False: this is something else.
  bool decides(int op, PyObject* left, PyObject* right);
  // The same of numbers that are computed of such floats, and of numbers in tensors that guards can read.
  bool decidesFound(int op, PyObject* left, PyObject* right);
  // min() or max(), which ask the second number and the first one.
  bool chooses(int op, PyObject* first, PyObject* second);
  bool decidesComputed(int op, PyObject* left, PyObject* right);
  // What guards compute an expression of. False: they cannot.
  bool addLeaves(NumberGuard& guard, const sym::Node* expression);
  void addGuard(NumberGuard guard);
  // Is what lies at this place found there by guards?
  bool isLoaded(uint32_t place) const;
  // Tensors of no dimensions among the arguments of an operator may stand for numbers.
  void mayReadNumbers(PyObject* callable, const Values& args);

  mutable std::unordered_map<PyObject*, Array>
      arrays_;  // tensors and numbers of floats are made when they are asked for
  std::optional<Hosted> hosted_;
  bool keeps_ = false;
  std::vector<std::pair<Ref, Ref>> given_;  // lists that the call made, and what they held when they were given
  std::vector<PyObject*> consuming_;        // functions of C that a generator gives values to
  bool expects_ = false;                    // an operator that is to take a number
  bool expectsNumbers_ = false;             // the same of floats
  bool item_ = false;
  // What Python computes of floats that are data.
  struct Computed {
    enum class Fails : uint8_t { Never, Raises, GivesOther } fails;
    const sym::Node* number;
  };
  std::optional<Computed> computed_;
  std::set<std::tuple<const sym::Node*, int, const sym::Node*>> decided_;
};

}  // namespace saker::frontend
