# bash completion for rankshim
_rankshim() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} at=1 first
  # The first word that is neither an option nor an option's value begins the command.
  [[ " explain doctor demo env wait platforms install status " == *" ${COMP_WORDS[1]} "* ]] && at=2
  first=$at
  while ((at < COMP_CWORD)); do
    case ${COMP_WORDS[at]} in
      --) break ;;
      --platform|--profile|--rank-unit|--nnodes|--node-rank|--nproc-per-node|--master-addr|--master-port|--run-id|--launcher|--python|--max-restarts|--rdzv-backend|--rdzv-endpoint|--rdzv-conf|--local-addr|--torchrun-args|--log-dir|--env|--rank-order|--bind|--wait|--wait-timeout|--signal-scope|--grace|--leftover-grace|--pre-stop-delay|--rewrite-signal|--worker-signals|--term-signal|--parent-death-signal|--child-death-signal|--exit-map|--exit-code|--hold-on-failure|--report|--termination-log|--redact|--run-dir|--pre-start|--pre-start-timeout|--post-stop|--post-stop-timeout|--log-level|--log-format|--config|--format|--env-file|--container|--phase) ((at += 2)) ;;
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
    --platform) COMPREPLY=($(compgen -W 'auto none' -- "$current")) ;;
    --rank-unit) COMPREPLY=($(compgen -W 'auto node process' -- "$current")) ;;
    --nproc-per-node) COMPREPLY=($(compgen -W 'auto gpu cpu' -- "$current")) ;;
    --launcher) COMPREPLY=($(compgen -W 'auto torchrun launch native none' -- "$current")) ;;
    --rdzv-backend) COMPREPLY=($(compgen -W 'static c10d etcd-v2 etcd' -- "$current")) ;;
    --rank-order) COMPREPLY=($(compgen -W 'block cyclic' -- "$current")) ;;
    --bind) COMPREPLY=($(compgen -W 'none numa' -- "$current")) ;;
    --wait) COMPREPLY=($(compgen -W 'auto port dns none' -- "$current")) ;;
    --signal-scope) COMPREPLY=($(compgen -W 'auto child group tree' -- "$current")) ;;
    --worker-signals) COMPREPLY=($(compgen -W 'none' -- "$current")) ;;
    --exit-code) COMPREPLY=($(compgen -W 'cause launcher' -- "$current")) ;;
    --termination-log) COMPREPLY=($(compgen -W 'none' -- "$current")) ;;
    --log-level) COMPREPLY=($(compgen -W 'error warn info debug' -- "$current")) ;;
    --log-format) COMPREPLY=($(compgen -W 'text json' -- "$current")) ;;
    --phase) COMPREPLY=($(compgen -W 'pre-start resolve wait launch run wind-down post-stop held' -- "$current")) ;;
  esac
  case $previous in
    --profile|--python|--log-dir|--report|--termination-log|--run-dir|--config|--env-file) [[ ${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$current")) ;;
    --platform|--profile|--rank-unit|--nnodes|--node-rank|--nproc-per-node|--master-addr|--master-port|--run-id|--launcher|--python|--max-restarts|--rdzv-backend|--rdzv-endpoint|--rdzv-conf|--local-addr|--torchrun-args|--log-dir|--env|--rank-order|--bind|--wait|--wait-timeout|--signal-scope|--grace|--leftover-grace|--pre-stop-delay|--rewrite-signal|--worker-signals|--term-signal|--parent-death-signal|--child-death-signal|--exit-map|--exit-code|--hold-on-failure|--report|--termination-log|--redact|--run-dir|--pre-start|--pre-start-timeout|--post-stop|--post-stop-timeout|--log-level|--log-format|--config|--format|--env-file|--container|--phase) ;;
    *)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--platform --profile --rank-unit --strict --no-strict --nnodes --node-rank --nproc-per-node --master-addr --master-port --run-id --launcher --python --max-restarts --rdzv-backend --rdzv-endpoint --rdzv-conf --local-addr --torchrun-args --nccl-ifname --no-nccl-ifname --export-pet --no-export-pet --record --no-record --log-dir --tee --no-tee --prefix --no-prefix --env --placeholders --no-placeholders --rank-order --bind --wait --wait-timeout --signal-scope --grace --leftover-grace --pre-stop-delay --rewrite-signal --worker-signals --term-signal --stacks --no-stacks --subreaper --no-subreaper --warn-on-reap --no-warn-on-reap --parent-death-signal --child-death-signal --no-new-privs --no-no-new-privs --ctty --no-ctty --exit-map --exit-code --hold-on-failure --report --termination-log --redact --run-dir --pre-start --pre-start-timeout --post-stop --post-stop-timeout --log-level --log-format --config --format --env-file --container --phase --version --help --licenses' -- "$current"))
      elif [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W 'explain doctor demo env wait platforms install status' -- "$current") $(compgen -c -- "$current"))
      elif [[ $first == 1 ]]; then
        COMPREPLY=($(compgen -c -- "$current"))
      fi
      ;;
  esac
}
complete -o default -F _rankshim rankshim
