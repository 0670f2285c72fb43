# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Completion of wsctl for bash. What could come is wsctl's to say: `wsctl complete WORD...`.

_wsctl() {
  local rest=$COMP_LINE words=() before word line i cur prefix=''

  # bash also cuts words at : and =; those that have no blank between them are one.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    before=$rest
    rest=${rest#"${rest%%[![:space:]]*}"}
    if [[ $i -gt 0 && $rest == "$before" && ${#words[@]} -gt 0 && -n $word ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    rest=${rest#"$word"}
  done
  cur=${words[-1]}
  # Only what comes behind the last of these is replaced.
  [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]] && prefix=${cur%"${cur##*:}"}
  [[ $COMP_WORDBREAKS == *=* && ${cur#"$prefix"} == *=* ]] && prefix=${cur%"${cur##*=}"}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      $'\tfiles') compopt -o default 2>/dev/null ;;
      $'\tdirectories') compopt -o dirnames 2>/dev/null ;;
      *)
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$prefix"}")
        ;;
    esac
  done < <("${1/#\~/$HOME}" complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _wsctl wsctl
