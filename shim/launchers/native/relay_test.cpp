#include "launchers/native/relay.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text.h"

using rankshim::launchers::Relay;

namespace {

/// A pipe instead of rankshim's stdout or stderr. Its ends wait, as those of a container do.
struct Console {
  std::array<int, 2> ends{};
  Console() { REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0); }
  ~Console() {
    for (const int end : ends) close(end);
  }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  [[nodiscard]] int in() const { return ends[1]; }

  /// All that is there, or that much of it.
  [[nodiscard]] std::string taken(std::size_t most = SIZE_MAX) const {
    std::string text;
    pollfd ready{ends[0], POLLIN, 0};
    std::array<char, 4096> part{};
    while (text.size() < most && poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0)
      text.append(part.data(), static_cast<std::size_t>(read(ends[0], part.data(), part.size())));
    return text;
  }
};

/// A worker's end of a pipe.
struct Worker {
  int end;
  Worker(Relay& relay, int target, const std::string& prefix) : end(relay.add_pipe(target, prefix)) {
    REQUIRE(end >= 0);
  }
  ~Worker() { quit(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void quit() {
    if (end >= 0) close(end);
    end = -1;
  }
  void print(std::string_view text) const {
    REQUIRE(write(end, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  /// Prints as much of the text as the pipe takes, and removes that from it.
  void print_what_fits(std::string& text) const {
    fcntl(end, F_SETFL, O_NONBLOCK);
    const ssize_t written = write(end, text.data(), text.size());
    if (written > 0) text.erase(0, static_cast<std::size_t>(written));
  }
};

boost::asio::io_context io;

/// Lets the loop do what it can: it has a pause of 50 µs between two reads. Returns whether it did anything.
bool serve_all() {
  io.restart();
  bool served = false;
  while (io.run_one_for(std::chrono::milliseconds(2)) > 0) served = true;
  return served;
}

}  // namespace

TEST_CASE("each line gets its worker's prefix, and the begin of a line waits for its end", "[relay]") {
  const Console out;
  const Console error;
  Relay relay(io, out.in(), error.in());
  Worker first(relay, out.in(), "[0] ");
  const Worker second(relay, out.in(), "[1] ");
  const Worker third(relay, error.in(), "[1] ");
  first.print("a\n\nb\nbegin");
  second.print("other\n");
  third.print("to stderr\n");
  serve_all();
  CHECK(out.taken() == "[0] a\n[0] \n[0] b\n[1] other\n");
  CHECK(error.taken() == "[1] to stderr\n");
  first.print(" and end\nlast");
  serve_all();
  CHECK(out.taken() == "[0] begin and end\n");
  first.quit();
  serve_all();
  CHECK(out.taken() == "[0] last\n");
  CHECK_FALSE(relay.has_more());
}

TEST_CASE("what another process could still write to a pipe is not waited for at the end", "[relay]") {
  const Console out;
  Relay relay(io, out.in(), out.in());
  const Worker worker(relay, out.in(), "[0] ");
  worker.print("a\nrest");
  relay.finish();
  CHECK(out.taken() == "[0] a\n[0] rest\n");
  CHECK_FALSE(relay.has_more());
}

TEST_CASE("there is nothing to do while nothing is written", "[relay]") {
  const Console out;
  Relay relay(io, out.in(), out.in());
  const Worker worker(relay, out.in(), "");
  serve_all();
  worker.print("line\n");
  CHECK(serve_all());
  CHECK_FALSE(serve_all());
}

TEST_CASE("while nothing reads their output, the workers wait, and afterwards nothing is missing",
          "[relay]") {
  const Console out;
  Relay relay(io, out.in(), out.in());
  Worker first(relay, out.in(), "[0] ");
  Worker second(relay, out.in(), "[1] ");
  std::array<std::string, 2> left;
  constexpr int lines = 40'000;
  for (int i = 0; i < lines; ++i)
    for (std::string& text : left) text += "line " + std::to_string(i) + "\n";
  const std::size_t all = left[0].size();
  for (int i = 0; i < 100; ++i) {
    first.print_what_fits(left[0]);
    second.print_what_fits(left[1]);
    serve_all();
  }
  // A pipe for each worker, what was read from it at once, and rankshim's stdout.
  CHECK(all - left[0].size() <= Relay::pipe_size + 2 * Relay::longest_line);
  CHECK(relay.has_more());
  CHECK_FALSE(serve_all());
  std::string text;
  while (!left[0].empty() || !left[1].empty() || relay.has_more()) {
    text += out.taken(10'000);
    serve_all();
    first.print_what_fits(left[0]);
    second.print_what_fits(left[1]);
    serve_all();
  }
  first.quit();
  second.quit();
  relay.finish();
  text += out.taken();
  std::array<int, 2> next{};
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rankshim::next_line(rest);
    const std::size_t worker = line.starts_with("[1] ") ? 1 : 0;
    const std::string wanted = "[" + std::to_string(worker) + "] line " + std::to_string(next.at(worker)++);
    REQUIRE(line == wanted);
  }
  CHECK(next == std::array{lines, lines});
}

TEST_CASE("a line without an end is divided, and no byte of it is lost", "[relay]") {
  const Console out;
  Relay relay(io, out.in(), out.in());
  Worker worker(relay, out.in(), "[7] ");
  std::string left(1'000'000, 'x');
  std::string text;
  while (!left.empty()) {
    worker.print_what_fits(left);
    serve_all();
    text += out.taken();
  }
  worker.quit();
  for (serve_all(); relay.has_more(); serve_all()) text += out.taken();
  text += out.taken();
  CHECK(std::ranges::count(text, 'x') == 1'000'000);
  CHECK(text.starts_with("[7] " + std::string(Relay::longest_line, 'x') + "\n[7] x"));
  CHECK(std::ranges::count(text, '\n') == 1 + 1'000'000 / static_cast<long>(Relay::longest_line));
}

TEST_CASE("without a prefix, the text itself is relayed", "[relay]") {
  const Console out;
  Relay relay(io, out.in(), out.in());
  const Worker worker(relay, out.in(), "");
  worker.print("a\n\nb\nbegin");
  serve_all();
  CHECK(out.taken() == "a\n\nb\n");
}

TEST_CASE("what is written to a file is relayed too", "[relay]") {
  const Console out;
  std::string path = "/tmp/rankshim-relay-XXXXXX";
  const int file = mkstemp(path.data());
  Relay relay(io, out.in(), out.in());
  REQUIRE(relay.add_file(path, out.in(), "[3] "));
  serve_all();
  CHECK_FALSE(serve_all());
  const std::string lines(50'000, '\n');
  REQUIRE(write(file, "a\nbegin", 7) == 7);
  serve_all();
  CHECK(out.taken() == "[3] a\n");
  REQUIRE(write(file, lines.data(), lines.size()) == 50'000);
  close(file);
  std::string text;
  for (serve_all(); relay.has_more(); serve_all()) text += out.taken();
  text += out.taken();
  CHECK(text.starts_with("[3] begin\n[3] \n"));
  CHECK(std::ranges::count(text, '[') == 50'000);
  unlink(path.c_str());
}

TEST_CASE("a console that is gone costs the lines, and not the worker", "[relay]") {
  Relay relay(io, -1, -1);  // writing fails
  const Worker worker(relay, -1, "[0] ");
  worker.print("line\n");
  serve_all();
  CHECK_FALSE(relay.has_more());
  worker.print("line\n");
  serve_all();
  CHECK_FALSE(relay.has_more());
}
