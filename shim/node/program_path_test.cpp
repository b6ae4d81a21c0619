#include "node/program_path.h"

#include <catch2/catch.hpp>

namespace rankshim {
namespace {

TEST_CASE("a program is looked for in the folders of PATH, in their order") {
  using Names = std::vector<std::string>;
  CHECK(executable_candidates("x", "/a:/b") == Names{"/a/x", "/b/x"});
  CHECK(executable_candidates("x", ":/b:") == Names{"x", "/b/x", "x"});
  CHECK(executable_candidates("x", "") == Names{"x"});
  CHECK(executable_candidates("x", default_path) == Names{"/usr/local/bin/x", "/bin/x", "/usr/bin/x"});
  CHECK(executable_candidates("./x", "/a") == Names{"./x"});
  CHECK(executable_candidates("", "/a") == Names{""});
}

TEST_CASE("a file's place in PATH is that of its folder") {
  CHECK(place_in_path("/a/x", "/a:/b") == 0);
  CHECK(place_in_path("/b/x", "/a:/b:/b") == 1);
  CHECK(place_in_path("/b//x", "/a/b:/b/:/b") == 1);
  CHECK(place_in_path("x", "/a::/b") == 1);
  CHECK(place_in_path("/c/x", "/a:/b") == 2);
}

}  // namespace
}  // namespace rankshim
