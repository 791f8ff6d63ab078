package replay

import (
	"bytes"
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

// recordedTools reads the binding from the recorded input of the policy. Most inputs bind
// no call.
func recordedTools(index canon.ContentHash, input []byte) (bound, error) {
	b := bound{index: index}
	if index == "" && !bytes.Contains(input, []byte(`"tool":`)) {
		return b, nil
	}
	if _, err := testimony.Parse(input, testimony.MaxBlobBytes); err != nil {
		return b, err
	}
	if err := json.Unmarshal(input, &b); err != nil {
		return b, testimony.Corrupt("input", "", err.Error())
	}
	return b, nil
}

// foreign returns the calls that another program had asked about, by action; nil: none. The
// intent names the tool, and the record its hash.
func (b bound) foreign() map[int]kernel.Call {
	var calls map[int]kernel.Call
	for _, e := range b.Effects {
		position, err := strconv.Atoi(strings.TrimPrefix(e.Pointer, "/actions/"))
		if err != nil || e.Kind != kernel.EffectCall || e.Tool == nil || e.Tool.AdapterSHA256 != "" {
			continue
		}
		if calls == nil {
			calls = map[int]kernel.Call{}
		}
		calls[position] = kernel.ForeignCall(e.ToolID, e.Tool.ToolSHA256)
	}
	return calls
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
