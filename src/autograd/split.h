// Makes the two graphs of a cut from the values that are saved between them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "autograd/joint_graph.h"

namespace saker::autograd {

// `saved` are primals and results of nodes that are not in the backward, at most once each; from them and the tangents
// everything the backward needs can be computed. Numbers that only sizes need are added.
std::variant<Cut, std::string> split(const JointGraph& joint, std::vector<ir::Value*> saved);

}  // namespace saker::autograd
