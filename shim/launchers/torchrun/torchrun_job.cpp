#include "launchers/torchrun/torchrun_job.h"

#include <fmt/format.h>

#include "base/text.h"

namespace rankshim {

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
  std::string conf(facts.text(Fact::rdzv_conf));
  if (const auto hosts = topology.hosts_master(); hosts && conf.find("is_host=") == std::string::npos)
    conf = fmt::format("is_host={}{}{}", *hosts, conf.empty() ? "" : ",", conf);
  set("PET_RDZV_CONF", conf);
  return job;
}

}  // namespace rankshim
