#include "supervise/last_resort.h"

#include <boost/throw_exception.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <new>
#include <stdexcept>

#include "supervise/observer.h"
#include "supervise/supervised.h"

using namespace rankshim::supervise;

namespace {

/// As if memory were refused in that moment.
class Refusal final : public Observer {
 public:
  explicit Refusal(bool at_once) : at_once_(at_once) {}
  void started(pid_t /*command*/) override {
    if (at_once_) std::get_new_handler()();
  }
  void stopping(int /*signal*/) override { std::get_new_handler()(); }
  void command_ended() override {}

 private:
  const bool at_once_;
};

/// An error that nothing handles, when the command has started.
class Failure final : public Observer {
 public:
  explicit Failure(void (*error)()) : error_(error) {}
  void started(pid_t /*command*/) override { error_(); }
  void stopping(int /*signal*/) override {}
  void command_ended() override {}

 private:
  void (*const error_)();
};

constexpr const char* ends_with_terms =
    "trap 'echo asked; exit 9' TERM; trap 'echo noted' USR1; exec 3<> <(:); echo ready; "
    "while :; do read -r -t 0.2 -u 3; done";

}  // namespace

TEST_CASE("where memory is refused signals are still passed on and the exit code is the command's",
          "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Refusal refusal(true);
    Policy policy;
    policy.observer = &refusal;
    Supervised command(mode, ends_with_terms, policy, last_resort::arm);
    REQUIRE(command.line() == "ready");
    command.signal(SIGUSR1);
    CHECK(command.line() == "noted");
    command.signal(SIGTERM);
    CHECK(command.line() == "asked");
    CHECK(command.exit_code() == 9);
  }
}

TEST_CASE(
    "after an error that nothing handles signals are still passed on and the exit code is the command's",
    "[supervise]") {
  constexpr void (*errors[])() = {
      [] { boost::throw_exception(std::runtime_error("epoll: no space [system:28 at epoll.cpp:1]")); },
      [] { throw std::length_error("basic_string"); },
      [] { last_resort::refused("signalfd: Bad file descriptor"); },
  };
  for (const auto error : errors) {
    Failure failure(error);
    Policy policy;
    policy.observer = &failure;
    Supervised command(Mode::subreaper, ends_with_terms, policy, last_resort::arm);
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    CHECK(command.line() == "asked");
    CHECK(command.exit_code() == 9);
  }
}

TEST_CASE("where memory is refused the grace is still kept", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Refusal refusal(true);
    Policy policy;
    policy.observer = &refusal;
    policy.grace = std::chrono::milliseconds(100);
    Supervised command(mode, "trap 'echo asked' TERM; echo ready; while :; do sleep 3600; done", policy,
                       last_resort::arm);
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    CHECK(command.exit_code() == 128 + SIGKILL);
  }
}
