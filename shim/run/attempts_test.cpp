#include "run/attempts.h"

#include <catch2/catch.hpp>

#include "launchers/native/native_launcher.h"
#include "launchers/torchrun/torchrun_launcher.h"
#include "node/fake_host_for_test.h"
#include "report/wording.h"
#include "settings/settings.h"

namespace rankshim::run {
namespace {

using std::chrono::seconds;

const Attempts::Time start{};

Attempts attempts(std::vector<std::string> words,
                  std::shared_ptr<const launchers::Launcher> launcher = launchers::no_launcher()) {
  const node::FakeHost host({});
  launchers::Job job;
  job.topology.facts[Fact::max_restarts] = Value{"2"};
  job.choice.launcher = std::move(launcher);
  words.insert(words.end(), {"--", "train.py"});
  const auto read = settings::read_settings(words, host);
  return {std::get<settings::Invocation>(read).settings, job};
}

link::Stop failure(outcome::Cause cause, int code, std::string text = "boom", unsigned rank = 3) {
  return {.culprit = {.rank = rank, .cause = cause, .code = code, .text = std::move(text)}};
}

/// Why the job is not restarted; empty if it is.
std::string why_not(const link::Stop& stop) {
  return stop.not_restarted ? report::wording::in_words(*stop.not_restarted) : "";
}

TEST_CASE("a failure is followed by another attempt until the restarts are used") {
  Attempts job = attempts({"--job-restarts=2"});
  for (unsigned number = 0; number < 3; ++number) {
    job.begin(number, 0, start);
    link::Stop stop = failure(outcome::Cause::exited, 3);
    job.decide(stop, start + seconds(number));
    CHECK(stop.again == (number < 2));
    CHECK(why_not(stop) == (number < 2 ? "" : "2 of 2 restarts are used (--job-restarts)"));
    if (stop.again) job.next(start);
  }
}

TEST_CASE(
    "a drained node that a spare replaces uses up no restart, also for a node 0 that was started anew") {
  Attempts job = attempts({"--job-restarts=1"});
  job.begin(0, 0, start);
  for (unsigned drained = 1; drained <= 3; ++drained) {
    job.next(start, false);
    CHECK(job.number() == drained);
    CHECK(job.uncounted() == drained);
    CHECK(job.earliest() == start);
    CHECK(job.may_go_on());
  }
  Attempts anew = attempts({"--job-restarts=1"});
  anew.begin(job.number(), job.uncounted(), start);
  for (Attempts* one : {&job, &anew}) {
    link::Stop stop = failure(outcome::Cause::exited, 3);
    one->decide(stop, start);
    CHECK(stop.again);
    one->next(start);
    CHECK(one->progress() == "restart 1 of 1");
    CHECK_FALSE(one->may_go_on());
    one->decide(stop = failure(outcome::Cause::exited, 3), start);
    CHECK(why_not(stop) == "1 of 1 restarts are used (--job-restarts)");
  }
}

TEST_CASE("with a time, only the restarts within it count") {
  Attempts job = attempts({"--job-restarts=1/1h"});
  const auto again = [&](seconds at) {
    link::Stop stop = failure(outcome::Cause::signalled, 137);
    job.decide(stop, start + at);
    if (stop.again) job.next(start + at);
    return stop.again;
  };
  CHECK(again(seconds(0)));
  CHECK_FALSE(again(seconds(3599)));
  CHECK(again(seconds(3601)));
}

TEST_CASE("what is permanent is not tried again, by its code or its cause") {
  struct Row {
    std::vector<std::string> words;
    link::Stop stop;
    bool again;
  };
  const auto row = GENERATE(values<Row>({
      {{}, failure(outcome::Cause::exited, 1), true},
      {{}, failure(outcome::Cause::exited, 2), false},
      {{}, failure(outcome::Cause::exited, 78), false},
      {{}, failure(outcome::Cause::out_of_memory, 137), true},
      {{"--permanent=oom,3-5"}, failure(outcome::Cause::out_of_memory, 137), false},
      {{"--permanent=oom,3-5"}, failure(outcome::Cause::exited, 4), false},
      {{"--permanent=oom,3-5"}, failure(outcome::Cause::exited, 2), true},
  }));
  std::vector<std::string> words = row.words;
  words.emplace_back("--job-restarts=9");
  Attempts job = attempts(words);
  link::Stop stop = row.stop;
  job.decide(stop, start);
  CHECK(stop.again == row.again);
  CHECK(stop.not_restarted.has_value() == !row.again);
}

TEST_CASE("the same hang twice in a row is permanent, another one is not") {
  Attempts job = attempts({"--job-restarts=9"});
  unsigned number = 0;
  const auto hangs_at = [&](std::uint64_t collective, unsigned line) {
    job.begin(number++, 0, start);
    link::Stop stop = failure(outcome::Cause::hang, 0, "");
    stop.culprit.hang = outcome::Hang{
        .place = {.line = {"train.py", line, "step"}}, .group = "default_pg", .number = collective};
    job.decide(stop, start + std::chrono::hours(3));
    if (stop.again) job.next(start);
    return why_not(stop);
  };
  CHECK(hangs_at(4711, 26).empty());
  CHECK(hangs_at(4711, 27).empty());
  CHECK(hangs_at(4712, 27).empty());
  CHECK(hangs_at(4712, 27) == "it has hung twice in a row at the same lines and the same collective");
}

TEST_CASE("the same exception twice in a row, soon after the start, is permanent") {
  struct Row {
    link::Stop second;
    seconds after;
    bool again;
  };
  const auto row = GENERATE(values<Row>({
      {failure(outcome::Cause::exception, 1), seconds(59), false},
      {failure(outcome::Cause::exception, 1), seconds(61), true},
      {failure(outcome::Cause::exception, 1, "another"), seconds(1), true},
      {failure(outcome::Cause::exception, 1, "boom", 4), seconds(1), false},  // all ranks raise it
      {failure(outcome::Cause::exited, 1), seconds(1), true},
      {failure(outcome::Cause::peer_lost, 1), seconds(1), true},
  }));
  Attempts job = attempts({"--job-restarts=9"});
  link::Stop first = failure(outcome::Cause::exception, 1);
  job.decide(first, start + seconds(1));
  REQUIRE(first.again);
  job.next(start + seconds(1));
  job.begin(1, 0, start + seconds(10));
  link::Stop second = row.second;
  job.decide(second, start + seconds(10) + row.after);
  CHECK(second.again == row.again);
}

TEST_CASE("the same exception twice on a node is tried on a spare, and then no more") {
  Attempts job = attempts({"--job-restarts=9"});
  job.members = std::make_shared<link::Members>(4, 1);
  link::Assignment ranks = {0, 1, 2};
  std::vector<bool> again;
  for (unsigned number = 0; number < 3; ++number) {
    job.members->launched(ranks, {true, true, true, true}, {"a", "b", "c", "d"}, start);
    job.begin(number, 0, start);
    link::Stop stop = failure(outcome::Cause::exception, 1);
    stop.culprit.node = ranks[1];
    job.members->failed(stop.culprit.node);
    job.decide(stop, start + seconds(1));
    again.push_back(stop.again);
    job.next(start + seconds(1));
    ranks = job.members->assign({true, true, true, true}, false).value();
  }
  CHECK(ranks == link::Assignment{0, 3, 2});
  CHECK(again == std::vector{true, true, false});
}

TEST_CASE("an exception is the same although its numbers, addresses and temporary names differ") {
  struct Row {
    std::string first, second;
    bool again;
    std::string first_frame = "File \"/app/train.py\", line 7, in main", second_frame = first_frame;
  };
  const auto row = GENERATE(values<Row>({
      {"RuntimeError: worker (pid 71) exited", "RuntimeError: worker (pid 1093) exited", false},
      {"<Net object at 0x7f3aee01>", "<Net object at 0x7fffabcd>", false},
      {"no answer of 10.0.0.9:4711", "no answer of [fd00::a:b]:80", false},
      {"No such file: '/tmp/tmpabcdefgh/x.pt'", "No such file: '/tmp/tmp_x1y2z3w/x.pt'", false},
      {"No such file: '/dev/shm/nccl-AbCdEf'", "No such file: '/dev/shm/nccl-Zz9'", false},
      {"No such file: '/scratch/tmpabcdefgh'", "No such file: '/scratch/tmpijklmnop'", false},
      {"Tried to allocate 2.00 GiB. GPU 0 has 79.15 GiB, of which 900.5 MiB are free",
       "Tried to allocate 512 MiB. GPU 3 has 79.15 GiB, of which 1.2 GiB are free", false},
      {"KeyError: 'image'", "KeyError: 'label'", true},
      {"boom", "boom", true, "File \"/app/train.py\", line 7, in main",
       "File \"/app/train.py\", line 8, in main"},
      {"boom", "boom", true, "File \"/app/train.py\", line 7, in main", ""},
      {"boom", "boom", false, "File \"/tmp/tmpabcdefgh/a.py\", line 7, in main",
       "File \"/tmp/tmpijklmnop/a.py\", line 7, in main"},
  }));
  CAPTURE(row.first, row.second);
  Attempts job = attempts({"--job-restarts=9"});
  link::Stop first = failure(outcome::Cause::exception, 1, row.first),
             second = failure(outcome::Cause::exception, 1, row.second);
  first.culprit.frame = row.first_frame;
  second.culprit.frame = row.second_frame;
  job.decide(first, start + seconds(1));
  job.next(start + seconds(1));
  job.begin(1, 0, start + seconds(2));
  job.decide(second, start + seconds(3));
  CHECK(second.again == row.again);
}

TEST_CASE("attempts that end soon are followed by a growing pause, and long ones by none") {
  struct Row {
    std::vector<std::string> words;
    std::vector<int> lasted, pauses;  // seconds
  };
  const auto row = GENERATE(values<Row>({
      {{}, {1, 1, 1, 1, 1, 1, 1, 1}, {0, 2, 4, 8, 16, 32, 60, 60}},
      {{}, {59, 1, 60, 1, 1}, {0, 2, 0, 0, 2}},
      {{"--restart-pause=3s"}, {1, 1, 1, 1}, {0, 2, 3, 3}},
      {{"--restart-pause=0"}, {1, 1, 1}, {0, 0, 0}},
      {{"--wait-timeout=10s"}, {1, 1, 1, 1}, {0, 2, 4, 5}},  // the others would not wait for longer
  }));
  std::vector<std::string> words = row.words;
  words.emplace_back("--job-restarts=9");
  Attempts job = attempts(words);
  Attempts::Time now = start;
  for (std::size_t i = 0; i < row.lasted.size(); ++i) {
    CAPTURE(i);
    job.begin(static_cast<unsigned>(i), 0, now);
    now += seconds(row.lasted[i]);
    job.next(now);
    CHECK(job.earliest() - now == seconds(row.pauses[i]));
    CHECK((job.progress().find("after a pause") != std::string::npos) == (row.pauses[i] != 0));
  }
}

TEST_CASE("a stop from outside is never followed by another attempt, and needs no reason") {
  Attempts job = attempts({"--job-restarts=9"});
  link::Stop stop = failure(outcome::Cause::stop_requested, 143);
  job.decide(stop, start);
  CHECK_FALSE(stop.again);
  CHECK_FALSE(stop.not_restarted);
}

TEST_CASE("--max-restarts counts for the native launcher alone, and nothing is permanent then") {
  CHECK_FALSE(attempts({}, std::make_shared<launchers::TorchrunLauncher>()).allowed());
  Attempts job = attempts({}, std::make_shared<launchers::NativeLauncher>());
  CHECK(job.allowed());
  CHECK_FALSE(job.of_the_job());
  link::Stop stop = failure(outcome::Cause::exited, 2);
  job.decide(stop, start);
  CHECK(stop.again);
}

}  // namespace
}  // namespace rankshim::run
