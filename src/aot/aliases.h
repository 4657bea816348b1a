// What the outputs of a function are to the caller's tensors, to results of the graph, and to each other: read off the
// tensors of a trace, as steps that make them again so that autograd knows them as the same views.
#pragma once

#include <unordered_map>
#include <vector>

#include "aot/joint.h"

namespace saker::aot {

// A leaf that requires grad, as it is written down: asking a view for its history may raise.
bool isLeafWithGrad(const at::Tensor& tensor);

class Aliases {
 public:
  explicit Aliases(tracing::Trace& trace) : trace_(trace) {}

  // A tensor of the caller's, what stands for it, and the value it had before the call.
  void addCaller(size_t number, const at::Tensor& standIn, ir::Value* before);
  // One that sees other memory after the call than before.
  void addMoved(size_t number, const at::Tensor& standIn, const c10::Storage& before);
  // Finds all outputs. Afterwards `results` are the tensors that the graph has to return for them.
  void find(const std::vector<at::Tensor>& outputs);
  // Writes steps and outputs, once it is known how many results the graph has.
  void finish(Joint& joint) const;
  // Are outputs nothing but results, tensors of the caller's and views of both, made after all writes?
  bool hasOnlyViews() const;
  // Is the tensor's geometry changed under autograd's eyes?
  bool isReshaped(size_t caller) const;

  std::vector<at::Tensor> results;

 private:
  struct Object {
    at::Tensor tensor;
    size_t number;
    std::vector<const ir::Value*> values;  // that were its value, the last one now
  };
  struct Made {
    Step step;
    uint32_t time = 0;  // when the program did it
    bool early = false;
  };

  void noteFresh(const at::Tensor& output);
  size_t numberOf(const at::Tensor& tensor);
  size_t numberOfFresh(const at::Tensor& tensor);
  size_t follow(const at::Tensor& tensor, const std::vector<Object*>& from);
  size_t makeStep(const ir::Node* node, size_t result, size_t source);
  void makeEarly(size_t number);
  void markOwnNodes();
  size_t rootOf(size_t number) const;
  bool isStale(const at::Tensor& tensor) const;
  Object* objectOf(const at::Tensor& tensor);
  Object& remember(const at::Tensor& tensor, size_t number);
  size_t addResult(const at::Tensor& tensor);

  tracing::Trace& trace_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::unordered_map<const c10::TensorImpl*, Object*> byImpl_;
  std::unordered_map<const c10::StorageImpl*, std::vector<Object*>> callersOf_;
  std::unordered_map<const c10::StorageImpl*, std::vector<at::Tensor>> freshOf_;  // bases, by their memory
  std::vector<Made> made_;
  std::vector<size_t> maker_;  // by number of a made tensor: the step
  std::vector<std::optional<size_t>> outputs_;
  struct Moved {
    size_t caller;
    at::Tensor memory;  // what it sees
    size_t number = 0;
  };
  std::vector<Moved> moved_;
  std::vector<const c10::StorageImpl*> left_;  // the memory they saw before
  std::vector<size_t> leaves_;
};

}  // namespace saker::aot
