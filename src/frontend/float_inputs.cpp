#include "frontend/float_inputs.h"

#include <utility>

namespace saker::frontend {

namespace {
thread_local FloatInputs* active = nullptr;
}

FloatInputs::FloatInputs(const std::set<std::string>& places) : places_(places), before_(std::exchange(active, this)) {}
FloatInputs::~FloatInputs() { active = before_; }
FloatInputs* FloatInputs::current() { return active; }

}  // namespace saker::frontend
