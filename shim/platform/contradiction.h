#pragma once

#include "platform/profile.h"

namespace rankshim::platform {

/// Whether the condition holds of an expression that yields nothing.
constexpr bool is_negative(const Condition& condition) {
  return condition.sign == Sign::not_set || condition.sign == Sign::unlike;
}

/// The condition that holds where this one does not.
Condition negated(Condition condition);

/// Whether two conditions on one expression can never hold together: "A" and "!A", "A=1" and "A=2", "A=1" and
/// "!A=*". Two globs are compared only if they are equal or one of them has no * and no ?.
bool contradict(const Condition& a, const Condition& b, const Tables& tables);

/// Whether the second holds wherever the first does: "A=1" implies "A".
bool implies(const Condition& first, const Condition& second, const Tables& tables);

}  // namespace rankshim::platform
