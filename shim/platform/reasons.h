#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "node/node.h"
#include "platform/evaluation.h"
#include "platform/profile.h"
#include "platform/variable_index.h"

namespace rankshim::platform {

/// Why a fact is not known: what the user has to look for.
struct Lack {
  std::vector<std::string> unset;   ///< variables that would provide it, and are not set
  std::vector<std::string> absent;  ///< files likewise
  std::vector<std::string>
      unusable;                    ///< sources that exist and provide nothing: "LIST=[] is no list of hosts"
  std::vector<std::string> names;  ///< the variables and files of all these
  std::string remedy;  ///< what to do about `unusable`, for the start of a fix: "correct LIST, or "
};

/// Explains, for the user, why expressions of one profile yield nothing, or why a condition holds.
class Reasons {
 public:
  Reasons(const Profile& profile, const Node& node, const VariableIndex& variables,
          const Evaluation& evaluation)
      : tables_(*profile.tables), node_(node), variables_(variables), evaluation_(evaluation) {}

  /// Adds why an expression yields nothing.
  void add_lack(std::uint16_t root, Lack& lack);

  /// Adds the variables and files that make a condition hold, and this node's name: "ROLE=launcher", "STEP_ID
  /// is not set"; each once.
  void add_causes(const Condition& condition, std::vector<std::string>& causes);

 private:
  void add_unset(std::string_view name, Lack& lack);
  void add_lack_of_call(const Step& step, Lack& lack);
  void add_lack_of_file(const Value& path, Lack& lack);
  [[nodiscard]] bool asks_the_host_name(std::uint16_t root) const;

  const Tables& tables_;
  const Node& node_;
  const VariableIndex& variables_;
  Evaluation evaluation_;
};

}  // namespace rankshim::platform
