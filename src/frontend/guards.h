// What must hold for a recorded call to be done again: a straight line of loads and checks over numbered places, in the
// order in which the program read them. Nothing of Python runs while it is checked.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "frontend/memo.h"
#include "frontend/number_guards.h"
#include "frontend/user_names.h"
#include "watch/ref.h"

namespace saker::frontend {

// What is remembered of a tensor: all that operators and Python can see of it but its data.
struct TensorShape {
  c10::DispatchKeySet keys;
  c10::ScalarType dtype;
  c10::Device device;
  bool requiresGrad, leaf, inference;
  int64_t offset;
  bool anyOffset = false;  // nothing depends on where it begins in its memory
  c10::DimVector sizes, strides;
  std::vector<size_t> dynamic;  // dimensions of any size above 1; strides are then for the program to judge

  explicit TensorShape(const at::Tensor& tensor);
  bool fits(const at::Tensor& tensor) const;

 private:
  bool fitsDynamic(const c10::TensorImpl& impl) const;
};

enum class GuardOp : uint8_t {
  // Loads: what is found at a place that the object of another place leads to.
  Positional,      // argument `number` of the call
  Keyword,         // the keyword argument named `object`
  FrameLocal,      // slot `number` of the locals of a live frame; `object` is its name
  FrameUnbound,    // the same where nothing is bound
  FrameStack,      // entry `number` of the value stack of a live frame, from below
  FunctionMode,    // entry `number` of PyTorch's stack of function modes
  Fixed,           // `object` itself
  Attribute,       // `object` in the dict of an instance
  Slot,            // the member at offset `number`
  Item,            // element `number` of a list or tuple
  Key,             // `object` in a dict
  Cell,            // what a cell holds
  Gradient,        // .grad of a tensor
  MethodSelf,      // of a bound method
  MethodFunction,  // of a bound method
  DictOf,          // the dict of an instance
  Referent,        // what a weak reference refers to, or None
  Computed,        // what the getset descriptor `object` gives, which the owner holds
  Local,           // variable `number` of a generator that has not begun
  Saved,           // tensor `number` of those that the node of a torch.autograd.Function has saved; as many as `object`
  ContextValue,    // of a ContextVar
  // Checks.
  IsType,        // the type is exactly `object`
  Is,            // it is `object`
  Equals,        // a number, string or the like equal to `object`, of the same type
  Same,          // it is what place `number` holds
  Different,     // it is not what place `number` holds
  Number,        // an int that may be a size: above 1, and not too large
  Length,        // `number` elements
  Empty,         // no elements; `number` 0: some
  Keys,          // a dict with the keys of the tuple `object`, in order
  Elements,      // a set with the elements of the tuple `object`, in order
  NoAttribute,   // the dict of an instance lacks `object`
  NoKey,         // a dict lacks `object`
  NoCell,        // an empty cell
  NoGradient,    // .grad is None
  Tensor,        // fits tensors_[number]
  Array,         // an array of numpy's: as a tensor, it fits tensors_[number]
  Function,      // the code of a function is `object`; its defaults are those of functions_[number]
  FunctionLike,  // a function of the code, globals and builtins that the tuple `object` has
  NoSlot,        // the member at offset `number` is not set
  Gives,         // a descriptor of C gives a value; `object` is both; without a value: it raises
  Unbegun,       // a generator that has not begun; `object`: its code, globals and builtins
  Position,      // a builtin iterator that stands where the bytes `object` say
  Compares,      // a float: comparing it with the number `object` by number & 7 (Py_LT, ...) gives whether number & 8
  Computes,      // what is computed of it, and of what is elsewhere, gives what it gave: numbers[number]
};

struct GuardInstruction {
  GuardOp op;
  uint32_t place;   // what is loaded or checked
  uint32_t parent;  // of a load
  int64_t number;
  Ref object;
};

// A way into an object: an element of a list or tuple, a key of a dict, an attribute in the dict of an instance.
struct Step {
  GuardOp op;
  int64_t number;
  Ref key;
};
using Path = std::vector<Step>;

// A class whose attributes were looked up, and what was found. The version is the fast path; when it moves, every name
// is looked up again.
struct TypeLookups {
  Ref type;
  mutable unsigned version = 0;
  std::vector<std::pair<Ref, PyObject*>> names;  // what was found is kept alive by the type's dict, or by `kept`
  std::vector<Ref> kept;
};

struct FunctionParts {
  Ref defaults, keywordDefaults;
};

// What guards start from: the arguments of a call, as a vectorcall has them, or the slots of a live frame.
struct CallArguments {
  PyObject* const* values;
  size_t positional;
  PyObject* names;
  std::span<PyObject* const> locals = {}, stack = {};  // borrowed; nullptr: nothing is bound
};

// What one check of guards finds. It belongs to a call: other calls may check the same guards at the same time.
struct Found {
  std::vector<PyObject*> places = {};        // borrowed; what is not wanted may be left out
  std::vector<Ref> made = {};                // what the check has made to look at
  const GuardInstruction* failed = nullptr;  // the check that did not hold
  std::string why = {};                      // or what else did not

  PyObject*& operator[](size_t place) { return places[place]; }
  PyObject* operator[](size_t place) const { return places[place]; }
};

class Guards {
 public:
  size_t positional = 0;      // number of positional arguments
  std::vector<Ref> keywords;  // names, in order
  std::vector<GuardInstruction> instructions;
  std::vector<TensorShape> tensors;
  std::vector<FunctionParts> functions;
  std::vector<TypeLookups> types;
  std::vector<NumberGuard> numbers;
  uint32_t places = 0;
  UserNames names;           // for texts
  bool asksOffsets = false;  // the program asks where tensors begin in their memory
  bool asksStrides = false;  // and how they lie there
  // Abstract classes were asked: which classes were registered with one, as a number that moves with each.
  Ref registrations;

  // The places of which the caller wants to know what was found there.
  std::vector<uint32_t> wanted;
  bool wantsAll = true;

  // Fills `found`. False: something does not hold, which failure() tells. What a check remembers for the next one (the
  // memo, versions of types) is a shortcut and no part of what must hold.
  bool check(const CallArguments& call, Found& found) const;
  // Why a check did not hold, in words.
  std::string failure(const Found& found) const;
  size_t size() const { return instructions.size() + types.size(); }
  // The tensors that are arguments of the call, or in one of them.
  struct Argument {
    size_t index;  // among the values of the call
    Path path;
    const TensorShape* shape;
  };
  std::vector<Argument> tensorArguments() const;
  // The numbers, and which number it must be; nullptr: any that may be a size.
  struct Number {
    size_t index;
    Path path;
    PyObject* value;
  };
  std::vector<Number> numberArguments() const;
  // The floats that are arguments of the call, or in one of them, and where.
  struct FloatArgument {
    size_t index;
    Path path;
    uint32_t place;
  };
  std::vector<FloatArgument> floatArguments() const;
  // Where a place is: the same text for the same way there, for programs; and as the user's code has it.
  std::string expression(uint32_t place) const;
  std::string shown(uint32_t place) const;
  std::vector<std::string> texts() const;
  std::string text(const GuardInstruction& instruction) const;
  // All checks and loads that do not hold, but for those that need what another one did not find. The arguments are as
  // many as recorded.
  std::vector<const GuardInstruction*> failing(const CallArguments& call, Found& found) const;
  // Every object that is held, for Python's garbage collector.
  template <typename Visit>
  void eachObject(Visit visit) const {
    for (const Ref& name : keywords) visit(name.get());
    for (const GuardInstruction& at : instructions) visit(at.object.get());
    for (const FunctionParts& parts : functions) {
      visit(parts.defaults.get());
      visit(parts.keywordDefaults.get());
    }
    for (const NumberGuard& each : numbers) each.eachObject(visit);
    for (const TypeLookups& lookups : types) {
      visit(lookups.type.get());
      for (const auto& [name, value] : lookups.names) visit(name.get());
      for (const Ref& value : lookups.kept) visit(value.get());
    }
  }

 private:
  friend class Memo;
  bool holds(const CallArguments& call, Found& found) const;
  bool step(const GuardInstruction& instruction, const CallArguments& call, Found& found) const;
  bool checkTypes(Found& found) const;
  // Each check of an argument of the call, or of what is in one: with the index of the argument and the way there.
  template <typename Visit>
  void eachArgumentCheck(Visit visit) const;
  mutable Memo memo_;
  mutable uint32_t whole_ = 0;  // checks of everything that succeeded
};

// The dict of an instance, or nullptr. Makes it where CPython keeps the attributes elsewhere.
PyObject* instanceDict(PyObject* object);
// Equal, without running Python: numbers, strings and other values that have no inside.
bool sameValue(PyObject* left, PyObject* right);
// Is this a check that what is there is a float, of any value or of one?
bool asksForFloat(const GuardInstruction& check);
// An int that a symbol can stand for.
bool isSize(PyObject* object);
// What a getset or member descriptor of C gives; nothing where it raises.
Ref descriptorValue(PyObject* descriptor, PyObject* owner);
// A number that moves when a class is registered with an abstract one.
Ref registeredClasses();

}  // namespace saker::frontend
