#compdef pdfseal-run
# An environment, then what pdfseal takes.
if (( CURRENT == 2 )); then
  local -a environments=(/etc/pdfseal/*.toml(N:t:r))
  compadd -a environments
else
  words=(pdfseal "${(@)words[3,-1]}")
  (( CURRENT -= 1 ))
  _pdfseal
fi
