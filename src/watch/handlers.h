// The handlers of all instructions that do more than move values between locals and the stack, by family.
#pragma once

#include "watch/machine.h"

namespace saker::watch {

// names.cpp
Flow loadGlobal(Machine& m);
Flow storeGlobal(Machine& m);
Flow deleteGlobal(Machine& m);
Flow loadName(Machine& m);
Flow storeName(Machine& m);
Flow deleteName(Machine& m);
Flow loadNamespace(Machine& m);
Flow loadFromDictOrGlobals(Machine& m);
Flow loadBuildClass(Machine& m);
Flow setupAnnotations(Machine& m);

// cells.cpp
Flow unboundLocal(Machine& m);
Flow makeCell(Machine& m);
Flow copyFreeVars(Machine& m);
Flow loadCell(Machine& m);
Flow storeCell(Machine& m);
Flow deleteCell(Machine& m);
Flow loadClassCell(Machine& m);
Flow loadFromDictOrCell(Machine& m);

// attributes.cpp
Flow loadAttribute(Machine& m);
Flow loadMethod(Machine& m);
Flow loadSuper(Machine& m);
Flow storeAttribute(Machine& m);
Flow deleteAttribute(Machine& m);

// operators.cpp
Flow unaryNegative(Machine& m);
Flow unaryPositive(Machine& m);
Flow unaryInvert(Machine& m);
Flow unaryNot(Machine& m);
Flow binaryOp(Machine& m);
Flow compare(Machine& m);
Flow contains(Machine& m);
Flow identity(Machine& m);
Flow formatValue(Machine& m);

// containers.cpp
Flow loadItem(Machine& m);
Flow storeItem(Machine& m);
Flow deleteItem(Machine& m);
Flow loadSlice(Machine& m);
Flow storeSlice(Machine& m);
Flow listAppend(Machine& m);
Flow setAdd(Machine& m);
Flow mapAdd(Machine& m);
Flow listExtend(Machine& m);
Flow setUpdate(Machine& m);
Flow dictUpdate(Machine& m);
Flow dictMerge(Machine& m);

// building.cpp
Flow buildTuple(Machine& m);
Flow buildList(Machine& m);
Flow buildSet(Machine& m);
Flow buildMap(Machine& m);
Flow buildConstKeyMap(Machine& m);
Flow buildString(Machine& m);
Flow buildSlice(Machine& m);
Flow listToTuple(Machine& m);

// unpacking.cpp
Flow unpack(Machine& m);
Flow unpackStarred(Machine& m);

// jumps.cpp
Flow jumpIfTrue(Machine& m);
Flow jumpIfFalse(Machine& m);
Flow jumpIfNone(Machine& m);
Flow jumpIfNotNone(Machine& m);
Flow jumpIfTrueOrPop(Machine& m);
Flow jumpIfFalseOrPop(Machine& m);

// iteration.cpp
Flow getIter(Machine& m);
Flow forIter(Machine& m);

// generators.cpp
Flow getYieldFromIter(Machine& m);
Flow send(Machine& m);
Flow cleanupThrow(Machine& m);
Flow stopIterationError(Machine& m);

// async.cpp
Flow getAwaitable(Machine& m);
Flow getAsyncIter(Machine& m);
Flow getAsyncNext(Machine& m);
Flow endAsyncFor(Machine& m);
Flow wrapAsyncValue(Machine& m);

// calls.cpp
Flow call(Machine& m);
Flow callSpread(Machine& m);
void keywordsError(PyObject* function, PyObject* keywords);  // what CPython says of a bad f(**keywords)
Flow makeFunction(Machine& m);
Flow printExpression(Machine& m);

// imports.cpp
Flow importName(Machine& m);
Flow importFrom(Machine& m);
Flow importStar(Machine& m);

// contexts.cpp
Flow enterWith(Machine& m);
Flow enterAsyncWith(Machine& m);
Flow exitWith(Machine& m);

// exceptions.cpp
Flow pushException(Machine& m);
Flow popException(Machine& m);
Flow matchException(Machine& m);
bool validClasses(PyObject* classes);  // of an except clause; else a TypeError is set
Flow raise(Machine& m);
Flow reraise(Machine& m);

// groups.cpp
Flow matchExceptionGroup(Machine& m);
Flow prepareReraise(Machine& m);

// matching.cpp
Flow getLength(Machine& m);
Flow matchMapping(Machine& m);
Flow matchSequence(Machine& m);
Flow matchKeys(Machine& m);
Flow matchClass(Machine& m);

// unwind.cpp: the exception that is set goes to its handler in this frame; false if there is none.
bool unwind(Machine& m);

}  // namespace saker::watch
