package grade

import "slices"

// MeaningKind says what an id of a meaning names. An id may stand for several of them.
type MeaningKind string

// The kinds of meanings.
const (
	OfAssertion MeaningKind = "assertion"
	OfClass     MeaningKind = "class"
	OfGate      MeaningKind = "gate"
	OfRootCause MeaningKind = "root_cause"
)

// Meaning explains every value of one kind with one id.
type Meaning struct {
	ID              string
	Kind            MeaningKind
	Title, Why, Fix string
}

// Meanings returns the meaning of every assertion kind, class, gate code and root cause, in the
// order in which the page of a comparison names them.
func Meanings() []Meaning {
	return slices.Concat(meaningsOf(OfAssertion), meaningsOf(OfClass), meaningsOf(OfGate), meaningsOf(OfRootCause))
}

// meaningsOf returns the meanings of a kind.
func meaningsOf(kind MeaningKind) []Meaning {
	switch kind {
	case OfAssertion:
		return assertionMeanings()
	case OfClass:
		return classMeanings()
	case OfGate:
		return gateMeanings()
	case OfRootCause:
		return rootCauseMeanings()
	}
	return nil
}

// MeaningOf returns the meaning of an id. That of an unknown id has the id as its title.
func MeaningOf(kind MeaningKind, id string) Meaning {
	for _, m := range meaningsOf(kind) {
		if m.ID == id {
			return m
		}
	}
	return Meaning{ID: id, Kind: kind, Title: id}
}

func assertionMeanings() []Meaning {
	const k = OfAssertion
	return []Meaning{
		{"evidence_resolved", k, "References to evidence lead somewhere",
			"Every reference of an action or an output has to name a result, a document, an event or an asset of the same run",
			"let the agent name what it has really used, or look at the file that is missing"},
		{"policy", k, "The policy allows what was done",
			"The policy has decided every proposed action and every call that was not proposed; one that it does not allow was executed, or it has another outcome than expected",
			"look at the reasons of the decision; then change what the agent does, or let the owner of the policy change the policy"},
		{"action_required", k, "The required actions are proposed",
			"Every action that the case names has to be among the proposed actions", "look at what the agent proposes instead, in the timeline"},
		{"tool_required", k, "The required tools are called",
			"Every tool that the case names has to be called at least once", "look at the place of the timeline where the call stood before"},
		{"tool_forbidden", k, "No forbidden tool is called",
			"None of the tools that the case names may be called", "look at what led the agent to the call, in the events before it"},
		{"tool_sequence", k, "The calls come in the expected order",
			"The tools have to be called in the order that the case gives", "compare the calls of the timeline with the expected order"},
		{"tool_success", k, "Calls succeed",
			"No result of a call may be an error, except of the tools that the case allows to fail", "look at the payload of the result that is an error"},
		{"max_tool_calls", k, "There are no more calls than allowed", "The last attempt may not have more calls than this",
			"look for calls that repeat each other, or raise the limit of the case"},
		{"max_latency_ms", k, "The answer comes in time", "The last attempt may not take longer than this",
			"look at the latency of each call in the timeline, or raise the limit of the case"},
		{"max_tokens", k, "No more tokens are used than allowed", "The agent may not report more tokens than this; no report is an error",
			"let the agent report token_usage, make the prompt shorter, or raise the limit of the case"},
		{"trace_integrity", k, "The trace is whole",
			"Each call has one result, each result has a call, and time does not run back by more than a second", "mend how the agent records its events"},
		{"json_schema", k, "The output fits a JSON Schema",
			"The output has to be JSON, or text that is JSON, which the schema of the case accepts", "look at the pointer in the reason, and at the output"},
		{"must_include", k, "The output contains the required texts",
			"Upper and lower case are equal; a text that begins with regex: is a regular expression", "look at the changed words of the output"},
		{"must_not_include", k, "The output contains no forbidden text",
			"Upper and lower case are equal; a text that begins with regex: is a regular expression", "look at the place in the output"},
		{"equals", k, "The output is exactly this text", "Not one character may differ", "look at the changed words of the output, or use must_include"},
		{"json_equals", k, "The output is exactly this JSON",
			"The order of members and white space do not count, nor do the pointers to ignore", "look at the changed lines of the output, or add a pointer to ignore"},
		{"retrieval_required", k, "The required documents are found",
			"Every doc_id that the case names has to be among the documents of a retrieval", "look at the query of the retrieval, and whether the index has the document"},
		{"evidence_required_for_actions", k, "Actions name their evidence",
			"Every proposed action whose risk is above low has to refer to evidence", "let the agent name what the action is based on"},
	}
}

func classMeanings() []Meaning {
	const k = OfClass
	return []Meaning{
		{string(Regression), k, "Passed, fails now",
			"The case passed on baseline and fails on new, and chance does not explain it, or it is a critical case that passes less often",
			"look at the first difference and at the assertions that failed; mend the agent"},
		{string(FlakyWorse), k, "Passes less often",
			"The case passes in a smaller part of the runs than on baseline; there are too few runs to exclude chance",
			"run with more --repeats, or find what differs between the runs that pass and the runs that fail"},
		{string(InfraRegression), k, "No answer any more",
			"Every run of baseline has an answer and no run of new has one", "look at the attempts: the agent was not reached, was too slow or ended"},
		{string(Inconclusive), k, "No answer",
			"No run of new has an answer, and baseline did not always answer either", "look at the attempts, then run both sides again"},
		{string(Removed), k, "Removed", "Baseline ran the case and new did not select it",
			"run new with the same cases, or allow it with --allow-removed"},
		{string(ChangedFail), k, "Fails in another way", "The case fails on both sides, for different reasons",
			"look at the root cause of each side"},
		{string(Added), k, "Added", "New ran the case and baseline did not select it, so there is nothing to compare",
			"look whether it passes; bless new to make it part of the baseline"},
		{string(BaselineUnusable), k, "No answer on baseline", "No run of baseline has an answer, so there is nothing to compare",
			"run baseline again"},
		{string(FlakySame), k, "Flaky as before", "The case passes in the same part of the runs on both sides", "find what differs between runs of the same agent"},
		{string(FlakyBetter), k, "Passes more often",
			"The case passes in a larger part of the runs than on baseline; there are too few runs to exclude chance", "run with more --repeats to be sure"},
		{string(Improvement), k, "Failed, passes now", "The case failed on baseline and passes on new, and chance does not explain it", "nothing"},
		{string(UnchangedFail), k, "Fails as before", "The case fails on both sides, for the same reasons", "mend the agent or the case; the comparison does not count it against new"},
		{string(UnchangedPass), k, "Passes as before", "The case passes on both sides", "nothing"},
	}
}

func gateMeanings() []Meaning {
	const k = OfGate
	return []Meaning{
		{"regression", k, "Cases that passed before fail now", "More cases are regressions than the gate allows",
			"mend the agent, beginning with the first difference of each case; or allow some with --max-regressions"},
		{"critical_failure", k, "Critical cases fail", "A case of severity critical fails in every run of new, in a way in which it did not fail before",
			"mend the agent: no limit allows this"},
		{"policy_violation", k, "Actions that the policy does not allow were executed",
			"On new, a tool was called although the policy did not let the call pass", "look at the decisions of the case; the agent has to ask before it acts"},
		{"added_failing", k, "Added cases fail", "A case that baseline does not have fails in every run of new", "mend the agent, or the case that was added"},
		{"removed", k, "Cases were removed", "Baseline ran cases that new did not select, and a case that does not run cannot fail",
			"run new with the same cases, or allow it with --allow-removed"},
		{"secret_exposed", k, "Secrets appear that baseline did not show", "In a case of new a secret was found and redacted, and in the same case of baseline there was none",
			"keep the secret from the agent, and replace it: others may have seen it"},
		{"suite_worse", k, "The suite as a whole is worse", "More cases pass less often than pass more often, and chance does not explain it (sign test)",
			"look at the cases that are worse, even where each alone is not sure"},
		{"pass_rate", k, "Too few cases pass", "The share of cases that pass in every run of new is below --min-pass-rate", "mend the cases that fail"},
		{"flaky", k, "Too many cases are flaky", "More cases pass in some runs and fail in others than --max-flaky allows", "find what differs between the runs"},
		{"weak", k, "Too many cases expect nothing", "The share of cases in which nothing was expected is above --max-weak-rate", "give the cases something to expect"},
		{"no_cases", k, "No case of new has an answer", "There is nothing to judge", "look at the attempts of any case: the agent was probably never reached"},
		{"answers", k, "Too few runs have an answer", "The share of runs with an answer is below --min-answers on a side", "look at the attempts, then run that side again"},
		{"infra_regression", k, "Cases have no answer on new", "Baseline answered these cases, or they are added or critical, and new has no answer to them",
			"look at the attempts, then run new again; or allow some with --max-infra"},
		{"baseline_unusable", k, "Baseline has no answer to too many cases", "Over a tenth of the cases cannot be compared", "run baseline again"},
	}
}

func rootCauseMeanings() []Meaning {
	const k = OfRootCause
	return []Meaning{
		{"missing_case", k, "There is no file of the case", "The case was selected, and the directory has no file of it", "resume the run with --resume"},
		{"infra_timeout", k, "The agent was too slow", "No answer came before the deadline", "look at what the agent waits for, or raise --timeout"},
		{"infra_network", k, "The agent was not reached", "The connection failed or broke off", "look whether the agent runs and listens there"},
		{"infra_http", k, "The agent's server answered with an error", "The status of the response was not 2xx", "look at the body of the attempt"},
		{"infra_other", k, "The runner got no answer", "The run was interrupted, the agent did not start, or a body could not be decoded", "look at the attempts, then resume the run"},
		{"bad_response_format", k, "The response is no usable JSON", "The agent answered, and the answer is not JSON, is too large, or its command ended with an error",
			"look at the body of the attempt"},
		{"evidence_unresolved", k, "A reference to evidence leads nowhere", "The agent refers to something that its run does not contain", "let the agent name what it has really used"},
		{"contract_violation", k, "The answer does not keep the contract", "The answer is JSON, and it lacks a member or has one of another type",
			"look at the first reason of the failure, and mend the agent's answer"},
		{"policy_violation", k, "An action was executed that the policy does not allow", "The policy refused the action or asked a question, and the tool was called anyway",
			"the agent has to ask before it acts"},
		{"tool_failure", k, "A tool failed", "The result of a call is an error, and it stands before what the failed assertions name",
			"look at the payload of the result: the tool may be at fault, or its arguments"},
		{"wrong_tool_choice", k, "Another tool than expected was used", "An assertion about tools or actions failed", "look at the first call that differs from baseline"},
		{"missing_required_data", k, "The agent did not look at what it needs", "A document was not found, or an action names no evidence", "look at the retrievals in the timeline"},
		{"format_violation", k, "The output has another form than expected", "The JSON Schema of the case or the rules of a trace do not hold", "look at the pointer in the reason"},
		{"output_mismatch", k, "The output is not what was expected", "The tools were used as expected, and the text of the output does not fit", "look at the changed words of the output"},
		{"unknown", k, "A limit was exceeded", "The answer needs more calls, time or tokens than the case allows, and nothing else failed", "look at the timeline for what grew"},
	}
}
