#include "platform/profiles.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/recognise.h"

namespace rankshim::platform {
namespace {

using namespace std::string_view_literals;

// The profiles are constants made at build time. Reading their documents at the start would cost 25 million
// instructions (callgrind), eleven times what all of `rankshim env` takes with a PyTorchJob's environment.
#include "builtin_profiles.inc"

constexpr std::string_view extension = ".toml";

std::string name_of(std::string_view path) {
  path = base_name(path);
  if (path.ends_with(extension)) path.remove_suffix(extension.size());
  return std::string(path);
}

Outcome<Profile> read(const std::string& path, const Node& node, Store& store) {
  auto document = node.file(path);
  if (!document) return Faults{unreadable_profile(path)};
  return read_profile(name_of(path), std::move(*document), path, store);
}

}  // namespace

std::span<const Profile> builtin_profiles() { return all_profiles; }

Fault unreadable_profile(const std::string& path) {
  return {Anchor::profile_file,
          path + ": cannot be read",
          {path},
          "name a readable file with --profile (RANKSHIM_PROFILE)"};
}

std::vector<std::string> users_files(std::string_view file, bool of_launchers, const Node& node) {
  std::vector<std::string> paths;
  node.each_name(profile_folder, [&](std::string_view entry) {
    if (entry.ends_with(extension)) paths.push_back(std::string(profile_folder).append("/").append(entry));
  });
  std::ranges::sort(paths);
  if (!file.empty()) paths.emplace(paths.begin(), file);
  std::erase_if(paths,
                [&](const std::string& path) { return path.ends_with(launcher_extension) != of_launchers; });
  return paths;
}

Outcome<ProfileSet> read_profiles(std::string_view file, const Node& node) {
  const std::vector<std::string> paths = users_files(file, false, node);
  ProfileSet set;
  std::vector<Profile> all;
  Faults faults;
  for (const std::string& path : paths) {
    if (!file.empty() && path != paths.front() && name_of(path) == name_of(file)) continue;
    const auto outcome = read(path, node, set.store);
    if (const auto* wrong = std::get_if<Faults>(&outcome))
      faults.insert(faults.end(), wrong->begin(), wrong->end());
    else
      all.push_back(std::get<Profile>(outcome));
  }
  if (!faults.empty()) return faults;
  if (all.empty()) return set;
  set.own = all.size();
  std::ranges::copy_if(builtin_profiles(), std::back_inserter(all), [&](const Profile& one) {
    return find(std::span(all).first(set.own), one.name) == nullptr;
  });
  set.profiles = set.store.keep(std::move(all));
  return set;
}

Faults check_profile(const std::string& path, const Node& node) {
  Store store;
  const auto outcome = read(path, node, store);
  if (const auto* faults = std::get_if<Faults>(&outcome)) return *faults;
  std::vector<std::string> others;
  const auto add = [&](std::string_view entry) { others.push_back(name_of(entry)); };
  const auto slash = path.rfind('/');
  const std::string beside = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  for (const char* folder : {beside.c_str(), profile_folder}) node.each_name(folder, add);
  for (const Profile& other : builtin_profiles()) others.emplace_back(other.name);
  std::erase(others, name_of(path));
  Faults faults;
  for (const std::string_view glob : std::get<Profile>(outcome).supersedes) {
    if (std::ranges::any_of(others, [&](const std::string& name) { return fits(name, glob); })) continue;
    const std::vector<std::string_view> known(others.begin(), others.end());
    faults.push_back({Anchor::profile_file,
                      path + ": no profile fits '" + std::string(glob) + "' in 'supersedes'" +
                          and_nearest(nearest(glob, known)),
                      {path},
                      "write a name that `rankshim platforms` lists, or leave it out"});
  }
  return faults;
}

}  // namespace rankshim::platform
