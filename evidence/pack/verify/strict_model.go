package verify

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// The shape of model_io.json is exactly that of [ModelIO] (ST10). MI1 to MI11 are the
// checks of other readers of the format.

// checkModelIO is ST10: the recording is that of the calls of the evidence.
//
//   - mode is the model mode of the run; a run without a model has no calls, nor has its
//     plan, except for those that tools perform
//   - interactions are the other calls, in their order, with their prompt and response
//   - the prompt is the one that the plan's call sends to the model; calls that were not
//     come to would go to the same adapter, and have a prompt too
//   - the output that the response is has its length; that it is one is ST7
//   - tokens_input and tokens_output of what was recorded are those of [Tokens], and
//     latency_ms is there. What was replayed has what the recording had
func (s *strictLevel) checkModelIO() {
	if s.run == nil || s.evidence == nil {
		return
	}
	calls := slices.DeleteFunc(slices.Clone(s.evidence.Calls), func(c pack.CallEvidence) bool { return s.plan.isBound(c.Action) })
	switch planned := s.plan.modelCalls(); {
	case s.run.ModelMode != "none":
	case len(calls) > 0:
		s.fault("ST10", pack.At(pack.EvidenceFile, "calls"), "model mode none calls no model")
	case s.run.Execution != nil && len(planned) > 0:
		s.fault("ST10", pack.At(pack.RunFile, "model_mode"), "none, and action %d of the plan is a call", planned[0])
	}
	m := s.model
	if m == nil {
		return
	}
	s.must(m.Mode == s.run.ModelMode, "ST10", pack.ModelFile+"#/mode", "not the model mode of the run, %s", s.run.ModelMode)
	s.checkUncalled(m, calls)
	if len(m.Interactions) != len(calls) {
		s.fault("ST10", pack.At(pack.ModelFile, "interactions"), "%d, and the evidence has %d calls", len(m.Interactions), len(calls))
		return
	}
	for i, in := range m.Interactions {
		s.checkInteraction(i, in, calls[i])
	}
}

// checkUncalled compares the recording with the calls of the plan that the execution did
// not reach. These calls were checked before anything was executed.
func (s *strictLevel) checkUncalled(m *pack.ModelIO, calls []pack.CallEvidence) {
	for _, i := range s.plan.modelCalls() {
		if slices.ContainsFunc(calls, func(c pack.CallEvidence) bool { return c.Action == i }) {
			continue
		}
		a := s.plan.actions[i]
		if a.AdapterID != m.AdapterID {
			s.fault("ST10", pack.At(pack.ModelFile, "adapter_id"), "not the adapter of action %d, %s", i, pack.Quoted(a.AdapterID))
		}
		if _, err := pack.Prompt(a.Params, m.ModelID); err != nil {
			s.fault("ST10", pack.At(pack.ModelFile, "model_id"), "action %d has no prompt for it: %s", i, err)
		}
	}
}

func (s *strictLevel) checkInteraction(i int, in pack.Interaction, call pack.CallEvidence) {
	here := func(name string) string { return pack.At(pack.ModelFile, "interactions", strconv.Itoa(i), name) }
	if call.AdapterID != s.model.AdapterID {
		s.fault("ST10", pack.At(pack.EvidenceFile, "calls", strconv.Itoa(i), "adapter_id"), "not the adapter of the recording, %s", pack.Quoted(s.model.AdapterID))
	}
	if in.PromptHash != call.PromptHash {
		s.fault("ST10", here("prompt_hash"), "not that of the call")
	}
	if in.ResponseHash != call.ResponseHash {
		s.fault("ST10", here("response_hash"), "not that of the call")
	}
	if s.model.Mode == pack.ModeRecord {
		s.checkCounts(i, in)
	}
	if f := s.outputs[pack.ResponsePath(call.Action)]; f != nil && f.SHA256 == in.ResponseHash && f.SizeBytes != len(in.ResponseContent) {
		s.fault("ST10", here("response_content"), "not as long as the output %s of the execution", f.Path)
	}
	if !s.plan.whole || call.Action >= len(s.plan.actions) || s.plan.actions[call.Action].Params == nil {
		return
	}
	prompt, err := pack.Prompt(s.plan.actions[call.Action].Params, s.model.ModelID)
	switch {
	case err != nil:
		s.fault("ST10", here("prompt_hash"), "the plan's call has no prompt for this model: %s", err)
	case canon.Sum(prompt) != in.PromptHash:
		s.fault("ST10", here("prompt_hash"), "not that of what the plan sends to the model")
	}
}

// checkCounts compares the counts of a recorded interaction with its response.
func (s *strictLevel) checkCounts(i int, in pack.Interaction) {
	here := func(name string) string { return pack.At(pack.ModelFile, "interactions", strconv.Itoa(i), name) }
	input, output := pack.Tokens([]byte(in.ResponseContent))
	for _, m := range []struct {
		name       string
		is, should *int64
	}{{"tokens_input", in.TokensInput, input}, {"tokens_output", in.TokensOutput, output}} {
		if (m.is == nil) != (m.should == nil) || m.is != nil && *m.is != *m.should {
			s.fault("ST10", here(m.name), "not what the response counts")
		}
	}
	if in.LatencyMS == nil {
		s.fault("ST10", here("latency_ms"), "missing; what was recorded has it")
	}
}
