#pragma once

#include <string>
#include <string_view>

namespace rankshim {

/// Whether this text, an exception's one line, is the error of a worker whose peer has gone: torch's backends
/// then report an error of their connection. An error that has other causes too (a broken pipe to a data
/// loader) does not count.
bool is_error_of_lost_peer(std::string_view exception);

/// Whether it is the error of an agent that lost the node which hosts the store of a c10d rendezvous
/// (torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py).
bool is_error_of_lost_host(std::string_view exception);

/// Whether it is the error of an agent that waited for the other nodes in vain
/// (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, and torch/csrc/distributed/c10d/TCPStore.cpp
/// for the host of the static rendezvous).
bool is_error_of_no_meeting(std::string_view exception);

/// The address or name of the peer that such an error names; empty if it names none.
std::string_view peer_in(std::string_view exception);

/// The exception's one line without the places in torch's sources where it was made ("[…/pair.cc:547] ",
/// "… in: …/NCCLUtils.cpp:94, ") and without gloo's "GLHF! 🏖️".
std::string in_plain_words(std::string_view exception);

}  // namespace rankshim
