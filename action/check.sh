#!/bin/sh
# Runs "fiador check" with annotations for the log, the report for the job's
# summary and, where one is wanted, a SARIF report.
#
# Exit status: that of the check, 0, 1 or 2; whatever else happens is 2.
# Outputs: status, the same; outcome, what was decided, also with report-only.
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

for name in FIADOR_PROGRAM INPUT_INTENTS INPUT_POLICY INPUT_TREE INPUT_WORKING_DIRECTORY INPUT_REPORT_ONLY RUNNER_TEMP GITHUB_OUTPUT GITHUB_STEP_SUMMARY; do
  eval "[ -n \"\${$name:-}\" ]" || fail "$name is empty or not set" "of the inputs only org-policy and sarif may be empty"
done
for name in INPUT_ORG_POLICY INPUT_SARIF; do
  eval "[ -n \"\${$name+set}\" ]" || fail "$name is not set" "it may be empty"
done
case $INPUT_REPORT_ONLY in
  true) report_only=1 ;;
  false) report_only= ;;
  *) fail "report-only \"$INPUT_REPORT_ONLY\" is neither true nor false" "leave it out for false" ;;
esac

# The arguments are what decides, and what is decided behind "--", where nothing
# is a flag.
set -- "--policy=$INPUT_POLICY" "--tree=$INPUT_TREE"
while IFS= read -r line; do
  [ -z "$line" ] || set -- "$@" "--org-policy=$line"
done <<END
$INPUT_ORG_POLICY
END
set -- "$@" --
flags=$#
while IFS= read -r line; do
  [ -z "$line" ] || set -- "$@" "$line"
done <<END
$INPUT_INTENTS
END
[ "$#" -gt "$flags" ] || fail "intents names nothing" "name files, folders or patterns, one a line"

work=$(mktemp -d "$RUNNER_TEMP/fiador.XXXXXX")
case $INPUT_WORKING_DIRECTORY in
  -*) folder=./$INPUT_WORKING_DIRECTORY ;;
  *) folder=$INPUT_WORKING_DIRECTORY ;;
esac
status=0
if cd "$folder" 2>"$work/stderr"; then
  "$FIADOR_PROGRAM" check --format=github "--report=markdown=$work/summary" ${INPUT_SARIF:+"--report=sarif=$INPUT_SARIF"} \
    ${report_only:+--report-only} "$@" </dev/null 2>"$work/stderr" || status=$?
else
  status=2
  echo "fiador: the working directory cannot be entered" >>"$work/stderr"
fi

# The runner obeys "##[command]" anywhere in a line, and lines of stderr quote what
# stands in intents.
LC_ALL=C sed 's/##\[/# #[/g' "$work/stderr" >&2

# With report-only the exit status does not say what was decided; the same check
# without it does.
verdict=$status
if [ -n "$report_only" ] && [ "$status" -eq 0 ]; then
  "$FIADOR_PROGRAM" check "$@" </dev/null >/dev/null 2>&1 || verdict=$?
fi
case $verdict in
  0) outcome=accepted ;;
  1) outcome=rejected ;;
  *) outcome=error status=2 ;;
esac

[ -s "$work/summary" ] || printf '# fiador: ERROR, no decision was made\n\nThe log of the step says why.\n' >"$work/summary"
cat "$work/summary" >>"$GITHUB_STEP_SUMMARY"
printf 'status=%s\noutcome=%s\n' "$status" "$outcome" >>"$GITHUB_OUTPUT"
decided=$status
