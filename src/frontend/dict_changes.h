// Where CPython tells of writes to dicts (3.12), a count of them: as long as it stands still, so do the versions of all
// dicts that are watched.
#pragma once

#include <Python.h>

#include <cstdint>

namespace saker::frontend {

// False: this Python does not tell, or has no place left for one who wants to know.
bool watchDict(PyObject* dict);
// Writes to watched dicts so far, and those that went away.
uint64_t dictChanges();

}  // namespace saker::frontend
