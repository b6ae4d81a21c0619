#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {
namespace {

using node::FakeHost;

struct Row {
  std::vector<std::string> variables;
  std::vector<std::string> names;
  std::string hostname = "some-host";
};

}  // namespace

TEST_CASE("what contradicts itself or can mean two things is refused, and both variables are named") {
  const std::vector<Row> rows = {
      // RANK and WORLD_SIZE in nodes or in processes
      {{"RANK=1", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8", "MASTER_ADDR=m"},
       {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}},
      {{"NNODES=2", "WORLD_SIZE=3", "RANK=0", "MASTER_ADDR=m"}, {"NNODES", "WORLD_SIZE"}},
      {{"NNODES=2", "NODE_RANK=0", "WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=m"}, {"NODE_RANK", "RANK"}},
      {{"PET_NNODES=2", "PET_NPROC_PER_NODE=8", "PET_NODE_RANK=1", "PET_MASTER_ADDR=a-master-0",
        "PET_MASTER_PORT=23456", "MASTER_ADDR=a-master-0", "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=3"},
       {"PET_NNODES", "WORLD_SIZE"}},
      {{"PET_NNODES=2", "PET_NPROC_PER_NODE=8", "PET_NODE_RANK=1", "PET_MASTER_ADDR=a-master-0",
        "PET_MASTER_PORT=23456", "MASTER_ADDR=a-master-0", "MASTER_PORT=23456", "RANK=0", "WORLD_SIZE=16"},
       {"PET_NODE_RANK", "RANK"}},
      {{"NODE_RANK=1", "LOCAL_WORLD_SIZE=8", "WORLD_SIZE=12", "MASTER_ADDR=m", "MASTER_PORT=1"},
       {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}},
      // a platform's own words against RANK, WORLD_SIZE and the generic names
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "WORLD_SIZE=3"},
       {"DSTACK_NODES_NUM", "WORLD_SIZE"}},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=0",
        "WORLD_SIZE=2"},
       {"DSTACK_NODE_RANK", "RANK"}},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "NODE_RANK=0"},
       {"DSTACK_NODE_RANK", "NODE_RANK"}},
      {{"SKYPILOT_NODE_RANK=1", "SKYPILOT_NODE_IPS=a\nb", "SKYPILOT_NUM_NODES=2", "NNODES=3"},
       {"SKYPILOT_NUM_NODES", "NNODES"}},
      {{R"(CLUSTER_SPEC={"cluster":{"workerpool0":["a:1"],"workerpool1":["b:1","c:1"]},"task":{"type":"workerpool1","index":1}})",
        "RANK=1", "WORLD_SIZE=3"},
       {"CLUSTER_SPEC", "RANK"}},
      {{"MASTER_ADDR=m-0.m", "MASTER_PORT=1", "RANK=1", "WORLD_SIZE=5", "VC_TASK_INDEX=0",
        "VC_MASTER_HOSTS=m-master-0.m", "VC_WORKER_HOSTS=m-worker-0.m,m-worker-1.m"},
       {"WORLD_SIZE", "VC_MASTER_HOSTS"},
       "m-worker-0"},
      // LOCAL_RANK, a list on Ascend
      {{"MINDX_TASK_ID=u", "LOCAL_RANK=0,1,2", "LOCAL_WORLD_SIZE=4", "WORLD_SIZE=8", "RANK=0",
        "MASTER_ADDR=m"},
       {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
      {{"MINDX_TASK_ID=u", "LOCAL_RANK=0,1,2,3", "LOCAL_WORLD_SIZE=4", "WORLD_SIZE=10", "RANK=0",
        "MASTER_ADDR=m"},
       {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}},
      // GPU_NUM, of the pod or of the job; NODE_NUM, nodes or GPUs
      {{"NODE_LIST=a:8,b:8", "INDEX=1", "GPU_NUM=8", "GPU_NUM_PER_NODE=8", "RANK=1", "WORLD_SIZE=2",
        "MASTER_ADDR=a"},
       {"GPU_NUM", "GPU_NUM_PER_NODE"}},
      {{"GPU_NUM=8", "NPROC_PER_NODE=2", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a-master-0",
        "MASTER_PORT=23456"},
       {"GPU_NUM", "NPROC_PER_NODE"}},
      {{"HOST_NUM=2", "HOST_GPU_NUM=8", "NODE_NUM=2", "INDEX=1", "CHIEF_IP=10.0.0.1"},
       {"NODE_NUM", "HOST_GPU_NUM"}},
      {{"NODE_LIST=a:8,b:8,c:8", "INDEX=1", "GPU_NUM_PER_NODE=8", "HOST_NUM=2", "CHIEF_IP=10.0.0.1"},
       {"NODE_LIST", "HOST_NUM"}},
      // the rank within the node, taken for the node's number
      {{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_NODE_RANK=1", "NODE_RANK=1", "MASTER_ADDR=m"},
       {"NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK"}},
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_NODE_RANK=0", "NODE_RANK=0", "MASTER_ADDR=m"},
       {"NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK"}},
      // the user's number of nodes, and a launcher that has started processes on this one alone
      {{"RANKSHIM_NNODES=2", "RANKSHIM_NODE_RANK=1", "RANKSHIM_MASTER_ADDR=h", "OMPI_COMM_WORLD_SIZE=1",
        "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1"},
       {"RANKSHIM_NNODES", "OMPI_COMM_WORLD_SIZE"}},
      {{"RANKSHIM_NNODES=2", "RANKSHIM_NODE_RANK=1", "RANKSHIM_MASTER_ADDR=h", "PMI_SIZE=1", "PMI_RANK=0",
        "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1"},
       {"RANKSHIM_NNODES", "PMI_SIZE"}},
      {{"RANKSHIM_NNODES=2", "RANKSHIM_NODE_RANK=1", "RANKSHIM_MASTER_ADDR=h", "MV2_COMM_WORLD_SIZE=1",
        "MV2_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_LOCAL_RANK=0", "MV2_COMM_WORLD_LOCAL_SIZE=1"},
       {"RANKSHIM_NNODES", "MV2_COMM_WORLD_SIZE"}},
      {{"RANKSHIM_NNODES=2", "RANKSHIM_NODE_RANK=1", "RANKSHIM_MASTER_ADDR=h", "PALS_RANKID=0",
        "PALS_NODEID=0", "PALS_LOCAL_RANKID=0", "PALS_LOCAL_SIZE=1", "PMI_SIZE=1", "PMI_RANK=0"},
       {"RANKSHIM_NNODES", "PMI_SIZE"}},
      {{"RANKSHIM_NNODES=2:4", "RANKSHIM_MASTER_ADDR=h", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=8"},
       {"RANKSHIM_NNODES", "OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {{"RANKSHIM_NNODES=2", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "MASTER_ADDR=h"},
       {"RANKSHIM_NNODES", "WORLD_SIZE"}},
      {{"AZUREML_NODE_COUNT=two", "NODE_RANK=0", "RANK=1", "WORLD_SIZE=16", "LOCAL_RANK=1", "MASTER_ADDR=m"},
       {"AZUREML_NODE_COUNT"}},
      // the quotes of an env file
      {{"SKYPILOT_NODE_RANK=0", "SKYPILOT_NODE_IPS=a\nb", "SKYPILOT_NUM_NODES=2",
        "SKYPILOT_NUM_GPUS_PER_NODE=\"8\""},
       {"SKYPILOT_NUM_GPUS_PER_NODE"}},
      {{"AZUREML_NODE_COUNT=\"2\"", "NODE_RANK=0", "RANK=1", "WORLD_SIZE=16", "LOCAL_RANK=1",
        "MASTER_ADDR=m"},
       {"AZUREML_NODE_COUNT"}},
      {{"NNODES='2'", "NODE_RANK=\"1\"", "MASTER_ADDR=\"h\""}, {"NNODES", "NODE_RANK", "MASTER_ADDR"}},
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=h", "MASTER_PORT=\"29500\""}, {"MASTER_PORT"}},
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=h", "LOCAL_RANK=\"0\""}, {"LOCAL_RANK"}},
      {{"CM_WORKER_SIZE=\"2\""}, {"CM_WORKER_SIZE"}},
      {{"LWS_GROUP_SIZE=\"2\""}, {"LWS_GROUP_SIZE"}},
      // a process of 8 on each of two nodes, but the only one of its node
      {{"NNODES=2", "NODE_RANK=1", "WORLD_SIZE=16", "RANK=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
        "MASTER_ADDR=h"},
       {"RANK", "WORLD_SIZE"}},
      // left over from an outer platform
      {{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=m"},
       {"OMPI_COMM_WORLD_RANK", "RANK"}},
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "LWS_GROUP_SIZE=2", "LWS_WORKER_INDEX=1", "LWS_LEADER_ADDRESS=l"},
       {"OMPI_COMM_WORLD_SIZE", "LWS_GROUP_SIZE"}},
      {{"PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "MASTER_ADDR=m",
        "WORLD_SIZE=2"},
       {"PMI_SIZE", "WORLD_SIZE"}},
      // a process of another node than the platform's
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=0", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=9",
        "LOCAL_RANK=1", "WORLD_SIZE=16"},
       {"DSTACK_NODE_RANK", "RANK"}},
      {{"NNODES=2", "NODE_RANK=0", "RANK=9", "LOCAL_RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=m"},
       {"NODE_RANK", "RANK"}},
      {{"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=1",
        "SLURM_STEP_NODELIST=n1", "SLURM_NODEID=0", "SLURM_PROCID=0", "SLURM_LOCALID=0", "RANK=9",
        "LOCAL_RANK=1", "WORLD_SIZE=16"},
       {"SLURM_NODEID", "RANK"}},
      // inside torchrun already
      {{"TORCHELASTIC_RUN_ID=r", "RANK=9", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
        "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=1"},
       {"RANK", "WORLD_SIZE"}},
      // two platforms that disagree
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "SKYPILOT_NODE_RANK=0",
        "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2"},
       {"DSTACK_NODE_RANK", "SKYPILOT_NODE_RANK"}},
      {{"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_NODEID=1", "SLURM_STEP_NUM_NODES=4", "SLURM_NTASKS=4",
        "SLURM_STEP_NODELIST=n[1-4]", "LEPTON_JOB_WORKER_INDEX=1", "LEPTON_JOB_TOTAL_WORKERS=2"},
       {"SLURM_STEP_NUM_NODES", "LEPTON_JOB_TOTAL_WORKERS"}},
      {{"SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_CURRENT_HOST=algo-2", "OMPI_COMM_WORLD_SIZE=2",
        "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1"},
       {"SM_HOSTS", "OMPI_COMM_WORLD_SIZE"}},
      {{"SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=a\nb",
        "SKYPILOT_NUM_GPUS_PER_NODE=8", "RANK=1", "WORLD_SIZE=2"},
       {"SKYPILOT_NODE_RANK", "RANK"}},
      {{"PET_NNODES=2", "PET_NPROC_PER_NODE=8", "PET_NODE_RANK=0", "PET_MASTER_ADDR=a-master-0",
        "PET_MASTER_PORT=23456", "MASTER_ADDR=a-master-0", "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=16"},
       {"PET_NODE_RANK", "RANK"}},
      {{"NODE_LIST=a:8,b:8", "INDEX=0", "GPU_NUM_PER_NODE=8", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a"},
       {"INDEX", "RANK"}},
      // two of a platform's own words
      {{"SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=3", "SKYPILOT_NODE_IPS=a\nb"},
       {"SKYPILOT_NUM_NODES", "SKYPILOT_NODE_IPS"}},
      {{"DSTACK_NODES_NUM=3", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=a", "DSTACK_NODES_IPS=a\nb"},
       {"DSTACK_NODES_NUM", "DSTACK_NODES_IPS"}},
      {{"AWS_BATCH_JOB_NODE_INDEX=5", "AWS_BATCH_JOB_NUM_NODES=4", "AWS_BATCH_JOB_MAIN_NODE_INDEX=1",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1"},
       {"AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES"}},
      {{"SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_CURRENT_HOST=algo-3"}, {"SM_CURRENT_HOST", "SM_HOSTS"}},
      {{"CLUSTER_SPEC={\"cluster\":", "CLOUD_ML_JOB_ID=1", "WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=a"},
       {"CLUSTER_SPEC"}},
      {{"AZUREML_RUN_ID=r", "AZUREML_NODE_COUNT=2", "NODE_RANK=1", "AZUREML_CR_NODE_RANK=0", "MASTER_ADDR=a"},
       {"NODE_RANK", "AZUREML_CR_NODE_RANK"}},
      {{"VC_TASK_INDEX=0", "VC_WORKER_NUM=3", "VC_WORKER_HOSTS=j-worker-0.j,j-worker-1.j"},
       {"VC_WORKER_NUM", "VC_WORKER_HOSTS"},
       "j-worker-0"},
      {{"LWS_LEADER_ADDRESS=l-0.l", "LWS_GROUP_SIZE=3", "LWS_WORKER_INDEX=2"},
       {"LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"},
       "l-0-1"},
      {{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_RANK=3", "MASTER_ADDR=m"},
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}},
      // what may be another of a job's parts
      {{"JOB_COMPLETION_INDEX=0", "NNODES=2", "MASTER_ADDR=js-workers-0-0.sub"},
       {"JOB_COMPLETION_INDEX", "NNODES"},
       "js-workers-1-0"},
      {{"SLURM_JOB_ID=99", "SLURM_HET_SIZE=2", "SLURM_NNODES=1", "SLURM_NTASKS=1", "SLURM_STEP_ID=0",
        "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n1", "SLURM_NODEID=0",
        "SLURM_PROCID=0", "SLURM_LOCALID=0"},
       {"SLURM_STEP_ID", "SLURM_HET_SIZE"}},
      {{"MLP_ROLE_INDEX=0", "MLP_WORKER_NUM=2", "MLP_SERVER_NUM=1", "MLP_WORKER_0_HOST=a",
        "MLP_WORKER_0_PORT=1"},
       {"MLP_ROLE"}},
      {{"VC_TASK_INDEX=0", "VC_HEAD_HOSTS=j-head-0.j", "VC_HEAD_NUM=1", "VC_NODE_NUM=2"},
       {"VC_NODE_HOSTS"},
       "j-node-0"},
      {{"MASTER_ADDR=j-master-0.j", "MASTER_PORT=23456", "WORLD_SIZE=3", "VC_MASTER_HOSTS=j-master-0.j",
        "VC_WORKER_HOSTS=j-worker-0.j,j-worker-1.j"},
       {"RANK"},
       "gpu-3"},
      // nodes or processes, with the variable that decides missing
      {{"MASTER_ADDR=p-master-0", "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=16", "GPU_NUM=8",
        "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=8", "PET_MASTER_ADDR=p-master-0", "PET_MASTER_PORT=23456"},
       {"PET_NNODES"}},
      {{"AZUREML_RUN_ID=r", "AZUREML_NODE_COUNT=2", "NODE_RANK=0", "RANK=0", "LOCAL_RANK=0", "MASTER_ADDR=a",
        "MASTER_PORT=6105"},
       {"LOCAL_RANK", "WORLD_SIZE"}},
      {{"PET_RDZV_ENDPOINT=etcd.default:2379", "PET_NNODES=1:3", "PET_RDZV_ID=x"}, {"PET_RDZV_BACKEND"}},
      // an elastic job without its endpoint; the master's name is not that
      {{"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_MAX_RESTARTS=3", "MASTER_ADDR=e-master-0",
        "MASTER_PORT=23456", "RANK=1", "WORLD_SIZE=3"},
       {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT"}},
      // on the host network the host name is the node's, and its number is none of the job's
      {{"LWS_LEADER_ADDRESS=vllm-1.vllm.default", "LWS_GROUP_SIZE=4"}, {"LWS_WORKER_INDEX"}, "gpu-node-3"},
      {{"TORCHX_JOB_ID=j", "VC_TASK_INDEX=0", "VC_T_0_HOSTS=a-t-0-0.a", "VC_T_0_NUM=1",
        "VC_T_1_HOSTS=a-t-1-0.a", "VC_T_1_NUM=1"},
       {"VC_*_HOSTS"},
       "gpu-node-1-0"},
      // one of several existing processes, with the variable that shows it missing
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "RANK=9",
        "WORLD_SIZE=16"},
       {"DSTACK_NODE_RANK", "RANK"}},
      {{"SLURM_JOB_ID=1", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n1", "RANK=1", "WORLD_SIZE=4"},
       {"SLURM_JOB_NUM_NODES", "RANK"}},
      {{"SKYPILOT_NUM_NODES=1", "RANK=1", "WORLD_SIZE=4"}, {"SKYPILOT_NUM_NODES", "RANK"}},
      {{"LEPTON_JOB_TOTAL_WORKERS=1", "RANK=1", "WORLD_SIZE=4"}, {"LEPTON_JOB_TOTAL_WORKERS", "RANK"}},
      // the one process of a node whose number differs
      {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "NODE_RANK=0", "MASTER_ADDR=m"},
       {"NODE_RANK", "OMPI_COMM_WORLD_RANK"}},
      // this node itself is not the master of another
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=0.0.0.0"}, {"MASTER_ADDR"}},
      // Slurm's variables handed on to a container by name, and not enough of them
      {{"SLURM_NNODES=4", "SLURM_NODEID=3", "SLURM_PROCID=3", "SLURM_NTASKS=4"},
       {"SLURM_NNODES", "SLURM_JOB_NODELIST"}},
      {{"SLURM_NODEID=1", "SLURM_NNODES=2", "SLURM_PROCID=1"}, {"SLURM_NNODES", "SLURM_JOB_NODELIST"}},
      {{"SLURM_PROCID=1", "SLURM_NNODES=2", "SLURMD_NODENAME=n2"}, {"SLURM_NODEID"}},
      {{"SLURM_NTASKS=4", "SLURM_PROCID=3"}, {"SLURM_NNODES"}},
      {{"SLURM_PROCID=5", "SLURM_NTASKS=8", "SLURM_LOCALID=1", "SLURM_NODELIST=n[1-2]"},
       {"SLURM_NTASKS", "SLURM_STEP_NODELIST"}},
      {{"SLURM_JOB_ID=9", "SLURM_NODEID=3", "SLURM_PROCID=3"}, {"SLURM_NODEID", "SLURM_NNODES"}},
      {{"SLURM_JOB_ID=9", "SLURM_PROCID=3"}, {"SLURM_NNODES"}},
      {{"SLURM_JOB_ID=9", "SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_JOB_NUM_NODES=1",
        "SLURM_JOB_NODELIST=n1"},
       {"SLURM_LOCALID"}},
      {{"SLURM_JOB_ID=9", "SLURM_STEP_ID=0", "SLURM_NODEID=0", "SLURM_NTASKS=4", "SLURM_NNODES=1"},
       {"SLURM_PROCID", "SLURM_LOCALID"}},
      {{"SLURM_JOB_ID=7", "SLURM_NTASKS=8", "SLURM_NODEID=0", "SLURM_NNODES=1", "SLURM_PROCID=0",
        "SLURM_LOCALID=0"},
       {"SLURM_STEP_ID"}},
      {{"SLURM_JOB_ID=9", "SLURM_NNODES=2", "SLURM_NTASKS=8", "MASTER_ADDR=n1", "SLURM_LOCALID=0"},
       {"SLURM_PROCID"}},
      // torchrun's names beside a platform
      {{"SKYPILOT_NODE_RANK=1", "SKYPILOT_NODE_IPS=a\nb", "SKYPILOT_NUM_NODES=2",
        "SKYPILOT_NUM_GPUS_PER_NODE=8", "PET_NPROC_PER_NODE=1"},
       {"SKYPILOT_NUM_GPUS_PER_NODE", "PET_NPROC_PER_NODE"}},
      {{"PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=n1", "PET_MASTER_PORT=29500", "SLURM_JOB_ID=1",
        "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n2", "SLURM_NODEID=0", "SLURM_PROCID=0"},
       {"SLURM_JOB_NUM_NODES", "PET_NNODES"}},
      {{"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1", "PET_NNODES=4",
        "PET_NODE_RANK=3", "PET_MASTER_ADDR=q"},
       {"DSTACK_NODES_NUM", "PET_NNODES"}},
      // another node than the platform's only one, by hand
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "SLURM_JOB_ID=1",
        "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n2", "SLURM_NODEID=0", "SLURM_PROCID=0"},
       {"SLURM_NODEID", "RANK"}},
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "LSB_JOBID=1",
        "LSB_MCPU_HOSTS=n2 8"},
       {"LSB_MCPU_HOSTS", "RANK"},
       "n2"},
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "SKYPILOT_NODE_RANK=0",
        "SKYPILOT_NODE_IPS=n1", "SKYPILOT_NUM_NODES=1"},
       {"SKYPILOT_NODE_RANK", "RANK"}},
      {{"MASTER_ADDR=n1", "MASTER_PORT=29500", "WORLD_SIZE=2", "RANK=1", "MA_NUM_HOSTS=1", "MA_VJ_NAME=a",
        "MA_TASK_NAME=worker"},
       {"MA_NUM_HOSTS", "RANK"}},
      // processes that exist: their node, and how many there are on it
      {{"AZUREML_RUN_ID=p", "AZUREML_NODE_COUNT=2", "NODE_RANK=2", "RANK=6", "LOCAL_RANK=2", "WORLD_SIZE=8",
        "MASTER_ADDR=10.0.0.4", "MASTER_PORT=6105"},
       {"NODE_RANK", "AZUREML_NODE_COUNT"}},
      {{"TORCHELASTIC_RUN_ID=a", "LOCAL_RANK=1", "RANK=9", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8",
        "GROUP_RANK=2", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=n1", "MASTER_PORT=29500"},
       {"GROUP_RANK", "GROUP_WORLD_SIZE"}},
      {{"SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=2",
        "SLURM_STEP_NODELIST=n[1-2]", "SLURM_NODEID=1", "SLURM_PROCID=1", "SLURM_LOCALID=0"},
       {"SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST"}},
      {{"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "MASTER_ADDR=n1", "NODE_RANK=2", "NNODES=2"},
       {"NODE_RANK", "NNODES"}},
      {{"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "MASTER_ADDR=n1", "NNODES=1"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "NNODES"}},
      {{"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "MASTER_ADDR=n1", "NPROC_PER_NODE=4"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "NPROC_PER_NODE"}},
      // process launchers with the variable that shows them missing
      {{"PALS_RANKID=5"}, {"PMI_SIZE", "PALS_LOCAL_RANKID"}},
      {{"PALS_LOCAL_RANKID=1"}, {"PALS_RANKID", "PMI_SIZE"}},
      {{"PMIX_RANK=1"}, {"WORLD_SIZE", "LOCAL_RANK"}},
      {{"PMI_RANK=3"}, {"PMI_SIZE"}},
      {{"PMI_SIZE=4"}, {"PMI_RANK"}},
      {{"PMI_SIZE=4", "PMI_LOCAL_RANK=1", "PMI_LOCAL_SIZE=2"}, {"PMI_RANK"}},
      {{"MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=4"}, {"PMI_RANK", "PMI_SIZE"}},
      {{"MVP_COMM_WORLD_LOCAL_RANK=1"}, {"MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"}},
      {{"MV2_COMM_WORLD_LOCAL_RANK=1"}, {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}},
      // a heterogeneous cluster of SageMaker
      {{"SM_CURRENT_HOST=algo-2", "SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_IS_HETERO=true"},
       {"SM_IS_HETERO", "SM_CURRENT_INSTANCE_GROUP_HOSTS"}},
      {{"SM_CURRENT_HOST=algo-2", "SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_INSTANCE_GROUPS=[\"a\",\"b\"]",
        "SM_CURRENT_INSTANCE_GROUP=b", "SM_CURRENT_INSTANCE_GROUP_HOSTS=[\"algo-2\"]",
        "SM_DISTRIBUTION_INSTANCE_GROUPS=[]"},
       {"SM_INSTANCE_GROUPS", "SM_DISTRIBUTION_INSTANCE_GROUPS"}},
      // a replica's JSON, damaged
      {{"CLUSTER_SPEC={\"cluster\":{\"workerpool0\":[\"a:1\"],\"workerpool1\":[\"b:1\"]}}"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={\"cluster\":{\"workerpool0\":[\"a:1\"],\"workerpool1\":[\"b:1\"],\"task\":{\"ty"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={\"task\":{\"type\":\"workerpool0\",\"index\":0},\"cluster\":{\"workerpool0\":[\"a:1\"]"
        ",\"work"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={cluster:{workerpool0:[a:1],workerpool1:[b:1]},task:{type:workerpool1,index:0}}"},
       {"CLUSTER_SPEC"}},
      {{"CLUSTER_SPEC={\\\"cluster\\\":{\\\"workerpool0\\\":[\\\"a:1\\\"],\\\"workerpool1\\\":[\\\"b:1\\\"]},"
        "\\\"task\\\":{\\\"type\\\":\\\"workerpool1\\\",\\\"index\\\":0}}"},
       {"CLUSTER_SPEC"}},
      // one number by two names
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "WORKER_NUM=3"},
       {"NODE_NUM", "WORKER_NUM"}},
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "WORKER_RANK=0"},
       {"NODE_RANK", "WORKER_RANK"}},
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "WORLD_SIZE=4"},
       {"NODE_NUM", "WORLD_SIZE"}},
      {{"ELASTIC_JOB_NAME=j", "DLROVER_MASTER_ADDR=d:50001", "NODE_TYPE=worker", "MASTER_ADDR=m",
        "NODE_NUM=2", "NODE_RANK=1", "RANK=0", "WORLD_SIZE=2"},
       {"NODE_RANK", "RANK"}},
      {{"MA_NUM_HOSTS=3", "MA_VJ_NAME=v", "MA_TASK_NAME=worker", "VC_TASK_INDEX=1",
        "VC_WORKER_HOSTS=v-worker-0.v,v-worker-1.v"},
       {"MA_NUM_HOSTS", "VC_WORKER_HOSTS"},
       "v-worker-1"},
      {{"MA_NUM_HOSTS=3", "MA_VJ_NAME=v", "MA_TASK_NAME=worker", "VC_TASK_INDEX=1", "VC_WORKER_NUM=2"},
       {"MA_NUM_HOSTS", "VC_WORKER_NUM"},
       "v-worker-1"},
      {{"PALS_RANKID=5", "PMI_RANK=4", "PMI_SIZE=8", "PALS_LOCAL_RANKID=1", "PALS_LOCAL_SIZE=4",
        "MASTER_ADDR=m"},
       {"PALS_RANKID", "PMI_RANK"}},
      {{"AZ_BATCH_HOST_LIST=10.9.9.9,10.9.9.4", "AZ_BATCH_MASTER_NODE=10.9.9.9:6000",
        "AZ_BATCH_IS_CURRENT_NODE_MASTER=false"},
       {"AZ_BATCH_IS_CURRENT_NODE_MASTER", "AZ_BATCH_MASTER_NODE"}},
      // other nodes or roles, and this one's number is not known
      {{"AZ_BATCH_HOST_LIST=10.0.0.4,10.0.0.5", "AZ_BATCH_MASTER_NODE=10.0.0.4:6000",
        "AZ_BATCH_IS_CURRENT_NODE_MASTER=false", "AZ_BATCH_NODE_ID=tvm-2", "AZ_BATCH_JOB_ID=j",
        "AZ_BATCH_TASK_ID=t"},
       {"AZ_BATCH_HOST_LIST"}},
      {{"ARNOLD_WORKER_NUM=2", "ARNOLD_SERVER_NUM=1", "ARNOLD_ID=0", "METIS_WORKER_0_HOST=a"},
       {"ARNOLD_ROLE"}},
      {{"MLP_ROLE_INDEX=0", "MLP_WORKER_NUM=2", "MLP_WORKER_0_HOST=a", "MLP_WORKER_0_PORT=1"}, {"MLP_ROLE"}},
      {{"VC_WORKER_HOSTS=same.rec", "VC_WORKER_NUM=1", "VC_PS_HOSTS=rec-ps-0.rec", "VC_PS_NUM=1"},
       {"VC_TASK_INDEX", "VC_WORKER_HOSTS"},
       "same"},
      {{"VC_TASK_INDEX=0", "VC_LEADER_HOSTS=j-leader-0.j", "VC_LEADER_NUM=1", "VC_WORKER_HOSTS=j-worker-0.j",
        "VC_WORKER_NUM=1"},
       {"VC_LEADER_HOSTS", "VC_WORKER_HOSTS"},
       "j-worker-0"},
      {{"CM_RANK=1", "CM_WORKER_SIZE=16", "CM_LOCAL_WORKER=8", "CM_CHIEF_IP=10.0.0.1"}, {"WORLD_SIZE"}},
      {{"BEAKER_REPLICA_RANK=0", "BEAKER_REPLICA_COUNT=2"}, {"BEAKER_LEADER_REPLICA_HOSTNAME"}},
      // other frameworks' launchers
      {{"HOROVOD_RANK=0", "HOROVOD_SIZE=8"}, {"HOROVOD_SIZE"}},
      {{"HOROVOD_RANK=3"}, {"HOROVOD_RANK"}},
      {{"NUM_PROCESSES=2", "PROCESS_ID=0", "COORDINATOR_ADDRESS=j-worker-0", "COORDINATOR_PORT=6666"},
       {"NUM_PROCESSES"}},
      {{"PROCESS_ID=1", "COORDINATOR_ADDRESS=j-worker-0"}, {"NUM_PROCESSES"}},
      {{"PADDLE_NNODES=2", "PADDLE_MASTER=p-worker-0:36543"}, {"PADDLE_NNODES"}},
      {{"PADDLE_TRAINERS_NUM=4", "PADDLE_TRAINER_ID=0"}, {"PADDLE_TRAINERS_NUM"}},
      {{"PADDLE_TRAINER_ID=0", "PADDLE_TRAINER_ENDPOINTS=a:6070,b:6070"}, {"PADDLE_TRAINER_ENDPOINTS"}},
      {{"PADDLE_TRAINER_ID=1"}, {"PADDLE_TRAINER_ID"}},
      {{"TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}"},
       {"TF_CONFIG"}},
      {{R"(TF_CONFIG={"cluster":{"chief":["a:1"],"worker":["b:1"]},"task":{"type":"worker","index":0}})"},
       {"TF_CONFIG"}},
      {{"MS_WORKER_NUM=8", "MS_ROLE=MS_WORKER", "MS_SCHED_HOST=a"}, {"MS_WORKER_NUM"}},
      // which of a job's parts train together
      {{"TORCHX_JOB_ID=j", "VC_TASK_INDEX=0", "VC_T_0_HOSTS=a-t-0-0.a", "VC_T_0_NUM=1",
        "VC_R_0_HOSTS=a-r-0-0.a", "VC_R_0_NUM=1"},
       {"VC_*_0_HOSTS"},
       "a-t-0-0"},
  };
  for (const Row& row : rows) {
    std::string all;
    for (const std::string& variable : row.variables) all += variable + " ";
    INFO(all);
    FakeHost host(row.variables);
    host.name = row.hostname;
    const auto outcome = resolve(host);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    const auto& faults = std::get<Faults>(outcome);
    INFO(to_line(faults.front()));
    for (const std::string& name : row.names) {
      INFO(name);
      CHECK(names(faults, name));
    }
    CHECK(to_line(faults.front()).find("RANKSHIM_") != std::string::npos);  // what settles it
  }
}

TEST_CASE("a fault names the process or the fact that it is about") {
  struct Row {
    std::vector<std::string> variables;
    std::string text;
  };
  for (const auto& [variables, text] : std::vector<Row>{
           {{"RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=0", "MASTER_ADDR=0.0.0.0"},
            " on rank 1 is this node itself"},
           {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=localhost"}, " on node 1 is this node itself"},
           {{"LWS_LEADER_ADDRESS=\"a.b\""}, "settle it with --master-addr"}}) {
    CAPTURE(variables);
    const auto outcome = resolve(FakeHost(variables));
    REQUIRE(std::holds_alternative<Faults>(outcome));
    CHECK_THAT(to_line(std::get<Faults>(outcome).front()), Catch::Contains(text));
  }
}

TEST_CASE("localhost as the master of a node above 0 is refused, whoever says it") {
  struct Row {
    std::vector<std::string> variables, options;
    std::string says;
  };
  for (const auto& [variables, options, says] : std::vector<Row>{
           {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=localhost"}, {}, "MASTER_ADDR=localhost on node 1"},
           {{},
            {"--nnodes=2", "--node-rank=1", "--master-addr=localhost"},
            "--master-addr=localhost on node 1"},
           {{"NNODES=2", "NODE_RANK=1", "RANKSHIM_MASTER_ADDR=LOCALHOST."},
            {},
            "RANKSHIM_MASTER_ADDR=LOCALHOST. on node 1"},
           {{},
            {"--nnodes=2:3", "--node-rank=1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29400"},
            "on node 1"}}) {
    CAPTURE(says);
    const auto outcome = resolve(FakeHost(variables), options);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    CHECK_THAT(to_line(std::get<Faults>(outcome).front()),
               Catch::Contains(says) && Catch::Contains("is this node itself, not the master"));
  }
  // An address is right where all nodes are on one machine, and who says it outright knows that.
  const auto warnings = [](const std::vector<std::string>& variables,
                           const std::vector<std::string>& options) {
    return std::get<Topology>(resolve(FakeHost(variables), options)).warnings;
  };
  CHECK(warnings({"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=127.0.0.1"}, {}).size() == 1);
  CHECK(warnings({"NNODES=2", "NODE_RANK=1"}, {"--master-addr=127.0.0.1"}).empty());
  CHECK(warnings({"NNODES=2", "NODE_RANK=0"}, {"--master-addr=localhost"}).empty());
}

TEST_CASE("quotes of a variable that no platform here reads are no fault") {
  for (const char* entry :
       {"MAX_SIZE=\"1024\"", "GROUP_SIZE=\"128\"", "GPU_NUM=\"1\"", "DEVICE_ID=\"0\"", "NUM_PROCESSES=\"8\"",
        "MIN_SIZE=\"1\"", "RANK_ID=\"0\"", "LEARNER_ID=\"0\"", "NUM_TRAINERS=\"1\""}) {
    CAPTURE(entry);
    CHECK(std::holds_alternative<Topology>(resolve(FakeHost({entry}))));
    CHECK(std::holds_alternative<Topology>(
        resolve(FakeHost({"NNODES=2", "NODE_RANK=0", "MASTER_ADDR=h", entry}))));
  }
}

TEST_CASE("what looks like other nodes is a warning, not a fault") {
  const auto with = [](std::vector<std::string> all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<std::string> eight = {"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=8",
                                          "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=0"};
  const std::vector<std::string> one = {"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                                        "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=0"};
  for (const auto& variables : std::vector<std::vector<std::string>>{
           {"ACME_NODE_RANK=\"1\"", "ACME_NNODES=\"2\""},
           with(eight, {"ACME_NODE_INDEX=1", "ACME_NNODES=2"}),
           with(eight, {"JOB_COMPLETION_INDEX=1"}),
           with(one, {"MASTER_ADDR=10.0.0.1"}),
           {"MV2_COMM_WORLD_SIZE=1", "MV2_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_LOCAL_RANK=0",
            "MV2_COMM_WORLD_LOCAL_SIZE=1", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_NODEID=1",
            "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=n[1-2]",
            "SLURM_PROCID=1", "SLURM_LOCALID=0"}}) {
    CAPTURE(variables);
    const auto outcome = resolve(FakeHost(variables));
    if (const auto* faults = std::get_if<Faults>(&outcome)) INFO(to_line(faults->front()));
    REQUIRE(std::holds_alternative<Topology>(outcome));
    CHECK(std::get<Topology>(outcome).warnings.size() == 1);
  }
  CHECK(std::get<Topology>(resolve(FakeHost(eight))).warnings.empty());
}

TEST_CASE("what the user sets settles what is refused") {
  const auto quoted = resolve(
      FakeHost({"NNODES=\"2\"", "NODE_RANK=1", "MASTER_ADDR=h", "RUN_NAME=\"r\"", "RANKSHIM_NNODES=2"}));
  CHECK(std::holds_alternative<Topology>(quoted));
  const FakeHost two({"DSTACK_NODES_NUM=2", "DSTACK_NODE_RANK=1", "DSTACK_MASTER_NODE_IP=10.0.0.1",
                      "SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=2",
                      "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2"});
  const auto outcome = resolve(two, {"--platform=skypilot"});
  REQUIRE(std::holds_alternative<Topology>(outcome));
  CHECK(std::get<Topology>(outcome).facts.text(Fact::node_rank) == "0");
}

}  // namespace rankshim::topology
