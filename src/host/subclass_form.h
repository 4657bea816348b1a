// Tensor subclasses that are made of other tensors (classes with __tensor_flatten__ and __tensor_unflatten__): taking
// one apart, and making one of such tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "watch/ref.h"

namespace saker {

// Is this the class of such tensors?
bool isWrapperClass(PyTypeObject* type);
bool isWrapper(const at::Tensor& tensor);

struct Form;
using FormPtr = std::shared_ptr<const Form>;  // takes the interpreter's lock where it frees one

// How a tensor is made of others.
struct Form {
  struct Part {
    Ref name;
    FormPtr form;  // nullptr: a plain tensor
  };
  Ref kind;  // its class
  std::vector<Part> parts;
  std::vector<std::pair<Ref, Ref>> objects;  // by name: what is no tensor among the parts, like the mesh of a DTensor
  Ref context;                               // what the class needs besides
  std::vector<c10::SymInt> size, stride;
  size_t plain = 0;                      // tensors at the bottom
  mutable Ref sizeObject, strideObject;  // the same for Python, made when first needed
};

// nullptr: it is a plain tensor. `inner`, if given, gets the tensors at the bottom. These and what follows run code of
// the class, and throw its errors; the interpreter's lock is held.
FormPtr formOf(PyObject* tensor, std::vector<at::Tensor>* inner = nullptr);
FormPtr formOf(const at::Tensor& tensor, std::vector<at::Tensor>* inner = nullptr);
// A tensor of this form, of `form.plain` tensors.
at::Tensor build(const Form& form, std::span<const at::Tensor> inner);

bool same(const Form* a, const Form* b);
bool sameButSizes(const Form* a, const Form* b);
uint64_t hashOf(const Form& form);
// "a TwoTensor of a TwoTensor", for errors.
std::string describe(const Form* form);

}  // namespace saker
