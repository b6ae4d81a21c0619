# bash completion for rankshim
_rankshim() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} at=1 first
  # The first word that is neither an option nor an option's value begins the command.
  [[ " explain doctor demo env wait preflight platforms install status help version " == *" ${COMP_WORDS[1]} "* ]] && at=2
  first=$at
  while ((at < COMP_CWORD)); do
    case ${COMP_WORDS[at]} in
      --) break ;;
      --platform|--profile|--rank-unit|--nnodes|--node-rank|--nproc-per-node|--master-addr|--master-port|--run-id|--launcher|--python|--max-restarts|--rdzv-backend|--rdzv-endpoint|--torchrun-args|--log-dir|--env|--bind|--wait|--wait-timeout|--link|--link-timeout|--job-token-file|--job-restarts|--spares|--permanent|--restart-pause|--warm|--hang-notice|--hang-timeout|--hang-dumps|--check|--signal-scope|--grace|--leftover-grace|--rewrite-signal|--worker-signals|--parent-death-signal|--exit-map|--hold-on-failure|--report|--termination-log|--metrics-file|--run-dir|--pre-start|--pre-start-timeout|--post-stop|--post-stop-timeout|--log-level|--log-format|--config|--format) ((at += 2)) ;;
      --*) ((at += 1)) ;;
      *) break ;;
    esac
  done
  COMPREPLY=()
  if ((at < COMP_CWORD)); then
    [[ ${COMP_WORDS[at]} == -- ]] && ((at += 1))
    if declare -F _command_offset >/dev/null; then _command_offset "$at"; fi
    return
  fi
  case $previous in
    --platform) COMPREPLY=($(compgen -W 'auto none aihc arena-serving arnold ascend-operator ascend-processes ascend-rank-table aws-batch azure-batch azure-ml azure-ml-processes backend-ai baseten beaker clearml cube-studio determined dlrover dstack flux flux-tasks generic google-batch grid-engine grove htcondor hydra indexed-job jobset jsrun kthena kubebrain kubeflow-mpijob kubeflow-pytorchjob kubeflow-trainjob leaderworkerset lepton lsf meituan-afo metaflow modelarts monarch mosaicml mvapich neuron-pjrt ngc oar open-mpi other-frameworks pai-dlc pals pbs pjm pmix rolebasedgroup runai runpod sagemaker saturn-cloud sensecore skypilot slurm slurm-step slurm-tasks snowflake-ml-jobs statefulset taiji ti-one torchrun-variables torchrun-worker torchx tpu valohai vertex-ai volcano volcano-pytorch volcengine-mlp' -- "$current")) ;;
    --rank-unit) COMPREPLY=($(compgen -W 'auto node process' -- "$current")) ;;
    --nproc-per-node) COMPREPLY=($(compgen -W 'auto gpu cpu' -- "$current")) ;;
    --launcher) COMPREPLY=($(compgen -W 'auto torchrun launch native none' -- "$current")) ;;
    --rdzv-backend) COMPREPLY=($(compgen -W 'static c10d etcd-v2 etcd' -- "$current")) ;;
    --bind) COMPREPLY=($(compgen -W 'none numa' -- "$current")) ;;
    --wait) COMPREPLY=($(compgen -W 'auto port dns none' -- "$current")) ;;
    --link) COMPREPLY=($(compgen -W 'auto on off' -- "$current")) ;;
    --warm) COMPREPLY=($(compgen -W 'off auto' -- "$current")) ;;
    --hang-notice) COMPREPLY=($(compgen -W 'off' -- "$current")) ;;
    --hang-timeout) COMPREPLY=($(compgen -W 'off' -- "$current")) ;;
    --signal-scope) COMPREPLY=($(compgen -W 'auto child group tree' -- "$current")) ;;
    --worker-signals) COMPREPLY=($(compgen -W 'none' -- "$current")) ;;
    --termination-log) COMPREPLY=($(compgen -W 'none' -- "$current")) ;;
    --log-level) COMPREPLY=($(compgen -W 'error warn info debug' -- "$current")) ;;
    --log-format) COMPREPLY=($(compgen -W 'text json' -- "$current")) ;;
    --format) COMPREPLY=($(compgen -W 'text json sh dotenv' -- "$current")) ;;
  esac
  case $previous in
    --profile|--python|--log-dir|--job-token-file|--hang-dumps|--report|--termination-log|--metrics-file|--run-dir|--config) [[ ${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$current")) ;;
    --platform|--profile|--rank-unit|--nnodes|--node-rank|--nproc-per-node|--master-addr|--master-port|--run-id|--launcher|--python|--max-restarts|--rdzv-backend|--rdzv-endpoint|--torchrun-args|--log-dir|--env|--bind|--wait|--wait-timeout|--link|--link-timeout|--job-token-file|--job-restarts|--spares|--permanent|--restart-pause|--warm|--hang-notice|--hang-timeout|--hang-dumps|--check|--signal-scope|--grace|--leftover-grace|--rewrite-signal|--worker-signals|--parent-death-signal|--exit-map|--hold-on-failure|--report|--termination-log|--metrics-file|--run-dir|--pre-start|--pre-start-timeout|--post-stop|--post-stop-timeout|--log-level|--log-format|--config|--format) ;;
    *)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--platform --profile --rank-unit --strict --no-strict --nnodes --node-rank --nproc-per-node --master-addr --master-port --run-id --launcher --python --max-restarts --rdzv-backend --rdzv-endpoint --torchrun-args --export-pet --no-export-pet --record --no-record --log-dir --tee --no-tee --prefix --no-prefix --env --bind --wait --wait-timeout --link --link-timeout --job-token-file --job-restarts --spares --permanent --restart-pause --warm --hang-notice --hang-timeout --hang-dumps --check --signal-scope --grace --leftover-grace --rewrite-signal --worker-signals --stacks --no-stacks --warn-on-reap --no-warn-on-reap --parent-death-signal --ctty --no-ctty --exit-map --hold-on-failure --report --termination-log --metrics-file --run-dir --pre-start --pre-start-timeout --post-stop --post-stop-timeout --log-level --log-format --log-time --no-log-time --config --format --version --help --licenses' -- "$current"))
      elif [[ $previous == platforms ]]; then
        COMPREPLY=($(compgen -W 'check aihc arena-serving arnold ascend-operator ascend-processes ascend-rank-table aws-batch azure-batch azure-ml azure-ml-processes backend-ai baseten beaker clearml cube-studio determined dlrover dstack flux flux-tasks generic google-batch grid-engine grove htcondor hydra indexed-job jobset jsrun kthena kubebrain kubeflow-mpijob kubeflow-pytorchjob kubeflow-trainjob leaderworkerset lepton lsf meituan-afo metaflow modelarts monarch mosaicml mvapich neuron-pjrt ngc oar open-mpi other-frameworks pai-dlc pals pbs pjm pmix rolebasedgroup runai runpod sagemaker saturn-cloud sensecore skypilot slurm slurm-step slurm-tasks snowflake-ml-jobs statefulset taiji ti-one torchrun-variables torchrun-worker torchx tpu valohai vertex-ai volcano volcano-pytorch volcengine-mlp' -- "$current"))
      elif [[ $previous == help && $COMP_CWORD == 2 ]]; then
        COMPREPLY=($(compgen -W 'explain doctor demo env wait preflight platforms install status help version all R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R16 R17 R18 R19 R20 R21 R22 R23 R24 R25 R26 R27 R28 R29 R30 R31 R32 R33 R34 R35 R36 R37 R38 R39 R40 R41 R42 R43 R44 R45' -- "$current"))
      elif [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W 'explain doctor demo env wait preflight platforms install status help version' -- "$current") $(compgen -c -- "$current"))
      elif [[ $first == 1 ]]; then
        COMPREPLY=($(compgen -c -- "$current"))
      fi
      ;;
  esac
}
complete -o default -F _rankshim rankshim
