#include "run/run.h"

namespace rankshim::run {

using settings::Option;

supervise::Policy plan_supervision(const settings::Settings& settings) {
  supervise::Policy policy;
  policy.grace = settings.time(Option::grace);
  policy.leftover_grace = *settings.time(Option::leftover_grace);
  if (const auto map = settings.get<SignalMap>(Option::rewrite_signal)) policy.rewrite = *map;
  policy.warn_on_reap = settings.flag(Option::warn_on_reap);
  return policy;
}

SignalScope signal_scope(const settings::Settings& settings) {
  const std::string_view wanted = settings.text(Option::signal_scope);
  if (wanted == "child") return SignalScope::child;
  if (wanted == "group") return SignalScope::group;
  return wanted == "tree" ? SignalScope::tree : SignalScope::handlers;
}

}  // namespace rankshim::run
