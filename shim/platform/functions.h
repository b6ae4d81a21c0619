#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a profile's expressions consist of: mostly functions that they call by name. Each yields a text or
/// nothing; if an argument is nothing, so is the result. Lists are separated by commas, blanks or newlines.
namespace rankshim::platform {

enum class Function : std::uint8_t {
  // These have no name: expression.h has the grammar.

  text,      ///< the text itself
  variable,  ///< the environment variable of that name
  either,    ///< the first child that yields something: ${NAME:-…}, or a [let] that is a list

  // evaluation.cpp evaluates those below; up to `variables` they read from the node.

  hostname,       ///< hostname()           this node's host name
  hostname_like,  ///< hostname_like(GLOB)  the same, if it matches the glob
  domain,   ///< domain()             what follows the host name's first label, in the name or in /etc/hosts
  address,  ///< address()            this node's address on its default route
  file,     ///< file(PATH)           the file's content, without blanks around it; PATH is absolute
  named_variable,  ///< variable(NAME)  the variable of a name that is put together:
                   ///< variable(VC_${ROLE}_HOSTS)
  only_variable,   ///< only_variable(GLOB)  the variable whose name matches the glob, if it is the only one
  variables,       ///< variables(GLOB)      the names of the variables that match and are not 0, by comma
  join,            ///< join(A, B, …)  the texts one after the other; ${A}-${B} is one too
  only_if,         ///< only_if(TEXT, GLOB, RESULT)  RESULT if TEXT matches the glob
  positive,        ///< positive(A)                  A if it is a number above 0
  unless,          ///< unless(EXPRESSION, RESULT)   RESULT if EXPRESSION yields nothing

  // These depend on the texts alone.

  before,       ///< before(TEXT, MARK)    the part of TEXT before its last MARK
  after,        ///< after(TEXT, MARK)     the part of TEXT after its last MARK
  until,        ///< until(TEXT, MARK)     the part of TEXT before its first MARK, or all of it
  ordinal,      ///< ordinal(NAME)         N of NAME-N; a domain after it is ignored
  host,         ///< host(ADDRESS)         HOST of HOST, HOST:PORT, [V6] or [V6]:PORT
  port,         ///< port(ADDRESS)         PORT of HOST:PORT or [V6]:PORT
  hosts,        ///< hosts(LIST, …)        the hosts of the lists or host files (host_list.h), by comma
  first_host,   ///< first_host(LIST)      the first of hosts(LIST)
  position,     ///< position(HOST, LIST)  the index of HOST in hosts(LIST), from 0: host_list.h
  count,        ///< count(LIST)           the number of entries in the list, repeated ones included
  slurm_hosts,  ///< slurm_hosts(LIST)     Slurm's host list written out, by comma: host_list.h
  orte_hosts,   ///< orte_hosts(REGEX)    Open MPI's node regex written out, by comma: host_list.h
  entry,        ///< entry(LIST, N)        the list's entry of that number, from 0
  index,        ///< index(TEXT, LIST)    the number of the list's first entry that equals the text, from 0
  rest,   ///< rest(LIST)            the list without its first line, or without its first entry if it is one
          ///< line
  field,  ///< field(JSON, PATH)     base/json.h
  slurm_tasks,  ///< slurm_tasks(LIST, N)  the tasks of node N, from 0, by a SLURM_*TASKS_PER_NODE such as
                ///< 2(x3),1

  // Whole numbers of up to 64 bits; nothing if an argument or the result is none.

  add,       ///< add(A, B, …)
  subtract,  ///< subtract(A, B)
  multiply,  ///< multiply(A, B, …)
  divide,    ///< divide(A, B)   nothing if there is a remainder
  modulo,    ///< modulo(A, B)
  larger,    ///< larger(A, B)   A if A > B

  differ,  ///< differ(A, B)   A if the two are neither the same text nor the same number
};

/// A function's name, its number of arguments, and what a message says of the first argument if it yields
/// nothing; {} is the second. Nothing is said of one that decides whether an expression applies at all.
struct Signature {
  std::string_view name;
  Function function;
  std::uint8_t least;
  std::uint8_t most;
  std::string_view complaint = "cannot be used";
};

inline constexpr std::uint8_t any_count = 32;
inline constexpr auto signatures = std::to_array<Signature>({
    {"hostname", Function::hostname, 0, 0},
    {"hostname_like", Function::hostname_like, 1, 1},
    {"domain", Function::domain, 0, 0},
    {"address", Function::address, 0, 0},
    {"file", Function::file, 1, 1},
    {"variable", Function::named_variable, 1, 1},
    {"only_variable", Function::only_variable, 1, 1},
    {"variables", Function::variables, 1, 1},
    {"join", Function::join, 2, any_count},
    {"only_if", Function::only_if, 3, 3},
    {"positive", Function::positive, 1, 1, ""},
    {"unless", Function::unless, 2, 2},
    {"before", Function::before, 2, 2, "has no '{}' in it"},
    {"after", Function::after, 2, 2, "has no '{}' in it"},
    {"until", Function::until, 2, 2, "has no '{}' in it"},
    {"ordinal", Function::ordinal, 1, 1, "does not end in a number"},
    {"host", Function::host, 1, 1, "does not name a host"},
    {"port", Function::port, 1, 1, "has no port"},
    {"hosts", Function::hosts, 1, any_count, "does not name a host"},
    {"first_host", Function::first_host, 1, 1, "does not name a host"},
    {"position", Function::position, 2, 2, "is not in {}"},
    {"count", Function::count, 1, 1, "lists nothing"},
    {"slurm_hosts", Function::slurm_hosts, 1, 1, "is not a Slurm host list"},
    {"orte_hosts", Function::orte_hosts, 1, 1},
    {"entry", Function::entry, 2, 2, "has no entry {}"},
    {"index", Function::index, 2, 2, "does not fit {}"},
    {"rest", Function::rest, 1, 1},
    {"field", Function::field, 2, 2, "has no {} in it"},
    {"slurm_tasks", Function::slurm_tasks, 2, 2, "does not give the tasks of node {}"},
    {"add", Function::add, 2, any_count, "does not fit {}"},
    {"subtract", Function::subtract, 2, 2, "does not fit {}"},
    {"multiply", Function::multiply, 2, any_count, "does not fit {}"},
    {"divide", Function::divide, 2, 2, "is not a multiple of {}"},
    {"modulo", Function::modulo, 2, 2, "does not fit {}"},
    {"larger", Function::larger, 2, 2, ""},
    {"differ", Function::differ, 2, 2, ""},
});

/// Whether the function's argument number `at`, from 0, has to be a number if it is a text.
constexpr bool takes_number(Function function, std::size_t at) {
  const bool by_number = function == Function::entry || function == Function::slurm_tasks;
  return (function >= Function::add && function <= Function::larger) || (by_number && at == 1);
}

/// Whether the function's argument number `at`, from 0, is a value that depends on the node. A name in
/// capitals there was meant as ${NAME}; elsewhere it may be a glob, a result or the like.
constexpr bool takes_value(Function function, std::size_t at) {
  return function > Function::join &&
         (at == 0 || function == Function::hosts || function == Function::position);
}

/// Whether a call of the function reads from the node, whatever its arguments are.
constexpr bool asks_the_node(Function function) {
  return function >= Function::hostname && function <= Function::variables;
}

/// Evaluates a function that depends on the texts alone; nothing for the others. The number of arguments is
/// the signature's.
std::optional<std::string> compute(Function function, std::span<const std::string> arguments);

}  // namespace rankshim::platform
