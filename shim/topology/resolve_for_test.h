#pragma once

#include <catch2/catch.hpp>

#include "platform/builtin.h"
#include "settings/settings.h"
#include "topology/topology.h"

namespace rankshim {

/// For tests: what `rankshim WORDS x` would resolve on a node, with the built-in profiles.
inline Outcome<Topology> resolve(const Node& node, std::vector<std::string> words = {},
                                 bool for_program = false) {
  words.emplace_back("x");
  const auto read = read_settings(words, node);
  REQUIRE(std::holds_alternative<Invocation>(read));
  const Settings& settings = std::get<Invocation>(read).settings;
  const auto profiles = platform::builtin_profiles();
  const auto platform = platform::recognise(profiles, settings.text(Option::platform), node);
  if (const auto* faults = std::get_if<Faults>(&platform)) return *faults;
  return resolve_topology(settings, std::get<platform::Platform>(platform),
                          platform::find(profiles, "generic"), node, for_program);
}

}  // namespace rankshim
