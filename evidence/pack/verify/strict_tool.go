package verify

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/adapter"
)

// The shape of tool_io.json is exactly that of [pack.ToolIO] (ST13).

// checkToolIO is ST13: the recording is that of the attempts of runner.json.
//
//   - mode is the model mode of the run
//   - interactions are the attempts of the adapters that they name, in their order, with
//     code and failure. An answer that the output transforms cannot read is a failure of
//     the attempt alone
//   - the action is a call of a tool in the plan, and its first adapter has the digest of
//     the plan
//   - the attempts of one adapter for one action have one digest and one request. If the
//     adapter has answered, that is the request of the evidence
//   - every call that was answered, and of which no command ran, has its answer here
//
// A pack has no document of a tool. So nothing proves the digest of a fallback, the
// request of an adapter that has not answered, and how the response became the answer.
func (s *strictLevel) checkToolIO() {
	t := s.tool
	if t == nil || s.run == nil || s.evidence == nil || s.runner == nil {
		return
	}
	s.must(t.Mode == s.run.ModelMode, "ST13", pack.ToolFile+"#/mode", "not the model mode of the run, %s", s.run.ModelMode)
	type asked struct {
		action  int
		adapter string
	}
	first, leads := map[asked]pack.ToolInteraction{}, map[int]string{}
	for _, in := range t.Interactions {
		if at := (asked{in.Action, in.AdapterID}); in.Attempt == 1 {
			first[at] = in
		}
	}
	for _, c := range s.served() {
		_, answered := first[asked{c.Action, c.AdapterID}]
		s.must(answered, "ST13", pack.At(pack.ToolFile, "interactions"), "none of adapter %s, which has answered action %d", pack.Quoted(c.AdapterID), c.Action)
	}
	var attempts []pack.Attempt
	for _, a := range s.runner.Attempts {
		if leads[a.Action] == "" {
			leads[a.Action] = a.AdapterID
		}
		if _, ours := first[asked{a.Action, a.AdapterID}]; ours {
			attempts = append(attempts, a)
		}
	}
	if len(attempts) != len(t.Interactions) {
		s.fault("ST13", pack.At(pack.ToolFile, "interactions"), "%d, and runner.json has %d attempts of their adapters", len(t.Interactions), len(attempts))
		return
	}
	for i, in := range t.Interactions {
		s.checkAttempt(i, in, attempts[i], leads[in.Action] == in.AdapterID)
		same := first[asked{in.Action, in.AdapterID}]
		s.must(in.AdapterSHA256 == same.AdapterSHA256 && in.RequestHash == same.RequestHash, "ST13", pack.At(pack.ToolFile, "interactions", strconv.Itoa(i)),
			"another adapter or request than at the first attempt")
	}
}

// checkAttempt compares an interaction with its attempt. leads says whether the adapter is
// the first one of the call.
func (s *strictLevel) checkAttempt(i int, in pack.ToolInteraction, a pack.Attempt, leads bool) {
	here := func(name string) string { return pack.At(pack.ToolFile, "interactions", strconv.Itoa(i), name) }
	s.must(in.Action == a.Action && in.AdapterID == a.AdapterID, "ST13", here("action"), "not the attempt that is next in runner.json")
	s.must(in.Code == a.Code, "ST13", here("code"), "not that of the attempt, %d", a.Code)
	unread := in.Failure == "" && a.Failure == adapter.FailOutput
	s.must(in.Failure == a.Failure || unread, "ST13", here("failure"), "not that of the attempt, %s", pack.Quoted(a.Failure))
	if s.plan.whole {
		s.must(s.plan.isBound(in.Action), "ST13", here("action"), "no call of a tool in the plan")
		if leads && s.plan.isBound(in.Action) {
			s.must(in.AdapterSHA256 == s.plan.actions[in.Action].tool.AdapterSHA256, "ST13", here("adapter_sha256"), "not that of the plan")
		}
	}
	call := slices.IndexFunc(s.evidence.Calls, func(c pack.CallEvidence) bool { return c.Action == in.Action && c.AdapterID == in.AdapterID })
	switch {
	case call >= 0:
		s.must(in.RequestHash == s.evidence.Calls[call].PromptHash, "ST13", here("request_hash"), "not that of the call")
	case a.Failure == "":
		s.fault("ST13", here("response_content"), "an answer, and the evidence has no call that it answers")
	}
	s.must(a.Failure != "" || !s.ran(in.Action), "ST13", here("response_content"), "an answer, and at last a command of the call ran")
}

// served returns the calls of tools that were answered, and of which no command ran at last.
func (s *strictLevel) served() (list []pack.CallEvidence) {
	if s.evidence == nil {
		return nil
	}
	for _, c := range s.evidence.Calls {
		if s.plan.isBound(c.Action) && !s.ran(c.Action) {
			list = append(list, c)
		}
	}
	return list
}

// ran says whether a command of an action ran.
func (s *strictLevel) ran(action int) bool {
	return slices.ContainsFunc(s.evidence.Runs, func(r pack.RunEvidence) bool { return r.Action == action })
}
