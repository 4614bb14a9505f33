# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of the command postern for bash: source it, or install it as bash-completion/completions/postern.
# What can be completed is read from the help pages of the program itself, so it never lags behind them.

# _postern_options PROGRAM COMMAND: lines "--name" or "--name VALUE", short ones too
_postern_options() {
    "$1" help "$2" 2>/dev/null |
        sed -nE 's/^  (-(.),|   ) --([a-z-]+)( [^ ]+)?( .*)?$/\2 \3\4/p; s/^  -h, --help .*/h help/p' |
        while read -r first second third; do
            if [ "${#first}" -eq 1 ]; then
                echo "-$first $third"
                echo "--$second $third"
            else
                echo "--$first $second"
            fi
        done
}

# _postern_value PLACEHOLDER WORD: completes the value of an option
_postern_value() {
    case $1 in
    FILE | *@FILE) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    [!A-Z]*'|'*) mapfile -t COMPREPLY < <(compgen -W "${1//|/ }" -- "$2") ;;
    *) COMPREPLY=() ;;
    esac
}

_postern_commands() {
    "$1" help 2>/dev/null | sed -nE '/^commands:/,/^$/s/^  ([a-z]+) .*/\1/p'
}

_postern() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]-} name value
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_postern_commands "$program") --help --version" -- "$word")
        return
    fi
    if [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_postern_commands "$program")" -- "$word")
        return
    fi
    if [ "$word" = = ]; then # bash splits --name=value at the sign
        word=
    elif [ "$previous" = = ]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    local names=()
    while read -r name value; do
        names+=("$name")
        if [ "$name" = "$previous" ] && [ -n "$value" ]; then
            _postern_value "$value" "$word"
            return
        fi
    done < <(_postern_options "$program" "$command")
    if [ "${word:0:1}" = - ]; then
        mapfile -t COMPREPLY < <(compgen -W "${names[*]}" -- "$word")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -X '!*.gguf' -- "$word"; compgen -d -- "$word")
    fi
}

complete -F _postern postern
