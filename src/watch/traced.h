// Is somebody told about every call of this thread?
#pragma once

namespace saker::watch {

// sys.settrace, sys.setprofile or sys.monitoring is on: what stands in for a call would hide it.
bool traced();

}  // namespace saker::watch
