#include "aot/ask_autograd.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/engine.h>

namespace saker::aot {

using torch::autograd::Edge;
using torch::autograd::variable_list;

variable_list askAutograd(const tracing::Host& host, const Leniently& leniently, SavedReads& reads,
                          tracing::Trace& trace, const std::vector<Edge>& roots, const variable_list& tangents,
                          const std::vector<Edge>& wanted) {
  variable_list found;
  // A backward is asked for outside of autocast, or does without this graph (Backward::apply).
  c10::impl::ExcludeDispatchKeyGuard withoutAutocast(c10::autocast_dispatch_keyset);
  auto execute = [&] {
    found = torch::autograd::Engine::get_default_engine().execute(roots, tangents, /*keep_graph=*/true,
                                                                  /*create_graph=*/false,
                                                                  /*accumulate_grad=*/false, wanted);
  };
  auto wait = [&] {
    if (!host.wait) return execute();
    host.wait([](void* call) { (*static_cast<decltype(execute)*>(call))(); }, &execute);
  };
  size_t before = reads.count();
  if (leniently) {
    try {
      wait();
      return found;
    } catch (const std::exception&) {  // again below, where this error is gone; nobody reads what was recorded
      trace.forgetRefusal();
    }
  }
  reads.forgetSince(before);
  try {
    leniently ? leniently(wait) : wait();
  } catch (const std::exception& error) {
    // In eager mode it is the backward that fails, not the call.
    std::string text = error.what();
    throw NotAheadOfTime(Why::BackwardRefused, text.substr(0, text.find('\n')));
  }
  return found;
}

}  // namespace saker::aot
