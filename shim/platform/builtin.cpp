#include "platform/builtin.h"

#include <cstdint>
#include <string_view>

#include "platform/recognise.h"

namespace rankshim::platform {
namespace {

using namespace std::string_view_literals;

// The profiles are tables made at build time. Reading their documents at the start would cost 25 million
// instructions (callgrind), eleven times what all of `rankshim env` takes with a PyTorchJob's environment.
#include "builtin_profiles.inc"

}  // namespace

std::span<const Profile> builtin_profiles() { return all_profiles; }

std::string_view builtin_document(std::string_view name) {
  const Profile* profile = find(all_profiles, name);
  return profile == nullptr ? std::string_view() : all_documents[profile - all_profiles];
}

}  // namespace rankshim::platform
