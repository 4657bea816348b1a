// Code that was made is kept, by the text of its kernel with target and options, up to a limit: the longest unused goes
// first. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "codegen/compile.h"

namespace saker::codegen {

// Counts changes of the emitter that give the same text other code.
inline constexpr int kEmitterVersion = 1;

// What code is kept under: a line that says what it was made for, then the kernel's text. Nothing in it depends on the
// process, so that it can name a file too.
std::string keyOf(const std::string& text, Target target, const Options& options);

class Cache {
 public:
  // Nothing (a null function) if it is not there.
  Compiled find(const std::string& key);
  void insert(const std::string& key, const Compiled& compiled);
  void setLimit(size_t limit);
  size_t size();

 private:
  struct Entry {
    std::string key;
    Compiled compiled;
  };
  void trim();

  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> byKey_;
  size_t limit_ = 4096;
};

}  // namespace saker::codegen
