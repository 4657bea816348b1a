// One call of a segment. All that belongs to the call and not to the recording is here: what the guards found, numbers
// that were drawn, whether the tensor program is running.
#pragma once

#include <torch/csrc/autograd/edge.h>

#include <string>
#include <utility>
#include <vector>

#include "frontend/segment.h"
#include "frontend/turns.h"

namespace saker::frontend {

class Replay {
 public:
  // `found` is room for what guards find, which is used again from call to call.
  Replay(const Segment& segment, Found& found) : segment_(segment), found_(found) {}
  ~Replay() { found_.made.clear(); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // True: everything holds. `guardsOnly`: the program is going to run itself, and does the rest.
  bool fits(const Ambient& now, const CallArguments& call, bool guardsOnly = false);
  const Segment& segment() const { return segment_; }
  // The inputs of the tensor program.
  std::vector<at::Tensor> inputs() const;

  // The turn that the call has, which ends where its tensor program does.
  void setTurn(Turns::Alone* turn) { turn_ = turn; }
  // A new reference, or nullptr with an error set.
  PyObject* run();
  // Has run() failed while the tensor program ran?
  bool failedInGraph() const { return inGraph_; }
  // PyTorch's generator before the run; undefined where it will not be asked for.
  at::Tensor generatorBefore() const;
  // The run failed in the graph. True: all is as before it, and the call may begin again.
  bool takeBack(const at::Tensor& generator);
  // The run failed in the graph, and what it has done stays: so do the effects that come before.
  void doEffectsBefore();
  // The same of numbers of Python's: those that come after the operator that failed have not been drawn.
  void drawOnlyBefore();

 private:
  PyObject* runGraph();  // throws
  // The same where the call is nothing but one operator. Nothing, and no error: it is to go the other way.
  PyObject* runSingle();
  bool liesAsRecorded(const std::vector<at::Tensor>& tensors) const;
  // False: with an error set.
  bool redo(const DoneAgain& effect, Kitchen& kitchen) const;
  // Draws what the call drew. False, and as if nothing was drawn: something other than a float is another one.
  bool draw();
  void putBackStates();
  void keepHistories();
  void putBackHistories();

  const Segment& segment_;
  Found& found_;
  Turns::Alone* turn_ = nullptr;
  bool inGraph_ = false;  // the tensor program runs, or has failed
  // What autograd knew of a tensor that the call detaches, say.
  struct History {
    at::Tensor tensor;
    bool requiresGrad;
    torch::autograd::Edge edge;
  };
  std::vector<History> histories_;
  std::vector<Ref> drawn_;
  std::vector<std::pair<Ref, Ref>> states_;  // generators of Python's from outside, before they were drawn from
};

}  // namespace saker::frontend
