#include "look/exception_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
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
  std::vector<std::uint64_t> entered;
  {
    const ExceptionSocket raised(io, folder, [&](unsigned local_rank, const ExceptionSocket::Groups& groups) {
      heard.push_back(local_rank);
      entered.push_back(groups.empty() ? 0 : groups.front().entered);
    });
    const int worker = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    fmt::format("{}/raised", folder).copy(address.sun_path, sizeof address.sun_path - 1);
    for (const std::string_view said : {"3", "", "x", "-1", "99999999999999999999", "7", "7 [",
                                        R"(7 [["0", "dp", [[0, 1, 1]], 21, 20, ""]])"})
      REQUIRE(sendto(worker, said.data(), said.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                     sizeof address) == static_cast<ssize_t>(said.size()));
    close(worker);
    while (heard.size() < 4) io.run_one();
  }
  CHECK(heard == std::vector<unsigned>{3, 7, 7, 7});
  CHECK(entered == std::vector<std::uint64_t>{0, 0, 0, 21});
  CHECK(rmdir(folder.c_str()) == 0);  // it has left nothing there
  io.restart();
  io.run();  // and waits for nothing
}

}  // namespace rankshim::look
