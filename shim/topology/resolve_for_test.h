#pragma once

#include <catch2/catch.hpp>

#include "base/text.h"
#include "launchers/torchrun/torchrun_command.h"
#include "platform/recognise.h"
#include "settings/settings.h"
#include "topology/topology.h"

namespace rankshim::topology {

/// For tests: what `rankshim WORDS -- COMMAND` resolves on a node, with the built-in profiles.
inline Outcome<Topology> resolve(const node::Host& host, std::vector<std::string> words = {},
                                 std::vector<std::string> command = {"x"}) {
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  const auto read = settings::read_settings(words, host);
  REQUIRE(std::holds_alternative<settings::Invocation>(read));
  const settings::Settings& settings = std::get<settings::Invocation>(read).settings;
  const auto profiles = platform::builtin_profiles();
  const auto platform = platform::recognise(profiles, settings.text(settings::Option::platform), host, 0,
                                            settings.text(settings::Option::nnodes));
  if (const auto* faults = std::get_if<Faults>(&platform)) return *faults;
  const auto torchrun = launchers::read_torchrun(command);
  return resolve_topology(settings, std::get<platform::Platform>(platform), host,
                          torchrun ? &torchrun->given : nullptr);
}

/// For tests: a node's place in the job, as one text.
inline std::string part_in_job(const Topology& topology) {
  const Facts& facts = topology.facts;
  const bool process = topology.is<CreatedProcess>();
  std::string text = process ? "rank " : "node ";
  // Elastic nodes rank themselves.
  if (!topology.is<ElasticNode>()) text.append(facts.text(process ? Fact::rank : Fact::node_rank));
  text.append(" of ");
  text.append(facts.text(process ? Fact::world_size : Fact::nnodes)).append(", master ");
  return text.append(facts.text(Fact::master_addr));
}

/// For tests: whether the faults name this variable, or a glob that matches it (VC_*_HOSTS).
inline bool names(const Faults& faults, std::string_view name) {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    return std::any_of(fault.names.begin(), fault.names.end(),
                       [&](const std::string& one) { return glob_match(name, one); });
  });
}

}  // namespace rankshim::topology
