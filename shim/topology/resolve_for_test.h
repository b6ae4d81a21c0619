#pragma once

#include <catch2/catch.hpp>

#include "platform/builtin.h"
#include "settings/settings.h"
#include "topology/topology.h"
#include "torchrun/torchrun_command.h"

namespace rankshim {

/// For tests: what `rankshim WORDS -- COMMAND` would resolve on a node, with the built-in profiles.
inline Outcome<Topology> resolve(const Node& node, std::vector<std::string> words = {},
                                 std::vector<std::string> command = {"x"}) {
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  const auto read = read_settings(words, node);
  REQUIRE(std::holds_alternative<Invocation>(read));
  const Settings& settings = std::get<Invocation>(read).settings;
  const auto profiles = platform::builtin_profiles();
  const auto platform = platform::recognise(profiles, settings.text(Option::platform), node);
  if (const auto* faults = std::get_if<Faults>(&platform)) return *faults;
  const auto torchrun = read_torchrun(command);
  return resolve_topology(settings, std::get<platform::Platform>(platform), node,
                          torchrun ? &torchrun->says : nullptr);
}

}  // namespace rankshim
