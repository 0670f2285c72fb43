# SPDX-License-Identifier: Apache-2.0
#
# Completion of wsctl for fish. What could come is wsctl's to say: `wsctl complete WORD...`.

function __wsctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)

    for line in (command $words[1] complete -- $words[2..] "$current" 2>/dev/null)
        switch $line
            case \tfiles \tdirectories
                __fish_complete_path "$current"
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c wsctl -f -a '(__wsctl_complete)'
