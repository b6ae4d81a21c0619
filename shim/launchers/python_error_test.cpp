#include "launchers/python_error.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "base/files.h"
#include "base/json.h"
#include "node/fake_host_for_test.h"

using namespace rankshim;
using namespace rankshim::launchers;

using node::FakeHost;

TEST_CASE("an error file is read as far as it goes, wherever it is cut", "[attack]") {
  const std::string whole =
      R"({"message": {"message": "x\\\u00e4\ud83d\ude00y ä 😀 \"message\": \"", "extraInfo": {"py_callstack": "a\nb"}}})";
  REQUIRE(json::error(whole).empty());
  const std::string message = "x\\ä😀y ä 😀 \"message\": \"", traceback = "a\nb";
  FakeHost host({});
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    host.files["/error.json"] = whole.substr(0, size);
    PythonError error = read_error_file(host, "/error.json");
    INFO(host.files["/error.json"]);
    if (error.message.ends_with("\uFFFD")) error.message.resize(error.message.size() - 3);  // half of a pair
    CHECK(message.starts_with(error.message));
    CHECK(traceback.starts_with(error.traceback));
    // Of the message, no more than one character is missing, which has at most 12 bytes.
    const std::size_t begin = whole.find("x\\");
    if (size > begin + 12) CHECK_FALSE(error.message.empty());
    if (size > whole.find(", \"extraInfo")) CHECK(error.message == message);
  }
}

TEST_CASE("the beginning of an error file that is too large is reported", "[attack]") {
  FakeHost host({});
  host.files["/error.json"] = R"({"message": {"message": "ValueError: )" +
                              std::string(2 * largest_file, 'x') +
                              R"(", "extraInfo": {"py_callstack": "Traceback"}}})";
  host.files["/error.json"].resize(largest_file + 1);  // as read_file() does
  CHECK(read_error_file(host, "/error.json").message.starts_with("ValueError: xxx"));
  host.files["/early.json"] =
      R"({"message": {"extraInfo": {"py_callstack": "Traceback"}, "message": "ValueE)";
  const PythonError early = read_error_file(host, "/early.json");
  CHECK(early.message == "ValueE");
  CHECK(early.traceback == "Traceback");
}

TEST_CASE("a large error file that is not valid JSON takes no time worth mentioning", "[attack]") {
  FakeHost host({});
  std::string& text = host.files["/error.json"];
  text = R"({"message": ["x",)";
  while (text.size() < largest_file) text += "1,";
  const std::clock_t begin = std::clock();
  CHECK(read_error_file(host, "/error.json").message.empty());
  CHECK(std::clock() - begin < 3 * CLOCKS_PER_SEC);  // with all tries: 20 times as much
}

TEST_CASE("of torchrun's word about a failure only what can be true is believed", "[attack]") {
  const auto read = [](const std::string& rank, const std::string& local_rank, const std::string& pid,
                       const std::string& exitcode) {
    FakeHost host({});
    host.files["/failure.json"] = R"({"rank": )" + rank + R"(, "local_rank": )" + local_rank +
                                  R"(, "pid": )" + pid + R"(, "exitcode": )" + exitcode + "}";
    return read_failure(host, "/failure.json");
  };
  struct Case {
    const char *rank, *local_rank, *pid, *exitcode;
    int code;  // 0: it is not believed
  };
  for (const Case& one : std::initializer_list<Case>{{"9", "1", "17", "42", 42},
                                                     {"9", "1", "17", "-9", 128 + 9},
                                                     {"9", "1", "17", "255", 255},
                                                     {"9", "1", "17", "-64", 128 + 64},
                                                     {"9", "1", "17", "0", 0},
                                                     {"9", "1", "17", "256", 0},
                                                     {"9", "1", "17", "-65", 0},
                                                     {"9", "1", "17", "-200", 0},
                                                     {"9", "1", "17", "2147483647", 0},
                                                     {"9", "1", "17", "-2147483648", 0},
                                                     {"9", "1", "17", "null", 0},
                                                     {"9", "-1", "17", "1", 0},
                                                     {"-1", "0", "17", "1", 0},
                                                     {"1", "2", "17", "1", 0},
                                                     {"4294967295", "0", "17", "1", 0},
                                                     {"9", "1", "0", "1", 0},
                                                     {"9", "1", "-1", "1", 0}}) {
    INFO(one.rank << " " << one.local_rank << " " << one.pid << " " << one.exitcode);
    const auto worker = read(one.rank, one.local_rank, one.pid, one.exitcode);
    CHECK(worker.has_value() == (one.code != 0));
    if (worker) CHECK(supervise::exit_code_of_status(worker->status) == one.code);
  }
}
