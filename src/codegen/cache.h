// Code that was made is kept, by the text of its kernel with target and options, up to a limit: the longest unused goes
// first. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "codegen/compile.h"

namespace saker::codegen {

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
