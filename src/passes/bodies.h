// Changing nodes with bodies: branches and loops (ops/control_flow.h).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace saker::passes {

// Does a node of the graph itself have bodies?
bool hasBodies(const ir::Graph& graph);
// The same, calls aside: one whose bodies run often, or not at all.
bool hasBranchesOrLoops(const ir::Graph& graph);

// Is the value defined in a body of the node, or in a body in one?
bool isInside(const ir::Value* value, const ir::Node* node);

// The values from outside that a body uses, itself or in bodies in it: each once, in the order of their first use.
std::vector<ir::Value*> outerValues(const ir::Region& body);

// The bodies of a node as graphs of their own: their parameters are theirs and then `outer`, the values from outside
// that any of them uses, in the order of their first use. The node need not be in the graph.
std::vector<std::unique_ptr<ir::Graph>> closed(const ir::Node& node, const ir::Graph& graph,
                                               std::vector<ir::Value*>& outer);

// Of the body of a loop whose first parameters and results are what it carries: completes `carried`, those that are
// read behind the loop, by those that lead to them in later steps, or to values that are marked in `needed` (by
// number); marks there whatever they are computed from.
void markCarried(const ir::Region& body, std::vector<bool>& carried, std::vector<bool>& needed);

// Erases what nothing reads in a body, and what nothing sees: operators that may raise stay.
void eraseUnread(ir::Graph& graph, ir::Region* body);

// Puts a node of the same operator and origin in the place of `node`, which is erased: with these arguments and
// results, and with its bodies, of which the parameters with a `false` in `kept` (by place; none: all stay) are left
// out: nothing may use them. Result i takes over the uses and the name of result `from[i]` of the old node, where that
// is one.
ir::Node* rebuild(ir::Graph& graph, ir::Node* node, std::span<const ir::Arg> args,
                  std::span<const ir::Type* const> results, std::span<const size_t> from,
                  const std::vector<bool>& kept = {});

// The tensor that a value is: operators that write return the tensor they wrote.
ir::Value* sameTensor(ir::Value* value);

// Uses values in the place of what is bound to be the same: a branch's parameters, what both branches return, what a
// loop passes on from trip to trip. Of one node, or of all in a region and in bodies in it.
void forwardInvariants(ir::Graph& graph, ir::Node* node);
void forwardInvariants(ir::Graph& graph, ir::Region* region);

// Calls `f` with each value that `value` may be or lie in the memory of: outside of the node the first one, inside of
// it fresh results and parameters.
void eachBase(ir::Value* value, const ir::Node* node, const std::function<void(ir::Value*)>& f);

}  // namespace saker::passes
