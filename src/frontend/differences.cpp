#include "frontend/differences.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "frontend/kinds.h"
#include "frontend/operations.h"
#include "frontend/user_names.h"
#include "host/kept_error.h"
#include "host/objects.h"

namespace saker::frontend {

namespace {

constexpr size_t kTold = 4;  // differences of one call, in words

std::string differs(const std::string& where, const std::string& expected, const std::string& found) {
  return where + ": expected " + expected + ", found " + found;
}

std::string boolText(bool value) { return value ? "True" : "False"; }

std::string dimsText(c10::IntArrayRef values) {
  std::string out = "(";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + ")";
}

// All that is another one than before.
void ofTensor(const std::string& where, const TensorShape& shape, const at::Tensor& now,
              std::vector<std::string>& out) {
  size_t before = out.size();
  if (now.scalar_type() != shape.dtype) {
    out.push_back(differs(where + ".dtype", c10::toString(shape.dtype), c10::toString(now.scalar_type())));
  }
  if (now.device() != shape.device) out.push_back(differs(where + ".device", shape.device.str(), now.device().str()));
  if (now.requires_grad() != shape.requiresGrad) {
    out.push_back(differs(where + ".requires_grad", boolText(shape.requiresGrad), boolText(now.requires_grad())));
  }
  if (now.is_leaf() != shape.leaf) {
    out.push_back(differs(where + ".is_leaf", boolText(shape.leaf), boolText(now.is_leaf())));
  }
  if (now.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || now.is_nested()) {
    out.push_back(differs(where, "a plain tensor", "one of another kind"));
    return;
  }
  if (now.dim() != static_cast<int64_t>(shape.sizes.size())) {
    out.push_back(differs(where + ".dim()", std::to_string(shape.sizes.size()), std::to_string(now.dim())));
    return;
  }
  size_t next = 0;
  bool sameSizes = true;
  for (size_t i = 0; i < shape.sizes.size(); ++i) {
    bool any = next < shape.dynamic.size() && shape.dynamic[next] == i;
    next += any;
    int64_t size = now.sizes()[i];
    if (any ? size >= 2 : size == shape.sizes[i]) continue;
    sameSizes = false;
    std::string expected = any ? "at least 2" : std::to_string(shape.sizes[i]);
    out.push_back(differs(where + ".size(" + std::to_string(i) + ")", expected, std::to_string(size)));
  }
  if (sameSizes && shape.dynamic.empty() && now.layout() == c10::kStrided &&
      now.strides() != c10::IntArrayRef(shape.strides)) {
    out.push_back(differs(where + ".stride()", dimsText(shape.strides), dimsText(now.strides())));
  }
  if (!shape.anyOffset && now.layout() == c10::kStrided && now.storage_offset() != shape.offset) {
    out.push_back(
        differs(where + ".storage_offset()", std::to_string(shape.offset), std::to_string(now.storage_offset())));
  }
  if (out.size() == before) out.push_back(differs(where, "a tensor of the same kind", "one of another"));
}

std::string keysFrom(PyObject* keys, Py_ssize_t first) {
  constexpr Py_ssize_t kMost = 6;
  std::string out = first > 0 ? "[..." : "[";
  for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(keys); ++i) {
    if (i > 0) out += ", ";
    if (i == first + kMost) return out + "...]";
    out += inWords(PyTuple_GET_ITEM(keys, i));
  }
  return out + "]";
}

// Of many keys, those from the last one on that both have in common.
std::string keysDiffer(const std::string& where, PyObject* expected, PyObject* found) {
  constexpr Py_ssize_t kFew = 6;
  Py_ssize_t length = std::min(PyTuple_GET_SIZE(expected), PyTuple_GET_SIZE(found)), common = 0;
  while (common < length && inWords(PyTuple_GET_ITEM(expected, common)) == inWords(PyTuple_GET_ITEM(found, common))) {
    ++common;
  }
  Py_ssize_t first =
      std::max(PyTuple_GET_SIZE(expected), PyTuple_GET_SIZE(found)) > kFew && common > 2 ? common - 1 : 0;
  return differs(where, keysFrom(expected, first), keysFrom(found, first));
}

void tell(const Guards& guards, const GuardInstruction& at, PyObject* now, std::vector<std::string>& out) {
  std::string where = guards.shown(at.place);
  switch (at.op) {
    case GuardOp::IsType:
      out.push_back(differs("type(" + where + ")", shownName(at.object.get()),
                            shownName(reinterpret_cast<PyObject*>(Py_TYPE(now)))));
      return;
    case GuardOp::Is:
    case GuardOp::Equals:
      if (!isAtom(at.object.get()) && !isNamed(at.object.get())) break;
      out.push_back(differs(where, inWords(at.object.get()), inWords(now)));
      return;
    case GuardOp::Number:
      out.push_back(differs(where, "an int above 1", inWords(now)));
      return;
    case GuardOp::Length: {
      Py_ssize_t length = lengthOf(now);
      if (length < 0) break;
      out.push_back(differs("len(" + where + ")", std::to_string(at.number), std::to_string(length)));
      return;
    }
    case GuardOp::Keys: {
      Ref keys = PyDict_Check(now) ? keysInOrder(now) : Ref();
      if (!keys) break;
      out.push_back(keysDiffer("list(" + where + ")", at.object.get(), keys.get()));
      return;
    }
    case GuardOp::Tensor:
      return ofTensor(where, guards.tensors[static_cast<size_t>(at.number)], tensorOf(now), out);
    default:
      if (at.op > GuardOp::ContextValue) break;
      out.push_back(where + " is not there any more");
      return;
  }
  out.push_back("this does not hold any more: " + guards.text(at));
}

}  // namespace

std::string Differences::text() const {
  std::string out;
  for (const std::string& each : texts) out += (out.empty() ? "" : "; ") + each;
  return more > 0 ? out + "; and " + std::to_string(more) + " more" : out;
}

Differences differencesOf(const Guards& guards, const CallArguments& call) {
  KeptError kept;
  Differences out;
  size_t named = call.names ? static_cast<size_t>(PyTuple_GET_SIZE(call.names)) : 0;
  if (call.positional != guards.positional) {
    out.texts.push_back(differs("the number of positional arguments", std::to_string(guards.positional),
                                std::to_string(call.positional)));
  }
  Ref expected = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(guards.keywords.size())));
  for (size_t i = 0; i < guards.keywords.size(); ++i) {
    PyTuple_SET_ITEM(expected.get(), static_cast<Py_ssize_t>(i), Py_NewRef(guards.keywords[i].get()));
  }
  bool sameNames = named == guards.keywords.size();
  for (size_t i = 0; sameNames && i < named; ++i) {
    sameNames = sameValue(PyTuple_GET_ITEM(call.names, static_cast<Py_ssize_t>(i)), guards.keywords[i].get());
  }
  if (!sameNames) {
    Ref none = Ref::steal(PyTuple_New(0));
    out.texts.push_back(keysDiffer("the keyword arguments", expected.get(), named ? call.names : none.get()));
  }
  constexpr size_t kFar = 1000;
  out.distance = out.texts.size() * kFar;
  if (!out.texts.empty()) return out;
  Found found;
  for (const GuardInstruction* failing : guards.failing(call, found)) {
    size_t before = out.texts.size();
    if (before < kTold) tell(guards, *failing, found[failing->place], out.texts);
    out.distance += std::max<size_t>(out.texts.size() - before, 1);
    out.more += out.texts.size() == before;
  }
  if (out.distance == 0 && !found.why.empty()) {
    out.distance = 1;
    out.texts.push_back(found.why);
  }
  return out;
}

}  // namespace saker::frontend
