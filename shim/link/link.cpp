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

Met met_by(const Message& verdict) {
  if (const auto* go = std::get_if<Go>(&verdict)) return *go;
  if (const auto* unlink = std::get_if<Unlink>(&verdict)) return NoLink{unlink->why};
  const Refuse& refuse = std::get<Refuse>(verdict);
  const bool is_known = refuse.code == exit_code::unreachable || refuse.code == exit_code::peer;
  return NotMet{is_known ? refuse.code : exit_code::configuration, refuse.sentence};
}

std::shared_ptr<Link> Link::make(boost::asio::io_context& io, Options options) {
  options.self.instance = random_number();
  if (options.self.port == 0) options.self.port = options.master.port;
  options.self.master = options.master.host;
  if (options.self.rank == 0) return std::make_shared<Hub>(io, std::move(options));
  return std::make_shared<Peer>(io, std::move(options));
}

asio::awaitable<Met> Link::meet(Time deadline) {
  try {
    co_return co_await gather(deadline);
  } catch (const std::exception& error) {
    co_return NoLink{refused(error)};
  }
}

asio::awaitable<void> Link::leave(int signal) {
  try {
    report_stop(signal);
    co_await part_early();
  } catch (const std::exception& error) {
    log::debug("the link: {}", refused(error));
  }
}

asio::awaitable<JobEnd> Link::finish(Done done) {
  try {
    co_return co_await part(std::move(done));
  } catch (const std::exception& error) {
    log::warn("the link: {}; this node ends without the others", refused(error));
    co_return JobEnd{};
  }
}

}  // namespace rankshim::link
