#!/bin/sh
# safe-run wrapper, contract M0-v0.1.0: finds the safe-run binary and becomes it.
#
# The binary is SAFE_RUN_BIN, else a safe-run beside this file, else the first
# safe-run in PATH; what begins like this file is a wrapper and no binary. All
# arguments are the binary's, but for a first --wrapper-help.

# In a subshell, and without a variable outside it: one that the caller exports under
# the same name would reach the command changed.
find_safe_run() (
  binary() {
    [ -f "$1" ] && [ -x "$1" ] || return 1
    line=
    { read -r line && read -r line; } 2>/dev/null <"$1"
    case $line in "# safe-run wrapper"*) return 1 ;; esac
  }
  set -f
  if [ -n "${SAFE_RUN_BIN-}" ]; then
    case $SAFE_RUN_BIN in */*) ;; *) SAFE_RUN_BIN=./$SAFE_RUN_BIN ;; esac
    binary "$SAFE_RUN_BIN" && printf %s "$SAFE_RUN_BIN"
    exit
  fi
  case $0 in */*) beside=${0%/*}/ ;; *) beside=./ ;; esac
  binary "${beside}safe-run" && printf %s "${beside}safe-run" && exit
  IFS=:
  for folder in ${PATH-}; do
    binary "${folder:-.}/safe-run" && printf %s "${folder:-.}/safe-run" && exit
  done
)

if [ "${1-}" = --wrapper-help ]; then
  cat <<'HELP'
Usage: safe-run.sh COMMAND [ARGUMENT...]

Runs the safe-run binary with these arguments, for contract M0-v0.1.0. The binary is
SAFE_RUN_BIN, else a safe-run beside this file, else the first safe-run in PATH.
Exit code 127 says that there is none; everything else is the binary's.
HELP
  exit 0
fi

set -- "$(find_safe_run)" "$@"
if [ -z "$1" ]; then
  echo "safe-run.sh: no safe-run binary for contract M0-v0.1.0: set SAFE_RUN_BIN to it, or put it beside this file or in PATH" >&2
  exit 127
fi
exec "$@"
