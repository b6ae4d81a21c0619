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

}  // namespace rankshim::run
