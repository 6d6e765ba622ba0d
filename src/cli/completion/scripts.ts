/** The completion scripts of the shells. They only call `pdfseal` for each word, so they cannot become out of date. */

/** The first argument of a completion call; the words of the command line follow, with the word being typed last. */
export const ASK = '__complete';
/** A line of the answer: file names fit too. */
export const FILES = ':files';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

export const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `# bash completion of pdfseal
_pdfseal() {
  local current=\${COMP_WORDS[COMP_CWORD]} line
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "\${current#=}")
    else
      COMPREPLY+=("\${line%%$'\\t'*}")
    fi
  done < <("\${COMP_WORDS[0]}" ${ASK} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _pdfseal pdfseal
`,
  zsh: `#compdef pdfseal
_pdfseal() {
  local -a found
  local line files
  for line in "\${(@f)$("\${words[1]}" ${ASK} "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == ${FILES} ]]; then files=1
    elif [[ -n $line ]]; then found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done
  (( $#found )) && _describe -V pdfseal found
  [[ -n $files ]] && _files
}
if [[ "$funcstack[1]" == _pdfseal ]]; then _pdfseal "$@"; else compdef _pdfseal pdfseal; fi
`,
  fish: `# fish completion of pdfseal
function __pdfseal_complete
    set -l current (commandline --current-token)
    set -l words (commandline --tokenize --cut-at-cursor --current-process) $current
    for line in (command $words[1] ${ASK} $words[2..-1] 2>/dev/null)
        if test "$line" = ${FILES}
            __fish_complete_path $current
        else
            echo $line
        end
    end
end
complete --command pdfseal --no-files --arguments '(__pdfseal_complete)'
`,
};
