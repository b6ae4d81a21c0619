#include "link/link.h"

#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "link/hub.h"
#include "link/peer.h"
#include "loop/loop.h"

namespace rankshim::link {

namespace asio = boost::asio;

namespace {

/// What the system has refused. Throws the exception on if it is a cancellation.
std::string refused(const std::exception& error) {
  const auto* system = dynamic_cast<const boost::system::system_error*>(&error);
  if (system != nullptr && system->code() == asio::error::operation_aborted) throw;
  return std::string(loop::reason(error));
}

}  // namespace

std::shared_ptr<Link> Link::make(boost::asio::io_context& io, Options options) {
  options.self.instance = random_number();
  if (options.self.port == 0) options.self.port = options.master.port;
  options.self.master = options.master.host;
  if (options.self.rank == 0) return std::make_shared<Hub>(io, std::move(options));
  return std::make_shared<Peer>(io, std::move(options));
}

Link::Link(asio::io_context& io, Options options)
    : io_(io), options_(std::move(options)), changed_(io.get_executor()) {}

asio::awaitable<Met> Link::meet(Time deadline) {
  const auto self = shared_from_this();
  try {
    co_return co_await gather(deadline);
  } catch (const std::exception& error) {
    co_return Unlink{refused(error)};
  }
}

asio::awaitable<void> Link::leave(int signal) {
  const auto self = shared_from_this();
  try {
    report_stop(signal);
    co_await part_early();
  } catch (const std::exception& error) {
    log::debug("the link: {}", refused(error));
  }
}

asio::awaitable<void> Link::finish(Done done) {
  const auto self = shared_from_this();
  try {
    say(done);
    co_await part(done.code == 0);
  } catch (const std::exception& error) {
    log::warn("the link: {}; this node ends without the others", refused(error));
  }
}

void Link::say(const Message& message) {
  try {
    send(message);
  } catch (const std::exception& error) {
    log::warn("the link: {}", error.what());
  }
}

void Link::on_stop(std::function<void(const Stop&)> told) {
  told_ = std::move(told);
  tell_stop();
}

void Link::tell_stop() {
  if (told_ && stop() && stop()->culprit.node != options_.self.rank) std::exchange(told_, nullptr)(*stop());
}

}  // namespace rankshim::link
