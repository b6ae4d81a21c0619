#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fact.h"
#include "node/node.h"
#include "platform/profile.h"

/// Explains, for the user, why a profile was recognised and why its expressions yield nothing.
namespace rankshim::platform {

struct Reading;

/// Why something yields nothing: what the user has to look for.
struct Lack {
  std::vector<std::string> unset;     ///< variables that would provide it, and are not set
  std::vector<std::string> absent;    ///< files likewise
  std::vector<std::string> unusable;  ///< what exists and provides nothing: "LIST=[] is no list of hosts"
  std::vector<std::string> names;     ///< the variables and files of all these
  std::string remedy;  ///< what to do about `unusable`, for the start of a fix: "correct LIST, or "
};

/// What evaluations on a node read, and why they yielded nothing. An Evaluation reports it.
class Trace {
 public:
  struct Input {
    std::string name;   ///< the variable's or file's; empty for this node's name
    std::string shown;  ///< for a message; empty where it says nothing
    bool is_there;
  };

  explicit Trace(const Node& node) : node_(node) {}

  void variable(std::string_view name, std::optional<std::string_view> value);
  /// All variables that match a glob, after each of them.
  void variables(std::string_view glob, bool are_there);
  void file(const Value& path, const std::optional<std::string>& content);
  void host_name();
  /// The function yields nothing of these.
  void failed(Function function, std::span<const Value> arguments);

  std::vector<Input> inputs;
  Lack lack;

 private:
  void add_unusable(const Value& what, std::string why, const std::string& verb = "correct ");

  const Node& node_;
};

/// Why conditions hold, for messages.
struct Causes {
  std::string text;                ///< "SLURM_JOB_ID=7, SLURM_STEP_ID=0"; each variable, file and name once
  std::vector<std::string> names;  ///< the variables and files
};

/// Why these conditions of a profile hold.
Causes causes_of(std::span<const Expression> conditions, const Profile& profile, Reading& on);

/// Why the profile was recognised: the signs that hold, and the conditions of the first [[match]] that is
/// fulfilled.
Causes causes_of(const Profile& profile, const Node& node);

/// Whether the profile's document mentions the variable.
bool mentions(const Profile& profile, std::string_view name);

/// Why the fact's expression yields nothing; each reason once.
Lack lack_of(const Profile& profile, Fact fact, const Node& node);

}  // namespace rankshim::platform
