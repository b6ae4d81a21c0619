#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "report/files.h"
#include "report/snapshot.h"

namespace rankshim::report {
namespace {

using namespace std::chrono_literals;

/// A node of a job that was started again once.
Snapshot second_attempt(const topology::Topology& topology) {
  Snapshot snapshot{.phase = PhaseName::run, .since = Snapshot::Clock::time_point(1500ms), .attempt = 1};
  snapshot.topology = &topology;
  snapshot.host = "pod-0";
  snapshot.calendar = 1000s;
  snapshot.spent = {{PhaseName::meet, 4s}, {PhaseName::run, 90'500ms}};
  snapshot.restarts = {{outcome::Cause::exception, 1}};
  snapshot.last_exit = LastExit{1, outcome::Cause::exception};
  snapshot.workers.followed = true;
  snapshot.workers.attempts = 1;
  snapshot.workers.states = {{.pid = 7, .ended = true}, {.pid = 8}, {.pid = 9}};
  snapshot.nodes.resize(2);
  snapshot.nodes[1].state = link::Node::State::running;
  return snapshot;
}

topology::Topology node_of(const std::string& run_id) {
  topology::Topology topology;
  topology.facts[Fact::run_id] = Value{run_id};
  topology.facts[Fact::node_rank] = Value{"0"};
  topology.facts[Fact::nnodes] = Value{"2"};
  topology.meeting = topology::Master{"job-0", 29500};
  return topology;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("the metrics of a job that was started again") {
  const topology::Topology topology = node_of("mnist");
  const std::string text = as_metrics(second_attempt(topology));
  const std::string us = R"(run_id="mnist",host="pod-0",node_rank="0")";
  const std::vector<std::pair<std::string, std::string>> samples = {
      {R"(rankshim_phase{@,phase="run"})", "1"},
      {R"(rankshim_phase_start_time_seconds{@})", "1001.500"},
      {R"(rankshim_phase_seconds_total{@,phase="meet"})", "4.000"},
      {R"(rankshim_phase_seconds_total{@,phase="run"})", "90.500"},
      {R"(rankshim_attempt{@})", "1"},
      {R"(rankshim_restarts_total{@,cause="exception"})", "1"},
      {R"(rankshim_restarts_total{@,cause="hang"})", "0"},
      {R"(rankshim_launcher_restarts_total{@})", "0"},
      {R"(rankshim_nodes{@,state="missing"})", "1"},
      {R"(rankshim_nodes{@,state="running"})", "1"},
      {R"(rankshim_nodes{@,state="lost"})", "0"},
      {R"(rankshim_workers{@,state="ended"})", "1"},
      {R"(rankshim_workers{@,state="running"})", "2"},
      {R"(rankshim_prepared_processes{@,state="ready"})", "0"},
      {R"(rankshim_hang_suspected{@})", "0"},
      {R"(rankshim_last_exit_code{@,cause="exception"})", "1"},
  };
  CAPTURE(text);
  for (auto [sample, value] : samples)
    CHECK(has_line(text, sample.replace(sample.find('@'), 1, us) + " " + value));
  CHECK(has_line(text, "# TYPE rankshim_phase_seconds counter"));
  CHECK(has_line(text, "# UNIT rankshim_phase_seconds seconds"));
  CHECK(text.ends_with("\n# EOF\n"));
}

TEST_CASE("what is not known has no metric: no job yet, another node than 0, a program without workers") {
  const std::string text = as_metrics({.phase = PhaseName::resolve, .host = "a"});
  CHECK(has_line(text, R"(rankshim_phase{host="a",phase="resolve"} 1)"));
  for (const std::string absent :
       {"rankshim_nodes", "rankshim_workers", "last_exit", "node_rank", "launcher"})
    CHECK_THAT(text, !Catch::Contains(absent));
}

TEST_CASE("metrics say the same as long as nothing changes") {
  const topology::Topology topology = node_of("mnist");
  const Snapshot snapshot = second_attempt(topology);
  const std::string text = as_metrics(snapshot);
  usleep(2000);
  CHECK(as_metrics(snapshot) == text);
}

TEST_CASE("a label's value stays in its quotes and on its line", "[attack]") {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"a\"} 1\nrankshim_attempt{", R"(a\"} 1\\nrankshim_attempt{)"},
      {"\\", R"(\\)"},
      {"a\\\"", R"(a\\\")"},
      {"\r\n# EOF\n", R"(\\r\\n# EOF\\n)"},
      {std::string("\0", 1), R"(\\x00)"},
      {"\x1b]0;x\a", R"(\\x1b]0;x\\x07)"},
      {"\xFF", R"(\\xff)"},
      {"\xE2\x80\xA8", R"(\\xe2\\x80\\xa8)"},  // a line separator
      {"jöb", "jöb"},
      {std::string(99, 'a') + "ö", std::string(99, 'a')},
  };
  for (const auto& [value, shown] : values) {
    const topology::Topology topology = node_of(value);
    CHECK_THAT(as_metrics({.phase = PhaseName::run, .topology = &topology, .host = "h"}),
               Catch::Contains("rankshim_attempt{run_id=\"" + shown + "\",host=\"h\","));
  }
}

TEST_CASE("however long names are, metrics fit into an answer", "[attack]") {
  for (const char c : {'"', '\\', '\n', '\xFF', 'a'}) {
    topology::Topology topology = node_of(std::string(100'000, c));
    topology.meeting->host = std::string(100'000, c);
    Snapshot snapshot = second_attempt(topology);
    snapshot.host = std::string(100'000, c);
    const std::string text = as_metrics(snapshot);
    CHECK(text.size() <= std::size_t{32} << 10U);
    CHECK(json::Object().text("metrics", text).str().size() < std::size_t{60} << 10U);
  }
}

/// A folder that goes with the test, and a metrics file in it.
struct MetricsFolder {
  MetricsFolder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~MetricsFolder() { std::filesystem::remove_all(path); }
  MetricsFolder(const MetricsFolder&) = delete;
  MetricsFolder& operator=(const MetricsFolder&) = delete;

  [[nodiscard]] std::string file() const { return path + "/a.prom"; }
  [[nodiscard]] std::string content() const {
    std::ifstream input(file());
    std::stringstream text;
    text << input.rdbuf();
    return text.str();
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator());
  }
  std::string path = "/tmp/rankshim-test-XXXXXX";
};

TEST_CASE("a metrics file is replaced as a whole, and a link in its place is not followed", "[attack]") {
  const MetricsFolder folder;
  std::ofstream(folder.path + "/other") << "untouched";
  std::filesystem::create_symlink("other", folder.file());
  MetricsFile metrics(folder.file());
  metrics.write("one\n");
  CHECK(folder.content() == "one\n");
  CHECK(std::filesystem::file_size(folder.path + "/other") == 9);
  CHECK(folder.files() == 2);
  struct stat before{}, after{};
  REQUIRE(stat(folder.file().c_str(), &before) == 0);
  metrics.write("one\n");
  REQUIRE(stat(folder.file().c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);  // nothing has changed
  REQUIRE(chmod(folder.file().c_str(), 0640) == 0);
  metrics.write("two\n");
  REQUIRE(stat(folder.file().c_str(), &after) == 0);
  CHECK((after.st_mode & 07777U) == 0640);
  CHECK(folder.content() == "two\n");
}

TEST_CASE("what is not a file in a metrics file's place stays as it is, and nothing waits for it",
          "[attack]") {
  const MetricsFolder folder;
  SECTION("a pipe without a reader") { REQUIRE(mkfifo(folder.file().c_str(), 0600) == 0); }
  SECTION("a folder") { REQUIRE(mkdir(folder.file().c_str(), 0700) == 0); }
  MetricsFile metrics(folder.file());
  metrics.write("one\n");
  CHECK_FALSE(std::filesystem::is_regular_file(folder.file()));
  CHECK(folder.files() == 1);
}

TEST_CASE("a metrics file comes back with its folder") {
  const MetricsFolder folder;
  MetricsFile metrics(folder.path + "/gone/a.prom");
  metrics.write("one\n");
  REQUIRE(mkdir((folder.path + "/gone").c_str(), 0700) == 0);
  metrics.write("one\n");
  CHECK(std::filesystem::exists(folder.path + "/gone/a.prom"));
}

}  // namespace
}  // namespace rankshim::report
