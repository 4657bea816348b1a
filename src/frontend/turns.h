// Which threads may run one compiled function at the same time, where it writes to tensors from outside.
//
// A replay that writes runs alone: a graph that was compiled ahead of time writes at its end, and a write of another
// thread in between would be lost. It runs no code of the program, so that it ends by itself, and others wait for it.
// The program itself may wait for another thread, which may call the same function: nobody waits for it for long. While
// one thread runs it, be it eagerly or to record it, the others run it as well, and lose no more than eager mode does.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace saker::frontend {

class Turns {
 public:
  Turns() = default;
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // This thread replays alone while one lives. All of this is called with the interpreter's lock held.
  class Alone {
   public:
    Alone() = default;
    ~Alone() { leave(); }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;
    // At once, or not at all.
    bool tryEnter(const std::shared_ptr<Turns>& turns);
    // Lets go of the interpreter's lock while it waits. False: another thread runs the program, and does not end.
    // `patient`: the program may be waited for, for a moment.
    bool enter(const std::shared_ptr<Turns>& turns, bool patient);
    void leave();

   private:
    std::shared_ptr<Turns> turns_;
  };

  // The program itself runs on this thread while one lives.
  class Among {
   public:
    explicit Among(std::shared_ptr<Turns> turns);
    ~Among();
    Among(const Among&) = delete;
    Among& operator=(const Among&) = delete;

   private:
    std::shared_ptr<Turns> turns_;
  };

 private:
  using Thread = std::thread::id;
  struct Run {
    Thread thread;
    bool waitedFor = false;  // in vain
  };
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Thread replaying;
    size_t depth = 0;  // of replays inside of replays; 0: nobody replays
    size_t waiting = 0;
    std::vector<Run> running;

    bool othersReplay() const;
    bool othersRun() const;
    bool thisRuns() const;
    bool take();
  };

  // A child of fork() gets a state of its own: threads that it does not have may hold the one of its parent.
  State& state();

  State* state_ = nullptr;
  unsigned forks_ = 0;
};

}  // namespace saker::frontend
