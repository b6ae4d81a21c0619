#include "run/policy.h"

#include <csignal>

#include "base/signal_text.h"

namespace rankshim {

supervise::Policy plan_supervision(const Settings& settings) {
  using supervise::parse_signal;
  supervise::Policy policy;
  policy.grace = settings.time(Option::grace);
  policy.leftover_grace = *settings.time(Option::leftover_grace);
  policy.rewrite =
      supervise::SignalMap::parse(settings.text(Option::rewrite_signal)).value_or(policy.rewrite);
  policy.term_signal = parse_signal(settings.text(Option::term_signal)).value_or(SIGTERM);
  policy.child_death_signal = parse_signal(settings.text(Option::child_death_signal)).value_or(0);
  policy.no_new_privs = settings.flag(Option::no_new_privs);
  policy.subreaper = settings.flag(Option::subreaper);
  policy.warn_on_reap = settings.flag(Option::warn_on_reap);
  return policy;
}

supervise::Policy plan_supervision(const LaunchChoice& choice, const Settings& settings) {
  supervise::Policy policy = plan_supervision(settings);
  policy.scope = choice.scope;
  policy.pre_stop_delay = *settings.time(Option::pre_stop_delay);
  policy.stacks = settings.flag(Option::stacks);
  policy.ctty = settings.flag(Option::ctty);
  return policy;
}

}  // namespace rankshim
