// Functions that saker.allow() declares: what they give depends on their arguments alone, and they change nothing. A
// replay calls them again in place of following what they do.
#pragma once

#include <ATen/core/ivalue.h>
#include <Python.h>

#include <vector>

namespace saker::frontend {

void allow(PyObject* callable);
// Is it one of them, or a method of one bound to an object?
bool isAllowed(PyObject* callable);
// Do calls of such functions take part in a program that holds these objects?
bool callsAllowed(const std::vector<c10::IValue>& objects);

}  // namespace saker::frontend
