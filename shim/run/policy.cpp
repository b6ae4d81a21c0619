#include "run/policy.h"

#include "base/signals.h"

namespace rankshim {

supervise::Policy plan_supervision(const Settings& settings) {
  supervise::Policy policy;
  policy.grace = settings.time(Option::grace);
  policy.leftover_grace = *settings.time(Option::leftover_grace);
  if (const auto map = settings.get<supervise::SignalMap>(Option::rewrite_signal)) policy.rewrite = *map;
  policy.warn_on_reap = settings.flag(Option::warn_on_reap);
  return policy;
}

supervise::Policy plan_supervision(const LaunchChoice& choice, const Settings& settings) {
  supervise::Policy policy = plan_supervision(settings);
  policy.scope = choice.scope;
  policy.stacks = settings.flag(Option::stacks);
  policy.ctty = settings.flag(Option::ctty);
  return policy;
}

}  // namespace rankshim
