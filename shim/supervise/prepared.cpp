#include "supervise/prepared.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/accelerators.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {

std::shared_ptr<Prepared> Prepared::start(boost::asio::io_context& io, const Command& command,
                                          const Spawn::Start& how, std::string_view modules,
                                          std::function<void()> changed) {
  std::shared_ptr<Prepared> self(new Prepared(io));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    self->give_up(fmt::format("socketpair: {}", std::strerror(errno)));
    return self;
  }
  const UniqueFd gate(ends[1]);
  if (const int error = loop::assign_fd(self->socket_, ends[0]); error != 0) {
    self->give_up(fmt::format("epoll: {}", std::strerror(error)));
    return self;
  }
  Command early = command;
  early.environment.push_back(fmt::format("RANKSHIM_GATE={} {}", gate.number(), modules));
  early.gate = gate.number();
  early.prepared.reset();
  Spawn spawn(early);
  std::optional<SpawnFailure> failed = spawn.start(how);
  if (!failed) failed = spawn.failure();  // of exec, which has returned unless the kernel forbids vfork(2)
  if (spawn.pid() > 0)
    self->process_ = node::read_process(spawn.pid()).value_or(node::Process{.pid = spawn.pid()});
  if (failed) {
    self->give_up(fmt::format("{}: {}", name(failed->call), std::strerror(failed->error)));
    return self;
  }
  listen(self, std::move(changed));
  return self;
}

Prepared::~Prepared() { kill(); }

void Prepared::listen(const std::shared_ptr<Prepared>& self, std::function<void()> changed) {
  self->socket_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [weak = std::weak_ptr(self), changed = std::move(changed)](boost::system::error_code error) mutable {
        const auto prepared = weak.lock();
        if (!prepared || error || prepared->may_go_) return;
        prepared->take_messages();
        changed();
        if (prepared->state_ != State::unusable) listen(prepared, std::move(changed));
      });
}

void Prepared::take_messages() {
  std::array<char, 256> text{};
  while (state_ != State::unusable) {
    const ssize_t size = recv(socket_.native_handle(), text.data(), text.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return give_up("it has ended");
    take({text.data(), static_cast<std::size_t>(size)});
  }
}

void Prepared::take(std::string_view message) {
  if (message == "h") {
    state_ = State::at_gate;
    has_answered_ = true;
  } else if (message == "r" && state_ == State::at_gate) {
    // The memory that it uses on the device would be missing in the attempt that trains.
    const std::string file = node::find_open_file(process_.pid, node::is_accelerator_file);
    if (!file.empty()) return give_up(fmt::format("an import has opened {}", file));
    state_ = State::ready;
  } else if (message.starts_with("x ")) {
    give_up(printable(message.substr(2)));
  } else {
    give_up("it does not keep to the gate's messages");
  }
}

void Prepared::give_up(std::string why) {
  state_ = State::unusable;
  why_ = std::move(why);
  kill();
}

/// Kills its group with it, because an import may have started a process.
void Prepared::kill() {
  if (may_go_ || process_.start == 0) return;
  if (node::read_again(process_)) kernel::send(-process_.pid, SIGKILL);
}

void Prepared::add(std::string_view entry) { late_.append(entry).push_back('\0'); }

std::optional<pid_t> Prepared::go() {
  take_messages();
  const std::optional<node::Process> now = node::read_again(process_);
  const bool runs =
      now && now->alive() && now->state != 'T' && now->state != 't' && !node::is_dying(process_.pid);
  if (state_ == State::starting) {
    give_up("it was not at the gate yet");
  } else if (state_ != State::unusable && !runs) {
    give_up("it does not run");
  } else if (state_ != State::unusable) {
    const std::string message = 'g' + late_;
    may_go_ = send(socket_.native_handle(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    if (!may_go_) give_up(std::strerror(errno));
  }
  socket_.close();
  return may_go_ ? std::optional(process_.pid) : std::nullopt;
}

}  // namespace rankshim::supervise
