// How changes of dicts are noticed without comparing what they hold: by the version of one, and, where CPython tells of
// writes (3.12), by a count of writes to all that are watched. While the count stands still, so do the versions of
// these.
#pragma once

#include <Python.h>

#include <cstdint>

namespace saker::watch {

// A number that moves with every change of a dict.
const uint64_t* versionOf(PyObject* dict);
// False: this Python does not tell, or has no place left for one who wants to know.
bool watchDict(PyObject* dict);
// Writes to watched dicts so far, and those that went away.
uint64_t dictChanges();

}  // namespace saker::watch
