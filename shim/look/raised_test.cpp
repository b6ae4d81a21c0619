#include "look/raised.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim::look {

TEST_CASE("a worker says that it has raised, and whoever says anything else is not heard", "[look]") {
  std::string folder = std::filesystem::temp_directory_path() / "rankshim-raised-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  boost::asio::io_context io;
  std::vector<unsigned> heard;
  {
    const Raised raised(io, folder, [&](unsigned local_rank) { heard.push_back(local_rank); });
    const int worker = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    fmt::format("{}/raised", folder).copy(address.sun_path, sizeof address.sun_path - 1);
    for (const std::string_view said : {"3", "", "x", "-1", "99999999999999999999", "7"})
      REQUIRE(sendto(worker, said.data(), said.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                     sizeof address) == static_cast<ssize_t>(said.size()));
    close(worker);
    while (heard.size() < 2) io.run_one();
  }
  CHECK(heard == std::vector<unsigned>{3, 7});
  CHECK(rmdir(folder.c_str()) == 0);  // it has left nothing there
  io.restart();
  io.run();  // and waits for nothing
}

}  // namespace rankshim::look
