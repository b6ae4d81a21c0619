#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/node.h"
#include "platform/profile.h"
#include "platform/reasons.h"

namespace rankshim::platform {

/// What the platform says about this node.
struct Platform {
  std::string name =
      "single-node";  ///< the profile's, "single-node" where none was recognised, "none" where not asked
  Granularity granularity = Granularity::node;
  Facts facts;  ///< as the profile's places gave them, units and words not yet interpreted
  /// Other profiles that were recognised, the most specific first; what is only for where no platform is
  /// recognised is not among them.
  std::vector<std::string> also_matched;
  /// What generic names (Kind::names), and a launcher's flags as variables (Kind::flags), say beside the
  /// platform; nothing where it is none, or is itself of mere names.
  Facts names, flags;
  /// The profile, which has to outlive this; nullptr where none was recognised or asked for.
  const Profile* profile = nullptr;
  /// What has to be over before the facts can be read; empty where nothing has.
  std::string pending;
  std::vector<std::string> pending_names;  ///< its variables and files
  std::string idle_role;                   ///< this container's role, where it is one that does not train
  std::string idle_because;                ///< the variables that say so: "ROLE=launcher"
  std::string idle_fix;                    ///< what to do instead, where the profile knows
  std::vector<std::string> idle_names;     ///< the variables and files
  /// By what it was recognised, as a person reads it: "SLURM_JOB_ID=7, SLURM_STEP_ID=0".
  std::string evidence;
  std::vector<std::string> evidence_names;
  /// What can mean two things, or contradicts another platform: faults, unless the user says the node's
  /// place.
  Faults doubts;
  /// The command that is to run asks the platform itself where the master is (Profile::agents).
  bool command_finds_master = false;
  std::vector<std::string> warnings;  ///< service links ignored, and the like
};

/// Finds the platform. `wanted` is "auto", "none" or a profile's name. Of several profiles that are
/// recognised, the most specific wins, by this rule: the earlier kind (Profile::kind); then a user's own (the
/// first `own` of `profiles`); then one that another does not supersede; then granularity process, whose
/// variables are of this very process; then the one with the most signs, or positive conditions of a
/// [[match]] (that something is there; what must not be there makes nothing more specific); then the name
/// that sorts first. A platform that is recognised too, is not superseded and gives another nnodes,
/// node_rank, rank or world_size is a doubt that names both places: which of the two counts is not ours to
/// guess. An unknown name is a fault that lists the nearest.
Outcome<Platform> recognise(std::span<const Profile> profiles, std::string_view wanted, const Node& node,
                            std::size_t own = 0);

/// Why none of the fact's places yields anything; each reason once.
Lack lack_of(const Profile& profile, Fact fact, const Node& node);

/// The variables that are set, and by which this node would be recognised and get its place: those that
/// `--platform none` ignores.
std::vector<std::string> ignored_variables(std::span<const Profile> profiles, const Node& node);

/// What the profile's places yield on this node, whether it is recognised or not. Warnings are appended, each
/// once.
Facts read_facts(const Profile& profile, const Node& node, std::vector<std::string>& warnings);

/// The profile of that name; nullptr where there is none.
const Profile* find(std::span<const Profile> profiles, std::string_view name);

/// Whether the program, given by name or path, is one of the profile's agents.
bool is_agent(const Profile& profile, std::string_view program);

}  // namespace rankshim::platform
