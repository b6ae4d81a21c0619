#pragma once

#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platform/profile.h"
#include "platform/recognise.h"

namespace rankshim::platform {

/// For tests: profiles made from documents.
class Profiles {
 public:
  Profiles& add(std::string name, std::string document) {
    const auto outcome = read_profile(name, std::move(document), name + ".toml", arena_);
    if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
    profiles_.push_back(std::get<Profile>(outcome));
    return *this;
  }
  operator std::span<const Profile>() const { return profiles_; }

 private:
  Arena arena_;
  std::vector<Profile> profiles_;
};

/// For tests: a profile's document with one [[match]].
inline std::string match(const std::string& conditions, const std::string& facts = "nnodes = \"1\"") {
  return "title = \"X\"\n[[match]]\nall = [" + conditions + "]\n[facts]\n" + facts + "\n";
}

/// For tests: the platform of a node, which must be one.
inline Platform recognised(std::span<const Profile> profiles, const node::Host& host,
                           std::string_view wanted = "auto") {
  auto outcome = recognise(profiles, wanted, host);
  if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
  return std::get<Platform>(std::move(outcome));
}

}  // namespace rankshim::platform
