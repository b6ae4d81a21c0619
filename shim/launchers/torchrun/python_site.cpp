#include "launchers/torchrun/python_site.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/files.h"
#include "base/text.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim {
namespace {

constexpr EmbeddedFile module[] = {
#include "python_site.inc"
};

/// A literal for Python 2 and 3. Bytes that are not plain ASCII are escaped, as torchrun reads them.
std::string python_literal(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      literal += "\\x";
      literal += hex[byte >> 4U];
      literal += hex[byte & 15U];
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

std::string_view truth(bool value) { return value ? "True" : "False"; }

}  // namespace

Variables torchrun_job(const Topology& topology, const Environment& environment) {
  const Facts& facts = topology.facts;
  Variables job;
  const auto set = [&](std::string_view name, std::string_view value) {
    if (!value.empty() && !environment.get(name)) job.emplace_back(name, value);
  };
  const std::string_view host = without_brackets(facts.text(Fact::master_addr));
  set("PET_NNODES", facts.text(Fact::nnodes));
  set("PET_NPROC_PER_NODE", facts.text(Fact::nproc_per_node));
  set("PET_NODE_RANK", facts.text(Fact::node_rank));
  set("PET_MASTER_ADDR", host);
  set("PET_MASTER_PORT", facts.text(Fact::master_port));
  set("PET_RDZV_BACKEND", facts.text(Fact::rdzv_backend));
  set("PET_RDZV_ENDPOINT", host_port(host, facts.text(Fact::master_port)));
  set("PET_RDZV_ID", facts.text(topology.is<ElasticNode>() ? Fact::rdzv_id : Fact::run_id));
  const std::string conf(facts.text(Fact::rdzv_conf));
  const auto hosts = topology.hosts_master();
  set("PET_RDZV_CONF", hosts ? with_host(conf, *hosts) : conf);
  return job;
}

std::string python_site_text(const PythonSite& site) {
  std::string job = "None";
  if (site.job) {
    job = "{";
    for (const auto& [name, value] : *site.job)
      job += python_literal(name) + ": " + python_literal(value) + ", ";
    job += "}";
  }
  return fmt::format("{}\n\nserve({}, {}, {}, {}, {})\n", module[0].text, truth(site.had_path), job,
                     python_literal(site.master), truth(site.records), getpid());
}

}  // namespace rankshim
