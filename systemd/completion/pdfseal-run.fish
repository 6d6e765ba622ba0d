# fish completion of pdfseal-run: an environment, then what pdfseal takes
function __pdfseal_run_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    if test (count $words) -eq 1
        for file in /etc/pdfseal/*.toml
            string replace --regex '.*/(.*)\.toml$' '$1' $file
        end
    else
        complete --do-complete "pdfseal "(string join -- ' ' (string escape -- $words[3..-1]) (commandline --current-token))
    end
end
complete --command pdfseal-run --no-files --arguments '(__pdfseal_run_complete)'
