# bash completion of pdfseal-run: an environment, then what pdfseal takes
_pdfseal_run() {
  local file
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    for file in /etc/pdfseal/"${COMP_WORDS[1]}"*.toml; do
      [[ -e $file ]] && file=${file##*/} && COMPREPLY+=("${file%.toml}")
    done
  else
    declare -F _pdfseal >/dev/null || source /usr/share/bash-completion/completions/pdfseal
    local COMP_WORDS=(pdfseal "${COMP_WORDS[@]:2}") COMP_CWORD=$((COMP_CWORD - 1))
    _pdfseal
  fi
}
complete -F _pdfseal_run pdfseal-run
