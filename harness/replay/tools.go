package replay

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
)

// bound is the binding of the calls of one recorded decision. The registry is not part of
// the evidence: what it made of the calls stands in the input of the policy, and the index
// of the registry in the record.
type bound struct {
	index    canon.ContentHash
	Effects  []kernel.Effect  `json:"effects"`
	Findings []kernel.Finding `json:"findings"`
}

// recordedTools reads the binding from the recorded input of the policy.
func recordedTools(index canon.ContentHash, input []byte) (bound, error) {
	b := bound{index: index}
	if _, err := testimony.Parse(input, testimony.MaxBlobBytes); err != nil {
		return b, err
	}
	if err := json.Unmarshal(input, &b); err != nil {
		return b, testimony.Corrupt("input", "", err.Error())
	}
	return b, nil
}

// SHA256 returns the hash of the index that the record names.
func (b bound) SHA256() canon.ContentHash { return b.index }

// Bind returns the recorded binding of a call. Of the environment the record has the names
// alone, and no rule sees more.
func (b bound) Bind(position int, _ kernel.Action) (harness.BoundCall, bool, error) {
	at := "/actions/" + strconv.Itoa(position)
	var call harness.BoundCall
	for _, e := range b.Effects {
		if e.Pointer != at || e.Tool == nil {
			continue
		}
		if e.Kind == kernel.EffectCall {
			call.Candidates = append(call.Candidates, kernel.Candidate{AdapterID: e.AdapterID, Tool: *e.Tool})
			continue
		}
		c := &call.Candidates[len(call.Candidates)-1]
		c.Argv, c.Env = e.Argv, map[string]string{}
		for _, name := range e.Env {
			c.Env[name] = ""
		}
	}
	for _, f := range b.Findings {
		if (f.Path == at || strings.HasPrefix(f.Path, at+"/")) && slices.Contains(finding.OfBinding(), f.Code) {
			call.Findings = append(call.Findings, f)
		}
	}
	known := len(call.Candidates) > 0 || len(call.Findings) > 0
	return call, known, nil
}
