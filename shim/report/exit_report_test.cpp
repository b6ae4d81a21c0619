#include "report/exit_report.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/text.h"
#include "node/fake_host_for_test.h"
#include "outcome/hang.h"
#include "report/files.h"

using namespace rankshim;
using namespace rankshim::report;
using namespace std::chrono_literals;

namespace {

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder that goes with the test.
struct TemporaryFolder {
  TemporaryFolder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() {
    unlink((path + "/file").c_str());
    rmdir(path.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path = "/tmp/rankshim-test-XXXXXX";
};

}  // namespace

TEST_CASE("the report has a worker's end, its exception and the phases", "[report]") {
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now() - 1min;
  Details details;
  launchers::PythonError error{"ValueError: \"boom\"", "Traceback:\n  line 1\nValueError: \"boom\"\n"};
  supervise::ExitRecord record;
  record.number = 1;
  record.started_at = start + 1s;
  record.workers.first_at = start + 3s;
  record.workers.ends = {{17, 1, 9, 1 << 8, true, start + 5s}};
  record.workers.attempts = 3;
  Verdict verdict;
  verdict.code = 1;
  RootCause root;
  root.who = RootCause::Who::worker;
  root.local_rank = 1;
  root.culprit = {.rank = 9, .code = 1};
  root.pid = 17;
  root.error = &error;
  root.source = "kernel";
  verdict.root = root;
  verdict.command = CommandEnd{.name = "torchrun", .code = 1, .ran = 5500ms};
  ExitReport report;
  report.verdict = &verdict;
  report.exit_code = 1;
  report.record = &record;
  report.details = &details;
  report.host = "pod-0";
  report.phases = {
      {PhaseName::resolve, start}, {PhaseName::launch, start + 1s}, {PhaseName::wind_down, start + 6s}};
  report.end = start + 6500ms;

  const std::string json = as_json(report);
  const auto field = [&](std::string_view path) { return json::field(json, path).value_or(""); };
  CHECK(field("version") == "1");
  CHECK(field("outcome") == "failed");
  CHECK(field("root_cause.who") == "worker");
  CHECK(field("root_cause.rank") == "9");
  CHECK(field("root_cause.exception") == "ValueError: \"boom\"");
  CHECK(field("root_cause.traceback.2") == "ValueError: \"boom\"");
  CHECK(field("root_cause.host") == "pod-0");
  CHECK(field("command_exit.program") == "torchrun");
  CHECK(field("command_exit.exit_code") == "1");
  CHECK(field("command_exit.seconds") == "5.500");
  CHECK(field("workers.0.exit_code") == "1");
  CHECK(field("workers.0.seconds") == "4.000");
  CHECK(field("restarts") == "2");
  CHECK(field("phases.resolve") == "1.000");
  CHECK(field("phases.launch") == "2.000");
  CHECK(field("phases.run") == "3.000");
  CHECK(field("phases.wind-down") == "0.500");

  const std::string message = termination_message(report);
  CHECK(message ==
        "rank 9 exited with code 1\nexit code 1, host pod-0\nTraceback:\n  line 1\nValueError: \"boom\"\n");
}

TEST_CASE("of many past attempts the first and the newest are kept, also where none has followed",
          "[report]") {
  std::vector<PastAttempt> past;
  for (unsigned number = 0; number < 250; ++number) remember(past, {.number = number});
  REQUIRE(past.size() == 100);
  CHECK(past[0].number == 0);
  CHECK(past[1].number == 151);
  CHECK(past.back().number == 249);
  const Verdict verdict{
      .code = 143, .cause = outcome::Cause::stop_requested, .reason = reason::Stopped{.signal = SIGTERM}};
  const Details details;
  const std::string json = as_json(
      {.verdict = &verdict,
       .exit_code = 143,
       .details = &details,
       .past_attempts = {{.number = 0, .code = 3, .sentence = "failed", .phases = {{PhaseName::run, {}}}}}});
  CHECK(json.find("\"past_attempts\":[{\"attempt\":0") != std::string::npos);
  CHECK(json.find("\"root_cause\":null") != std::string::npos);
}

TEST_CASE("the termination message keeps to its 4096 bytes and is empty on success", "[report]") {
  Verdict verdict;
  verdict.code = 1;
  reason::StillWrong wrong{{.error_code = ErrorCode::document, .what = "", .names = {}, .fix = ""}};
  for (int i = 0; i < 1000; ++i) wrong.fault.what += "ä";
  verdict.reason = wrong;
  launchers::PythonError error;
  for (int i = 0; i < 300; ++i) error.traceback += "line " + std::to_string(i) + " of a long traceback ä\n";
  error.message = "ValueError";
  RootCause root;
  root.error = &error;
  verdict.root = root;
  Details details;
  ExitReport report;
  report.verdict = &verdict;
  report.exit_code = 1;
  report.details = &details;
  const std::string message = termination_message(report);
  CHECK(message.size() <= TerminationLog::longest);
  CHECK(message.find('\n') <= 1024);
  CHECK(message.ends_with("line 299 of a long traceback ä\n"));

  verdict = Verdict{};
  report.exit_code = 0;
  CHECK(termination_message(report).empty());
}

TEST_CASE("the termination message is empty where nothing is known but the exit code", "[report]") {
  Verdict verdict;
  verdict.code = 3;
  verdict.root = RootCause{.culprit = {.program = "run.sh", .code = 3}, .who = RootCause::Who::program};
  Details details;
  supervise::ExitRecord record;
  record.number = 3;
  ExitReport report;
  report.verdict = &verdict;
  report.exit_code = 3;
  report.record = &record;
  report.details = &details;
  CHECK(termination_message(report).empty());

  const launchers::PythonError error{"ValueError: boom", "ValueError: boom\n"};
  verdict.root->error = &error;
  CHECK_FALSE(termination_message(report).empty());
  verdict.root->error = nullptr;
  verdict.root->culprit.signal = 9;
  CHECK_FALSE(termination_message(report).empty());
  verdict.root->culprit.signal.reset();
  details.memory.oom_kills = 1;
  CHECK_FALSE(termination_message(report).empty());
  details.memory.oom_kills = 0;
  record.leftovers_killed = 1;
  CHECK_FALSE(termination_message(report).empty());
  report.record = nullptr;  // what rankshim itself found out
  CHECK_FALSE(termination_message(report).empty());
}

TEST_CASE("the termination log is written in place, and a provisional word is taken back", "[report]") {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/file";
  TerminationLog log(path);
  log.finish("");
  CHECK(access(path.c_str(), F_OK) != 0);
  log.provisional("a long provisional word");
  CHECK(content(path) == "a long provisional word\n");
  log.finish("why");
  CHECK(content(path) == "why");
  log.finish("");
  CHECK(content(path).empty());
  log.finish("");
  log.provisional("of the next attempt");
  CHECK(content(path) == "of the next attempt\n");
  replace_file(path, "report");
  CHECK(content(path) == "report");
  TerminationLog("none").provisional("x");
}

TEST_CASE("an error file of torch's is understood in its old and its new form", "[report]") {
  node::FakeHost host({});
  host.files["/a"] =
      R"({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "Traceback\n x", "timestamp": "1"}}})";
  host.files["/b"] = R"({"message": "RuntimeError: x", "timestamp": 1})";
  host.files["/c"] = "{ malformed";
  host.files["/d"] =
      R"({"message": {"message": "E: \ud83d\ude80 \ud83d", "extraInfo": {}}})";  // json.dump's form
  CHECK(launchers::read_error_file(host, "/a").message == "ValueError: boom");
  CHECK(launchers::read_error_file(host, "/a").traceback == "Traceback\n x");
  CHECK(launchers::read_error_file(host, "/b").message == "RuntimeError: x");
  CHECK(launchers::read_error_file(host, "/c").message.empty());
  CHECK(launchers::read_error_file(host, "/d").message == "E: \xF0\x9F\x9A\x80 \uFFFD");
  CHECK(launchers::read_error_file(host, "/missing").message.empty());
}

TEST_CASE("the report of a hang has its places, all stacks, and who waits for whom", "[report]") {
  const auto look = [](unsigned rank, unsigned entered) {
    return outcome::WorkerLook{.rank = rank,
                               .pid = 70 + rank,
                               .state = 'S',
                               .stack = {{"/app/train.py", entered == 21 ? 37U : 26U, "step"}},
                               .groups = {{.name = "0",
                                           .description = "default_pg",
                                           .members = {{0, 2}},
                                           .entered = entered,
                                           .ended = 20,
                                           .operation = "all_reduce"}}};
  };
  Details details;
  details.looks = {{0, look(0, 21)}, {1, look(1, 20)}, {2, look(2, 21)}};
  Verdict verdict{.code = 124, .cause = outcome::Cause::hang};
  verdict.culprit = outcome::find_hang({look(0, 21), look(1, 20), look(2, 21)});
  REQUIRE(verdict.culprit);
  verdict.culprit->hang->stalled = 300'000;
  const ExitReport report{.verdict = &verdict, .exit_code = 124, .details = &details, .host = "pod-0"};
  const std::string json = as_json(report);
  const auto field = [&](std::string_view path) { return json::field(json, path).value_or(""); };
  CHECK(field("hang.kind") == "missing");
  CHECK(std::stod(field("hang.seconds")) == 300);
  CHECK(field("hang.missing") == "1");
  CHECK(field("hang.waiting") == "0,2");
  CHECK(field("hang.group") == "default_pg");
  CHECK(field("hang.number") == "21");
  CHECK(field("hang.place.line") == "26");
  CHECK(field("hang.waits_at.file") == "/app/train.py");
  CHECK(field("hang.waits_at.line") == "37");
  CHECK(field("hang.groups.*.ranks") == "1,0,2");
  CHECK(field("hang.groups.0.pid") == "71");
  CHECK(field("hang.groups.0.stack.0.line") == "26");
  CHECK(field("hang.waits.0.ranks") == "0,2");
  CHECK(field("hang.waits.0.for") == "1");
  CHECK(field("hang.waits.0.operation") == "all_reduce");
}
