#include "base/nearest.h"

#include <array>
#include <catch2/catch.hpp>

namespace rankshim {
namespace {

using namespace std::string_view_literals;

TEST_CASE("the nearest name is the one that the fewest slips turn into what was written") {
  constexpr std::array known = {"rest"sv, "first_host"sv,   "count"sv,
                                "wait"sv, "wait-timeout"sv, "master-addr"sv};
  CHECK(nearest("cuont", known) == "count");
  CHECK(nearest("cont", known) == "count");
  CHECK(nearest("MASTER_ADRD", known) == "master-addr");
  // The first words of a name, but a whole name before them.
  CHECK(nearest("frist", known) == "first_host");
  CHECK(nearest("mastre", known) == "master-addr");
  CHECK(nearest("wiat", known) == "wait");
  CHECK(nearest("waits", known) == "wait");
  // What begins a name, not its letters, decides.
  CHECK(nearest("master", known) == "master-addr");
  CHECK(nearest("wait-t", known) == "wait-timeout");
  CHECK(nearest("colour", known).empty());
  CHECK(nearest("", known).empty());
}

TEST_CASE("a swap of neighbours is one step, where two other slips would be too many") {
  CHECK(nearest("ab", std::array{"ba"sv}) == "ba");
  CHECK(nearest("bacd", std::array{"xxcd"sv, "abcd"sv}) == "abcd");
  CHECK(nearest("badcx", std::array{"abcdx"sv}) == "abcdx");
}

}  // namespace
}  // namespace rankshim
