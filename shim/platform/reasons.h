#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fact.h"
#include "node/node.h"
#include "platform/evaluation.h"
#include "platform/profile.h"

/// Explains, for the user, why a profile was recognised and why its expressions yield nothing.
namespace rankshim::platform {

/// Why conditions hold, for messages.
struct Causes {
  std::string text;                ///< "SLURM_JOB_ID=7, SLURM_STEP_ID=0"; each variable, file and name once
  std::vector<std::string> names;  ///< the variables and files
};

/// Why these conditions of a profile hold.
Causes causes_of(std::span<const Condition> conditions, const Profile& profile, Reading& on);

/// Why the profile was recognised: the signs that hold, and the conditions of the first [[match]] that is
/// fulfilled.
Causes causes_of(const Profile& profile, const Node& node);

/// The variables and files that the profile mentions, whether they are set or not.
std::vector<std::string> inputs_of(const Profile& profile, const Node& node);

/// Why a fact is not known: what the user has to look for.
struct Lack {
  std::vector<std::string> unset;     ///< variables that would provide it, and are not set
  std::vector<std::string> absent;    ///< files likewise
  std::vector<std::string> unusable;  ///< what exists and provides nothing: "LIST=[] is no list of hosts"
  std::vector<std::string> names;     ///< the variables and files of all these
  std::string remedy;  ///< what to do about `unusable`, for the start of a fix: "correct LIST, or "
};

/// Why none of the fact's expressions yields anything; each reason once.
Lack lack_of(const Profile& profile, Fact fact, const Node& node);

}  // namespace rankshim::platform
