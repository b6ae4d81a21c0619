#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/host.h"
#include "platform/profile.h"

/// Collects the profiles, and recognises which of them is this node's platform.
namespace rankshim::platform {

/// The profiles of config/platforms, compiled into the binary; sorted by name.
std::span<const Profile> builtin_profiles();

/// The folder with users' profiles, *.toml.
inline constexpr const char* profile_folder = "/etc/rankshim.d";

/// The extension of a launcher's file (launchers/by_name/named_launcher.h).
inline constexpr std::string_view launcher_extension = ".launcher.toml";

struct ProfileSet {
  /// The users' profiles first, then the built-in ones that no user's profile of the same name replaces.
  std::span<const Profile> profiles = builtin_profiles();
  std::size_t own = 0;  ///< how many users' profiles there are, at the front
  Arena arena;
};

/// Reads `file`, unless it is empty, and every *.toml in profile_folder by the rules of profile.h, except
/// launchers' files. A profile's name is its file's name without .toml; if one in the folder has the name of
/// `file`, `file` is used. Every mistake in every file is a fault.
Outcome<ProfileSet> read_profiles(std::string_view file, const node::Host& host);

/// The paths of the users' files, `file` first unless it is empty: either launchers' files, or all others.
std::vector<std::string> users_files(std::string_view file, bool of_launchers, const node::Host& host);

/// The fault for a file that cannot be read.
Fault unreadable_profile(const std::string& path);

/// The faults of one profile's file; empty if it is valid. Also rejects what a run would accept: an entry of
/// `supersedes` that matches no other profile that is built in, in profile_folder or beside the file.
Faults check_profile(const std::string& path, const node::Host& host);

/// A profile that was recognised besides the platform's, and that the platform's does not supersede.
struct Other {
  const Profile* profile = nullptr;
  Facts facts;
  /// For a foreign launcher: what shows that it has started several processes, "WORLD_SIZE=2"; empty if
  /// nothing does.
  std::vector<std::string> several;
  std::vector<std::string> names;  ///< the variables and files that show it
};

/// One of a profile's roles, refusals or pending states that applies to this node.
struct State {
  std::string name;
  std::string because;             ///< the variables that show it: "ROLE=launcher"
  std::string fix;                 ///< what to do; empty if the profile does not say
  std::vector<std::string> names;  ///< the variables and files
};

/// A variable whose value is enclosed in an env file's quotes, and the fact that is read from it.
struct Quoted {
  Fact fact;
  std::string name, value;
};

/// Whether there is a platform.
enum class PlatformKind : std::uint8_t {
  off,         ///< --platform=none: no mapping and no wait
  unknown,     ///< no profile was recognised
  recognised,  ///< a profile was recognised, or chosen by name
};

/// The identity of a node's platform.
class PlatformId {
 public:
  PlatformId() = default;
  explicit PlatformId(std::string profile) : kind_(PlatformKind::recognised), profile_(std::move(profile)) {}
  explicit PlatformId(PlatformKind kind) : kind_(kind) {}

  [[nodiscard]] bool is_off() const { return kind_ == PlatformKind::off; }
  [[nodiscard]] bool is_recognised() const { return kind_ == PlatformKind::recognised; }
  /// As `explain` prints it: the profile's name, "single-node" or "none".
  [[nodiscard]] std::string name() const;

 private:
  PlatformKind kind_ = PlatformKind::unknown;
  std::string profile_;
};

/// What the platform provides on this node.
struct Platform {
  PlatformId id;
  Granularity granularity = Granularity::node;
  Facts facts;  ///< as the profile's expressions yield them, before units and words are interpreted
  /// Other profiles that were recognised, most specific first, except those that a platform excludes.
  std::vector<std::string> also_matched;
  /// The facts of ProfileKind::names and ProfileKind::flags, besides the platform's. `names` is empty if the
  /// platform itself is of that kind.
  Facts names, flags;
  /// The profile, which must outlive this; nullptr if none was recognised or requested.
  const Profile* profile = nullptr;
  std::optional<State> pending;  ///< a state that must end before the facts can be read
  std::optional<State> idle;     ///< this container's role, if it does not train
  /// Other profiles that say something about this node: their facts are compared, but never used.
  std::vector<Other> others;
  /// States that can mean two things. They are faults unless the user sets the node's numbers.
  Faults doubts;
  std::optional<State> looks_like_several;  ///< a state that looks like other nodes of the job
  /// The number of nodes according to a platform in which a launcher runs, if above one. The launcher's
  /// variables hide that platform's profile (`unless`, `supersedes`), because the launcher's processes need
  /// not be on all of those nodes.
  std::optional<Value> nodes_around;
  std::vector<Quoted> quoted;  ///< such variables; with its quotes, none means what its user wanted
  /// Whether the command finds the master through the platform (Profile::agents).
  bool command_finds_master = false;
  std::vector<std::string> warnings;  ///< about ignored service links and the like
};

/// Recognises the platform. `wanted` is "auto", "none" or a profile's name; an unknown name is a fault. Of
/// several recognised profiles, the most specific wins, by these rules in order: the earlier kind
/// (Profile::kind); a user's profile (the first `own` of `profiles`); a profile that no other one supersedes;
/// granularity process, whose variables belong to this very process; the most signs, or positive conditions
/// of a [[match]] (a condition that something is absent does not make a profile more specific); the name that
/// sorts first. `users_nnodes` is RANKSHIM_NNODES, which an option or the file may have set.
Outcome<Platform> recognise(std::span<const Profile> profiles, std::string_view wanted,
                            const node::Host& host, std::size_t own = 0, std::string_view users_nnodes = {});

/// The fault for a platform name that does not exist.
Fault unknown_platform(std::span<const Profile> profiles, std::string_view wanted);

/// The profile of that name; nullptr if there is none.
const Profile* find(std::span<const Profile> profiles, std::string_view name);

/// Whether the program, given by name or path, is one of the profile's agents.
bool is_agent(const Profile& profile, std::string_view program);

}  // namespace rankshim::platform
