// Recording a program by a tape, by a capture or in a deferred block, so that one test serves all of them.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "capture/body.h"
#include "capture/capture.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "ops/control_flow.h"
#include "ops/operator.h"
#include "runtime/program.h"

namespace saker::tracing::testing {

using Tensors = std::vector<at::Tensor>;

enum class By { Tape, Capture };

inline std::ostream& operator<<(std::ostream& out, By by) { return out << (by == By::Tape ? "Tape" : "Capture"); }

// What a program is given: the recording it is recorded in, and its arguments as they are there.
using Function = std::function<Tensors(Recording& outer, const Tensors& arguments)>;

// A tensor for a result of a node with bodies. On a tape such a node has run by then, and gave `real`.
inline at::Tensor resultOf(Recording& outer, ir::Node* node, size_t i, const at::Tensor& real) {
  if (auto* trace = dynamic_cast<Trace*>(&outer)) return trace->makeTensor(node->result(i), nullptr);
  static_cast<Tape&>(outer).gave(real, node->result(i));
  return real;
}

inline void expectValid(const ir::Graph& graph) {
  std::vector<ir::Diagnostic> found = ir::verify(graph, 8);
  for (const ir::Diagnostic& each : found) ADD_FAILURE() << each.message << "\n" << ir::print(graph);
}

inline std::shared_ptr<runtime::Program> recordProgram(By by, const Function& function, const Tensors& arguments) {
  std::shared_ptr<runtime::Program> program;
  if (by == By::Tape) {
    Tape tape{Host{}};
    Tensors results;
    {
      TapeScope on(&tape);
      for (const at::Tensor& argument : arguments) tape.meet(argument);
      results = function(tape, arguments);
    }
    EXPECT_FALSE(tape.spoiled()) << "the tape is spoiled";
    program = tape.finish(results);
  } else {
    Capture capture(Host{}, arguments);
    std::vector<c10::IValue> results;
    for (at::Tensor& result : function(capture.trace(), capture.arguments())) results.emplace_back(std::move(result));
    program = capture.finish(results);
  }
  expectValid(*program->graph);
  return program;
}

inline Tensors runProgram(const runtime::Program& program, const Tensors& arguments) {
  Tensors results;
  for (const c10::IValue& value : runtime::run(program, arguments)) results.push_back(value.toTensor());
  return results;
}

inline void expectEqual(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].sizes() == expected[i].sizes()) << "result " << i;
    EXPECT_TRUE(found[i].equal(expected[i])) << "result " << i << " is\n" << found[i] << "\nnot\n" << expected[i];
  }
}

inline std::string textOf(const Recording& recording) { return ir::print(recording.graph(), {.locations = true}); }

}  // namespace saker::tracing::testing
