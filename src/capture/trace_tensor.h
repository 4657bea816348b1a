// Tensors without data. What is lazy is the storage: sizes, strides, offset, dtype and version are exact from the
// moment an operator is recorded. A fresh result owns a TraceStorage, its views share it; a flush fills the storage in
// place, and every reference to it, wherever it is held, then sees data.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "aten/trace_key.h"
#include "ir/graph.h"

namespace saker::tracing {

class Trace;
using aten::kTraceKey;
using aten::kTraceKeys;
using aten::RunForReal;

// An error that is raised each time something is used; who made it knows how to raise it again.
struct Failure {
  std::exception_ptr error;
  void (*rethrow)(const std::exception_ptr& error) = nullptr;
};

// A storage whose bytes are not there yet. Access to them throws; the text says why.
class TraceStorage final : public c10::StorageImpl {
 public:
  TraceStorage(std::shared_ptr<Trace> trace, ir::Value* root, c10::SymInt bytes, c10::Device device,
               c10::Allocator* allocator);
  ~TraceStorage() override;
  void release_resources() override;

  // The result that will fill it; nullptr once nothing is pending.
  ir::Value* root() const { return root_; }
  const std::shared_ptr<Trace>& trace() const { return trace_; }

  // Takes the bytes of `from`, which is left empty if nobody else holds it.
  void fill(const c10::Storage& from);
  // Nothing will ever fill it: whoever uses it gets this error.
  void poison(Failure why, const std::string& text);
  void raiseFailure() const {
    if (failure_.error) failure_.rethrow(failure_.error);
  }
  // Has a recorded operator written to it since it was made?
  bool written() const { return written_; }
  void noteWrite(bool written = true) { written_ = written; }
  // Does it stand for zeros without memory (zero_tensors.h)?
  bool isZero() const { return zero_; }
  void setZero() { zero_ = true; }

 private:
  void leave();

  std::shared_ptr<Trace> trace_;
  ir::Value* root_;
  Failure failure_;
  bool written_ = false, zero_ = false;
};

// The storage of a tensor, if it was made by a trace: pending, filled or failed.
TraceStorage* traceStorage(const c10::TensorImpl& tensor);
// nullptr: an ordinary storage, or one that is filled.
TraceStorage* pendingStorage(const c10::TensorImpl& tensor);

// A tensor recorded in a trace. After a flush it is as good as a plain TensorImpl: the key is gone from its key set.
class TraceTensor final : public c10::TensorImpl {
 public:
  TraceTensor(std::shared_ptr<Trace> trace, ir::Value* value, c10::Storage&& storage, c10::DispatchKeySet keys,
              caffe2::TypeMeta dtype);
  ~TraceTensor() override;

  ir::Value* value() const { return value_; }
  void setValue(ir::Value* value) { value_ = value; }
  // Is it `.data` of the tensor that its value is of? Writes to it are not counted there.
  bool hidesWrites() const { return hidesWrites_; }
  void setHidesWrites(bool hides) { hidesWrites_ = hides; }
  const std::shared_ptr<Trace>& trace() const { return trace_; }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allowChange) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allowChange) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& from) override;
  void release_resources() override;
  const char* tensorimpl_type_name() const override { return "saker::TraceTensor"; }

  // C++ code that asks for numbers where there are symbols gets those of the run that is traced, under a guard.
  int64_t size_custom(int64_t dim) const override;
  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  int64_t numel_custom() const override;
  int64_t storage_offset_custom() const override;

 private:
  friend class Trace;
  template <typename Version>
  c10::intrusive_ptr<c10::TensorImpl> copy(Version&& version, bool allowChange) const;
  void join();
  void leave();

  std::shared_ptr<Trace> trace_;  // nullptr: nothing pending
  ir::Value* value_;
  bool hidesWrites_ = false;
  mutable std::unique_ptr<std::vector<int64_t>> sizes_, strides_;  // of symbols, as numbers
  TraceTensor* next_ = nullptr;                                    // the trace's list of living tensors
  TraceTensor* previous_ = nullptr;
};

// The tensor as one of this trace's, if it still is one.
TraceTensor* traceTensor(const c10::TensorImpl& tensor);
// Takes the trace key off a tensor, whatever its class.
void dropTraceKey(c10::TensorImpl& tensor);

}  // namespace saker::tracing
