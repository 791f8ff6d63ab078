#!/bin/sh
# Runs "fiador check" or "fiador suite compare" with annotations for the log, the
# report for the job's summary and, where one is wanted, a SARIF report.
#
# Exit status: that of the command, 0, 1 or 2; whatever else happens is 2.
# Outputs: status, the same; outcome, what was decided, also with report-only;
# report, the folder of the report of a comparison, if there is one.
set -eu

work='' decided=2
end() {
  [ -z "$work" ] || rm -rf "$work"
  exit "$decided"
}
trap end EXIT

fail() { # fail MESSAGE HINT
  printf '::error title=fiador::%s\n' "$(printf '%s' "$1" | tr '\r\n' '  ' | sed 's/%/%25/g')" >&2
  printf 'hint: %s\n' "$2" >&2
  exit 2
}

for name in FIADOR_PROGRAM INPUT_MODE INPUT_INTENTS INPUT_POLICY INPUT_TREE INPUT_WORKING_DIRECTORY INPUT_REPORT_ONLY INPUT_RUNS INPUT_SUITE_POLICY \
  RUNNER_TEMP GITHUB_OUTPUT GITHUB_STEP_SUMMARY; do
  eval "[ -n \"\${$name:-}\" ]" || fail "$name is empty or not set" "only inputs whose default is empty may be empty"
done
for name in INPUT_ORG_POLICY INPUT_CHANGED INPUT_COVERS INPUT_SARIF INPUT_RUN_ID INPUT_BASELINE INPUT_NEW INPUT_CASES INPUT_OUT INPUT_LIMITS INPUT_TOOLS INPUT_KEYS INPUT_SIGN; do
  eval "[ -n \"\${$name+set}\" ]" || fail "$name is not set" "it may be empty"
done
case $INPUT_REPORT_ONLY in
  true) report_only=1 ;;
  false) report_only= ;;
  *) fail "report-only \"$INPUT_REPORT_ONLY\" is neither true nor false" "leave it out for false" ;;
esac

each() { # each NAME LINES: --NAME=LINE for each line that is not empty
  printf '%s\n' "$2" | while IFS= read -r line; do
    [ -z "$line" ] || printf -- '--%s=%s\n' "$1" "$line"
  done
}

# Of each mode: arguments, more arguments in lines, what is decided in names, and where
# the report of a comparison stands in out.
case $INPUT_MODE in
  check)
    [ -z "$INPUT_RUN_ID$INPUT_BASELINE$INPUT_NEW$INPUT_CASES$INPUT_OUT$INPUT_LIMITS$INPUT_TOOLS$INPUT_KEYS$INPUT_SIGN" ] ||
      fail "an input of the mode suite is set, and the mode is check" "write mode: suite"
    set -- "--policy=$INPUT_POLICY" ${INPUT_CHANGED:+"--changed=$INPUT_CHANGED"} ${INPUT_COVERS:+"--covers=$INPUT_COVERS"}
    lines=$(each org-policy "$INPUT_ORG_POLICY") names=$INPUT_INTENTS out=
    [ -n "$(printf '%s' "$names" | tr -d '\n')" ] || fail "intents names nothing" "name files, folders or patterns, one a line"
    ;;
  suite)
    [ "$INPUT_POLICY" = default ] || fail "policy is an input of the mode check" "name the policy of the suite in suite-policy"
    [ -z "$INPUT_CHANGED$INPUT_COVERS" ] || fail "changed and covers are inputs of the mode check" "leave them out, or write mode: check"
    set --
    [ "$INPUT_SUITE_POLICY" = none ] || set -- "--policy=$INPUT_SUITE_POLICY"
    set -- "$@" ${INPUT_TOOLS:+"--tools=$INPUT_TOOLS"} ${INPUT_CASES:+"--cases=$INPUT_CASES"} ${INPUT_RUN_ID:+"--run-id=$INPUT_RUN_ID"}
    names=$INPUT_RUNS out=${INPUT_OUT:-$INPUT_RUNS}
    case $out in -*) out=./$out ;; esac
    if [ -n "$INPUT_NEW" ]; then
      [ -n "$INPUT_OUT" ] || fail "new is set, and out is not" "name the folder of the report in out"
      names=
    elif [ -n "$INPUT_BASELINE" ]; then
      fail "baseline is set, and new is not" "name the directories of both, or none and the folder runs"
    fi
    lines=$(
      each org-policy "$INPUT_ORG_POLICY"
      each baseline "$INPUT_BASELINE"
      each new "$INPUT_NEW"
      each key "$INPUT_KEYS"
    )
    while IFS= read -r line; do
      case $line in
        '') continue ;;
        allow-removed | max-regressions=* | max-infra=* | max-flaky=* | min-pass-rate=* | max-weak-rate=* | alpha=* | min-answers=*) ;;
        *) fail "limits has the line \"$line\"" "a line is allow-removed, or a limit of fiador suite compare, = and a number" ;;
      esac
      set -- "$@" "--$line"
    done <<END
$INPUT_LIMITS
END
    ;;
  *) fail "mode \"$INPUT_MODE\" is neither check nor suite" "leave it out for check" ;;
esac

# The arguments are what decides, and what is decided behind "--", where nothing
# is a flag.
set -- "$@" "--tree=$INPUT_TREE"
while IFS= read -r line; do
  [ -z "$line" ] || set -- "$@" "$line"
done <<END
$lines
--
$names
END

decide() { # decide FLAG...
  case $INPUT_MODE in
    check) "$FIADOR_PROGRAM" check "$@" </dev/null ;;
    *) "$FIADOR_PROGRAM" suite compare "$@" </dev/null ;;
  esac
}

work=$(mktemp -d "$RUNNER_TEMP/fiador.XXXXXX")
case $INPUT_WORKING_DIRECTORY in
  -*) folder=./$INPUT_WORKING_DIRECTORY ;;
  *) folder=$INPUT_WORKING_DIRECTORY ;;
esac
status=0
if cd "$folder" 2>"$work/stderr"; then
  decide --format=github "--report=markdown=$work/summary" ${INPUT_SARIF:+"--report=sarif=$INPUT_SARIF"} \
    ${report_only:+--report-only} ${out:+"--out=$out"} ${INPUT_SIGN:+"--sign=$INPUT_SIGN"} "$@" 2>"$work/stderr" || status=$?
else
  status=2
  echo "fiador: the working directory cannot be entered" >>"$work/stderr"
fi

# The runner obeys "##[command]" anywhere in a line, and lines of stderr quote what
# stands in intents and runs.
LC_ALL=C sed 's/##\[/# #[/g' "$work/stderr" >&2

# With report-only the exit status does not say what was decided; the same command
# without it does. The report of this one is thrown away.
verdict=$status
if [ -n "$report_only" ] && [ "$status" -eq 0 ]; then
  decide ${out:+"--out=$work/again"} "$@" >/dev/null 2>&1 || verdict=$?
fi
case $verdict in
  0) outcome=accepted ;;
  1) outcome=rejected ;;
  *) outcome=error status=2 ;;
esac

report=
if [ -s "$work/summary" ]; then
  [ -z "$out" ] || report=$(CDPATH='' cd "$out" && pwd)
  case $report in # an output is one line
    *[[:cntrl:]]*) fail "the folder of the report has a control character in its name" "give it another name" ;;
  esac
else
  [ "$INPUT_MODE" = check ] || echo '::error title=fiador::suite compare made no decision, the log of the step says why' >&2
  printf '# fiador: ERROR, no decision was made\n\nThe log of the step says why.\n' >"$work/summary"
fi
cat "$work/summary" >>"$GITHUB_STEP_SUMMARY"
printf 'status=%s\noutcome=%s\n' "$status" "$outcome" >>"$GITHUB_OUTPUT"
[ -z "$report" ] || printf 'report=%s\n' "$report" >>"$GITHUB_OUTPUT"
decided=$status
