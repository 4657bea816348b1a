// How objects that a call made are made again: what it returned, and what it put into outside objects.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/recorder.h"

namespace saker::frontend {

struct Recipe {
  enum class Kind : uint8_t {
    Constant,  // `object`
    Place,     // what was found at a place
    Output,    // a result of the graph
    List,
    Tuple,  // and tuple subclasses: `object` is the class; `index`: one above the recipe of the class, if it is made
    Dict,   // keys and values in turn; of the class `object`
    Set,
    FrozenSet,
    Deque,     // `index`: one above the recipe of its limit
    Instance,  // of the class `object`: names and values in turn
    Cell,
    Method,    // function, self
    Function,  // `object` is its code; parts: globals, qualname, defaults, keyword defaults, closure, name, module, doc
    Slice,
    Reduced,    // of an iterator: a callable, its arguments, and a state or None
    Array,      // of numpy's: over the memory of a result of the graph; `object`: it cannot be written
    Scalar,     // of numpy's: the number in a result of the graph
    Float,      // the number in a result of the graph
    Int,        // the same
    Generator,  // of random numbers: made where the numbers are drawn, at a place
    Handle,     // of a hook that an operator of the graph has registered: its number
    Called,     // a callable, its arguments, and keywords
    Exception,  // of the class `object`: its arguments, cause, context, traceback, and whether the context is hidden
    Traceback,  // `object`: code, globals, instruction and line of each frame, from the outside
  };
  Kind kind;
  Ref object;
  uint32_t index = 0;
  std::vector<uint32_t> parts;
  std::vector<uint32_t> attributes;  // names and values in turn, besides what it holds
};

// Reads recipes off the objects as they are at the end of a call.
class Cookbook {
 public:
  // `made`: has an operator of the call made this tensor?
  using Made = std::function<bool(const at::Tensor& tensor)>;
  Cookbook(const Recorder& recorder, Made made) : recorder_(recorder), made_(std::move(made)) {}

  // The number of a recipe; nothing where there is none, and refusal() says why.
  std::optional<uint32_t> write(PyObject* object);
  const std::optional<Stop>& refusal() const { return refusal_; }

  std::vector<Recipe> recipes;
  std::vector<at::Tensor> outputs;

 private:
  std::optional<uint32_t> add(PyObject* object, Recipe recipe);
  bool part(uint32_t recipe, PyObject* object);
  std::optional<uint32_t> instance(PyObject* object);
  std::optional<uint32_t> function(PyObject* object);
  std::optional<uint32_t> iterator(PyObject* object);
  std::optional<uint32_t> partial(PyObject* object);
  std::optional<uint32_t> calledWith(PyObject* object, PyObject* callable, const Ref& args, const Ref& keywords);
  std::optional<uint32_t> exception(PyObject* object);
  std::optional<uint32_t> traceback(PyObject* object);
  bool attributesOf(uint32_t recipe, PyObject* object);
  std::optional<uint32_t> refuse(Stop why);

  const Recorder& recorder_;
  Made made_;
  std::unordered_map<PyObject*, uint32_t> known_;
  std::unordered_map<const c10::TensorImpl*, uint32_t> tensors_;
  std::vector<Ref> kept_;
  std::optional<Stop> refusal_;
};

// Makes the objects of a cookbook: once each, so that what was one object is one.
class Kitchen {
 public:
  Kitchen(const std::vector<Recipe>& recipes, const std::vector<PyObject*>& places,
          const std::vector<at::Tensor>& outputs)
      : recipes_(recipes), places_(places), outputs_(outputs), made_(recipes.size()) {}

  // Borrowed; nullptr with an error set.
  PyObject* make(uint32_t recipe);

 private:
  bool fill(const Recipe& recipe, PyObject* object);

  const std::vector<Recipe>& recipes_;
  const std::vector<PyObject*>& places_;
  const std::vector<at::Tensor>& outputs_;
  std::vector<Ref> made_;
};

}  // namespace saker::frontend
