// Code objects as arrays of the loop's instructions, made once for each code object.
#pragma once

#include <Python.h>

#include <span>
#include <vector>

#include "watch/instruction.h"

namespace saker::watch {

// The instructions of `code`, by unit index; nullptr if there is no memory. They live as long as the code object.
const LoopInstruction* decoded(PyCodeObject* code);

// For the decoders of single versions: one instruction of CPython with its prefixes taken together.
struct Unit {
  int opcode = 0;
  int arg = 0;
  int begin = 0;   // index of the first prefix
  int proper = 0;  // index of the opcode
  int next = 0;    // index after the caches
};

// Reads the unit that begins at `index`, with `caches` units behind each opcode.
Unit readUnit(std::span<const unsigned char> bytes, int index, const unsigned char* caches);

// Defined by the decoder of the version that is compiled for: turns the code unit by unit.
extern const unsigned char* const cacheCounts;
LoopInstruction translate(std::span<const unsigned char> bytes, const Unit& unit);

}  // namespace saker::watch
