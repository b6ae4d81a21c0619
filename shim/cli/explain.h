#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "plan/launch.h"
#include "platform/profile.h"
#include "report/redact.h"
#include "settings/settings.h"

/// The output of explain, env and platforms. All texts end with a newline.
namespace rankshim::explain {

/// Removes secrets from all values that are shown, and from the command.
void redact(Job& job, LaunchPlan& plan, Redactor& redactor);

/// For a reader: what was found and from which source, what will be waited for, the environment, and a
/// command line to copy.
std::string as_text(const Job& job, const LaunchPlan& plan, const Settings& settings);

/// For programs; the form is a contract (see docs/explain.md).
std::string as_json(const Job& job, const LaunchPlan& plan, const Settings& settings);

/// {"errors": [{"what", "names", "fix"}]}
std::string as_json(const Faults& faults);

/// The variables for `eval`, as JSON, or for a .env file; `format` is sh, json or dotenv. A name that no
/// shell variable can have, and that `eval` would execute, is in JSON only.
std::string environment(const EnvironmentChange& change, std::string_view format);

/// One line per profile. Control characters, which a user's profile may have in its name and title, are
/// escaped.
std::string profile_list(std::span<const platform::Profile> profiles);

/// A profile's document, escaped likewise.
std::string profile_text(std::string_view document);

}  // namespace rankshim::explain
