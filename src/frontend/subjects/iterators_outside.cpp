#include "frontend/iterators.h"
#include "frontend/subjects/subjects.h"
#include "watch/frame.h"

namespace saker::frontend {

bool OutsideIterators::consumes(PyObject* iterator) {
  uint32_t place = placeOf(iterator);
  if (place == kInside || consuming_.contains(iterator)) return true;
  bool known = PyGen_CheckExact(iterator) || iterators::layoutOf(Py_TYPE(iterator));
  if (speculative() || !known) return stop(Why::EarlierIterator);
  consuming_.insert(iterator);
  effects().write(iterator, nullptr);  // it is another one than all that are only read
  return PyGen_CheckExact(iterator) ? consumesGenerator(iterator, place) : consumesBuiltin(iterator, place);
}

bool OutsideIterators::consumesGenerator(PyObject* generator, uint32_t place) {
  SakerUnbegun found;
  if (!saker_generator_unbegun(generator, &found)) return stop(Why::BegunGenerator);
  Ref parts = Ref::steal(PyTuple_Pack(3, found.code, found.globals, found.builtins));
  checkIs(GuardOp::Unbegun, place, parts.get());
  for (int i = 0; i < found.code->co_nlocalsplus; ++i) {
    if (found.slots[i]) read(GuardOp::Local, place, nullptr, i, found.slots[i]);
  }
  functions_.insert(found.function);
  consumed_.push_back({Ref::borrow(generator), {}});
  return effect(iterators::leaveFunction(), {generator, Py_None, Py_None});
}

bool OutsideIterators::consumesBuiltin(PyObject* iterator, uint32_t place) {
  const iterators::Layout& layout = *iterators::layoutOf(Py_TYPE(iterator));
  checkIs(GuardOp::Position, place, iterators::positionOf(iterator).get());
  Consumed consumed{Ref::borrow(iterator), {}};
  for (size_t offset : layout.objects) {
    PyObject* held = iterators::heldAt(iterator, offset);
    consumed.held.push_back(held);
    if (!held) {
      checkIs(GuardOp::NoSlot, place, nullptr, static_cast<int64_t>(offset));
      continue;
    }
    read(GuardOp::Slot, place, nullptr, static_cast<int64_t>(offset), held);
  }
  std::vector<PyObject*> holds = consumed.held;
  consumed_.push_back(std::move(consumed));
  if (!effect(iterators::leaveFunction(), {iterator, Py_None, Py_None})) return false;
  for (PyObject* held : holds) {
    if (!held || PyFunction_Check(held)) continue;
    // What calls C code for each element would not be told.
    if (Py_IS_TYPE(iterator, &PyMap_Type) && !PyTuple_Check(held)) {
      return stop(Why::EarlierMap);
    }
    if (!isContainer(held)) {
      if (!consumes(held)) return false;
      continue;
    }
    if (!realize(held, false)) return false;
    bool ofIterators = Py_IS_TYPE(iterator, &PyMap_Type) || Py_IS_TYPE(iterator, &PyZip_Type);
    for (Py_ssize_t i = 0; ofIterators && i < PyTuple_GET_SIZE(held); ++i) {
      if (!consumes(PyTuple_GET_ITEM(held, i))) return false;
    }
  }
  return true;
}

std::optional<Stop> OutsideIterators::seal() {
  for (const Consumed& each : consumed_) {
    PyObject* iterator = each.iterator.get();
    auto found = std::find_if(effects().list().begin(), effects().list().end(), [&](const Effect& effect) {
      return effect.callable.get() == iterators::leaveFunction() && effect.arguments[0].get() == iterator;
    });
    if (found == effects().list().end()) return Why::LeavesEarlierIterator;
    SakerUnbegun unbegun;
    if (PyGen_CheckExact(iterator)) {
      if (saker_generator_ended(iterator)) {
        found->arguments[1] = Ref::borrow(Py_True);
      } else if (!saker_generator_unbegun(iterator, &unbegun)) {
        return Why::LeavesEarlierGenerator;
      }
      continue;
    }
    const iterators::Layout& layout = *iterators::layoutOf(Py_TYPE(iterator));
    unsigned long cleared = 0;
    for (size_t i = 0; i < layout.objects.size(); ++i) {
      PyObject* now = iterators::heldAt(iterator, layout.objects[i]);
      if (now == each.held[i]) continue;
      if (now) return Why::LeavesEarlierIterator;
      cleared |= 1ul << i;
    }
    found->arguments[1] = iterators::positionOf(iterator);
    found->arguments[2] = Ref::steal(PyLong_FromUnsignedLong(cleared));
  }
  return std::nullopt;
}

// A generator from outside is known by its code and its variables.
bool OutsideIterators::enters(PyObject* function) {
  auto begins = functions_.find(function);
  if (begins == functions_.end()) return false;
  functions_.erase(begins);
  return true;
}

}  // namespace saker::frontend
