#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "launch/launch.h"
#include "platform/profile.h"
#include "report/redact.h"
#include "settings/settings.h"
#include "topology/topology.h"

/// What explain, env and platforms print. Everything ends with a newline.
namespace rankshim::explain {

/// Takes secrets out of all values that are shown, and of the command.
void redact(Topology& topology, LaunchPlan& plan, Redactor& redactor);

/// For a person: what was found and from where, what will be waited for, the environment, the command line to
/// copy.
std::string as_text(const Topology& topology, const LaunchPlan& plan, const Settings& settings);

/// For programs; the form is a contract (see the README's reference).
std::string as_json(const Topology& topology, const LaunchPlan& plan, const Settings& settings);

/// {"errors": [{"what", "names", "fix"}]}
std::string as_json(const Faults& faults);

/// The variables for `eval`, as JSON, or for a .env file; `format` is sh, json or dotenv. A name that no
/// shell's variable can have, which `eval` would run, is in JSON only.
std::string environment(const EnvironmentChange& change, std::string_view format);

/// One line per profile. A user's own profile may have any characters in its name and title: none of them
/// reaches a terminal that it could control.
std::string profile_list(std::span<const platform::Profile> profiles);

/// A profile's document, escaped likewise.
std::string profile_text(std::string_view document);

}  // namespace rankshim::explain
