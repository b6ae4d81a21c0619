#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim::by_name {

/// A flag as a launcher's file describes it, "-n|--nproc={local_world_size}".
struct DescribedFlag {
  explicit DescribedFlag(std::string_view text);

  std::string_view spellings;  ///< "-n|--nproc"
  std::string_view name;       ///< the last of them, which rankshim writes
  char between = 0;            ///< '=' or ' '; 0 for a switch
  std::string_view value;      ///< with placeholders

  /// The name of the placeholder that is all of the value; empty if it is another text.
  [[nodiscard]] std::string_view placeholder() const;
};

/// The user's flags in a launcher's command: the words from one index on, up to the script, which is the
/// first word NAME.py, -m, --module or --.
class GivenFlags {
 public:
  GivenFlags(const std::vector<std::string>& words, std::size_t from);

  /// The flag's value, the last one if it is given again, and "" for a switch; nothing if it is not given.
  /// Dashes and underscores within a name are the same, and so are --x=v and --x v, -n 4 and -n4.
  [[nodiscard]] std::optional<std::string_view> value(const DescribedFlag& flag) const;

 private:
  const std::vector<std::string>& words_;
  std::size_t from_, to_;
};

}  // namespace rankshim::by_name
