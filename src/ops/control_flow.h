// Branches, loops and calls: the operators of the table that have bodies.
//
//   results... = saker::call(operands...) { (operands...) { ... return results... } }
//   results... = saker::if(condition, operands...) { (operands...) { ... return results... }, (operands...) { ... } }
//   results... = saker::loop(trips, condition, carried...) { (i, carried...) { ... return condition, carried... } }
//
// Everything is passed by reference: a parameter is the operand, a result is what the body returned, be it a parameter
// or a value from outside. A loop runs while its condition holds and, where trips are given, less than that often; with
// no trip its results are the values it was given. A condition is a bool or a bool tensor with one element. A call runs
// its body once: equal bodies of several calls are worked on once (passes/regions.h).
//
//   carried... = saker::while([carried...], [closed...]) { (carried..., closed...) { ... return condition },
//                                                          (carried..., closed...) { ... return carried... } }
//   carried..., stacked... = saker::scan(reverse, [carried...], [xs...], [closed...])
//                                { (carried..., slices..., closed...) { ... return carried..., rows... } }
//
// These two are what programs call by PyTorch's names. Their bodies write nothing that is around them, and their
// results are memory of their own. A scan takes slices along the first dimension of all xs, and puts rows together
// along a new one; `reverse`: from the last one on, and each row stays where its slices were. A while loop may have one
// more result, its history: the number of steps, in memory that keeps what was carried before each step, and what the
// step returns behind that: values which its derivative reads.
//
//   flowing... = saker::while_backward([carried...], [closed...], [flowing...], [history])
//                    { condition, step, (kept..., flowing..., carried..., closed...) { ... return flowing... } }
//
// Goes through the steps of a while loop from the last one to the first: `carried` is what each was given, `kept` what
// it gave besides, or nothing. Without a history, or with one that was copied, the loop is run again to find that.
#pragma once

#include <span>

#include "ir/graph.h"

namespace saker::ops {

bool isCall(const ir::Node& node);
bool isIf(const ir::Node& node);
bool isLoop(const ir::Node& node);
bool isWhile(const ir::Node& node);
bool isWhileBackward(const ir::Node& node);
bool isScan(const ir::Node& node);
// Of a way back: how many parameters of its last body are values that steps kept.
size_t keptParameters(const ir::Node& node);

// How the values around a body and those in it are connected: these are the same thing at some time of the run.
// F: void(const ir::Arg& from, ir::Value* to), where `to` is a parameter of a body or a result of the node.
// Operators whose bodies the table does not know have no such connections.
template <typename F>
void eachEdge(const ir::Node& node, F&& f);

// Of a node with bodies that the table knows: the operands that become parameters.
std::span<const ir::Arg> passedArguments(const ir::Node& node);
// The parameters of a body that they become: all but a loop's counter.
std::span<ir::Value* const> passedParameters(const ir::Region& body);
// What a body returns for the results of its node: all but a loop's condition.
std::span<const ir::Arg> returnedArguments(const ir::Region& body);
constexpr size_t kLoopTrips = 0, kLoopCondition = 1, kIfCondition = 0;
constexpr size_t kWhileCarried = 0, kWhileClosed = 1, kWhileFlowing = 2, kWhileHistory = 3;
constexpr size_t kScanReverse = 0, kScanCarried = 1, kScanSliced = 2, kScanClosed = 3;

template <typename F>
void eachEdge(const ir::Node& node, F&& f) {
  bool loops = isLoop(node);
  if (!loops && !isIf(node) && !isCall(node)) return;
  std::span<const ir::Arg> given = passedArguments(node);
  for (const ir::Region* body : node.regions()) {
    std::span<ir::Value* const> parameters = passedParameters(*body);
    std::span<const ir::Arg> returned = returnedArguments(*body);
    for (size_t i = 0; i < parameters.size(); ++i) f(given[i], parameters[i]);
    for (size_t i = 0; i < returned.size(); ++i) {
      f(returned[i], node.result(i));
      if (loops) f(returned[i], parameters[i]);
    }
  }
  for (size_t i = 0; loops && i < given.size(); ++i) f(given[i], node.result(i));
}

}  // namespace saker::ops
