#include "frontend/turns.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "host/gil.h"

namespace saker::frontend {

namespace {

constexpr std::chrono::milliseconds kPatience{10};

// Of this process and those that it was forked from.
std::atomic<unsigned> forks{0};
std::thread::id forkedBy;

void inChild() {
  forkedBy = std::this_thread::get_id();
  ++forks;
}

unsigned forksSoFar() {
  static const int registered = pthread_atfork(nullptr, nullptr, &inChild);
  (void)registered;
  return forks.load(std::memory_order_relaxed);
}

}  // namespace

Turns::~Turns() { delete state_; }

bool Turns::State::othersReplay() const { return depth > 0 && replaying != std::this_thread::get_id(); }

bool Turns::State::othersRun() const {
  return std::any_of(running.begin(), running.end(),
                     [me = std::this_thread::get_id()](const Run& each) { return each.thread != me; });
}

bool Turns::State::thisRuns() const {
  return std::any_of(running.begin(), running.end(),
                     [me = std::this_thread::get_id()](const Run& each) { return each.thread == me; });
}

bool Turns::State::take() {
  if (othersReplay() || (depth == 0 && othersRun())) return false;
  replaying = std::this_thread::get_id();
  ++depth;
  return true;
}

Turns::State& Turns::state() {
  unsigned now = forksSoFar();
  if (state_ && forks_ == now) return *state_;
  auto* made = new State;
  if (state_) {  // is left as it is: its mutex may be locked
    if (state_->replaying == forkedBy) made->replaying = forkedBy, made->depth = state_->depth;
    for (const Run& each : state_->running) {
      if (each.thread == forkedBy) made->running.push_back(each);
    }
  }
  state_ = made;
  forks_ = now;
  return *state_;
}

bool Turns::Alone::tryEnter(const std::shared_ptr<Turns>& turns) {
  State& state = turns->state();
  std::lock_guard<std::mutex> held(state.mutex);
  if (!state.take()) return false;
  turns_ = turns;
  return true;
}

bool Turns::Alone::enter(const std::shared_ptr<Turns>& turns, bool patient) {
  State& state = turns->state();
  bool taken = false;
  {
    ReleaseInterpreter free;
    std::unique_lock<std::mutex> held(state.mutex);
    auto end = std::chrono::steady_clock::now() + kPatience;
    ++state.waiting;
    patient = patient && !state.thisRuns();  // the others may be waiting for this one
    while (!(taken = state.take())) {
      if (state.othersReplay()) {
        state.changed.wait(held);
        continue;
      }
      auto me = std::this_thread::get_id();
      bool known = std::all_of(state.running.begin(), state.running.end(),
                               [&](const Run& each) { return each.waitedFor || each.thread == me; });
      if (!patient || known) break;
      if (state.changed.wait_until(held, end) != std::cv_status::timeout) continue;
      for (Run& each : state.running) each.waitedFor |= each.thread != me;
    }
    --state.waiting;
  }
  if (taken) turns_ = turns;
  return taken;
}

void Turns::Alone::leave() {
  if (!turns_) return;
  std::shared_ptr<Turns> turns = std::move(turns_);
  State& state = turns->state();
  std::lock_guard<std::mutex> held(state.mutex);
  if (--state.depth == 0 && state.waiting > 0) state.changed.notify_all();
}

Turns::Among::Among(std::shared_ptr<Turns> turns) : turns_(std::move(turns)) {
  while (true) {
    State& state = turns_->state();
    {
      std::lock_guard<std::mutex> held(state.mutex);
      if (!state.othersReplay()) {
        state.running.push_back({std::this_thread::get_id()});
        return;
      }
    }
    ReleaseInterpreter free;
    std::unique_lock<std::mutex> held(state.mutex);
    ++state.waiting;
    state.changed.wait(held, [&] { return !state.othersReplay(); });
    --state.waiting;
  }
}

Turns::Among::~Among() {
  State& state = turns_->state();
  std::lock_guard<std::mutex> held(state.mutex);
  auto own = std::find_if(state.running.rbegin(), state.running.rend(),
                          [me = std::this_thread::get_id()](const Run& each) { return each.thread == me; });
  if (own != state.running.rend()) state.running.erase(std::next(own).base());
  if (state.waiting > 0) state.changed.notify_all();
}

}  // namespace saker::frontend
