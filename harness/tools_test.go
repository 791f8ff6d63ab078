package harness_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// searchTool is the registry of one tool with one adapter.
func searchTool(tool, adapter string) map[string]string {
	return map[string]string{"T/tool.json": tool, "T/A.json": adapter}
}

// TestToolDecisions decides calls of a registry under the built-in profiles.
func TestToolDecisions(t *testing.T) {
	d := harnesstest.Deps(t)
	node := harnesstest.CLI("A", `"executable":"node","base_args":["find.js"],"arg_mapping":{"pattern":"{value}"}`, "")
	status := func(s string) string { return strings.Replace(harnesstest.Tool(`"A"`), "active", s, 1) }
	const call = `{"kind":"call","tool_id":"T","params":{"pattern":"x"}}`
	for name, tc := range map[string]struct {
		files   map[string]string
		action  string
		profile string
		allowed string // allowed_tools of the profile; empty: as it is
		outcome kernel.Outcome
		reasons []string
		hosts   []string // network_hosts of the profile
	}{
		"not listed":          {searchTool(harnesstest.Tool(`"A"`), node), call, "strict", "", kernel.OutcomeRefuse, []string{"TOOL_NOT_ALLOWED /actions/0"}, nil},
		"dev":                 {searchTool(harnesstest.Tool(`"A"`), node), call, "dev", "", kernel.OutcomeBundle, nil, nil},
		"listed":              {searchTool(harnesstest.Tool(`"A"`), node), call, "strict", "T", kernel.OutcomeBundle, nil, nil},
		"listed adapter":      {searchTool(harnesstest.Tool(`"A"`), node), call, "strict", "T/A", kernel.OutcomeBundle, nil, nil},
		"listed prefix":       {searchTool(harnesstest.Tool(`"A"`), node), call, "strict", "T/*", kernel.OutcomeBundle, nil, nil},
		"other adapter":       {searchTool(harnesstest.Tool(`"A"`), node), call, "strict", "T/B", kernel.OutcomeRefuse, []string{"TOOL_NOT_ALLOWED /actions/0"}, nil},
		"other tool":          {searchTool(harnesstest.Tool(`"A"`), node), call, "strict", "T2", kernel.OutcomeRefuse, []string{"TOOL_NOT_ALLOWED /actions/0"}, nil},
		"other pin":           {searchTool(harnesstest.Tool(`"A"`), node), call, "strict", "T@" + string(canon.Sum(nil)), kernel.OutcomeRefuse, []string{"TOOL_NOT_ALLOWED /actions/0"}, nil},
		"unknown tool":        {searchTool(harnesstest.Tool(`"A"`), node), strings.Replace(call, `"T"`, `"U"`, 1), "dev", "", kernel.OutcomeRefuse, []string{"TOOL_UNKNOWN /actions/0/tool_id"}, nil},
		"unknown adapter":     {searchTool(harnesstest.Tool(`"A"`), node), strings.Replace(call, `"params"`, `"adapter_id":"B","params"`, 1), "dev", "", kernel.OutcomeRefuse, []string{"ADAPTER_UNKNOWN /actions/0/adapter_id"}, nil},
		"parameter":           {searchTool(harnesstest.Tool(`"A"`), node), strings.Replace(call, `"x"`, `"-x"`, 1), "dev", "", kernel.OutcomeRefuse, []string{"PARAMS_INVALID /actions/0/params/pattern"}, nil},
		"unknown parameter":   {searchTool(harnesstest.Tool(`"A"`), node), strings.Replace(call, `"pattern"`, `"__proto__"`, 1), "dev", "", kernel.OutcomeRefuse, []string{"PARAMS_INVALID /actions/0/params/__proto__"}, nil},
		"deprecated":          {searchTool(status("deprecated"), node), call, "strict", "T", kernel.OutcomeBundle, nil, nil},
		"experimental":        {searchTool(status("experimental"), node), call, "strict", "T", kernel.OutcomeClarify, []string{"TOOL_EXPERIMENTAL /actions/0/tool_id"}, nil},
		"experimental in dev": {searchTool(status("experimental"), node), call, "dev", "", kernel.OutcomeBundle, nil, nil},
		"retired":             {searchTool(status("retired"), node), call, "dev", "", kernel.OutcomeRefuse, []string{"TOOL_INACTIVE /actions/0/tool_id"}, nil},
		"command": {
			searchTool(harnesstest.Tool(`"A"`), harnesstest.CLI("A", `"executable":"rg","arg_mapping":{"pattern":"{value}"}`, "")),
			call, "strict", "T", kernel.OutcomeRefuse, []string{"CMD_NOT_ALLOWED /actions/0"}, nil,
		},
		"inline code": {
			searchTool(harnesstest.Tool(`"A"`), harnesstest.CLI("A", `"executable":"node","base_args":["-e"],"arg_mapping":{"pattern":"{value}"}`, "")),
			call, "strict", "T", kernel.OutcomeRefuse, []string{"INLINE_CODE /actions/0"}, nil,
		},
		"environment": {
			searchTool(harnesstest.Tool(`"A"`), harnesstest.CLI("A", `"executable":"node","env_mapping":{"pattern":"PATTERN"}`, "")),
			call, "strict", "T", kernel.OutcomeRefuse, []string{"ENV_NOT_ALLOWED /actions/0"}, nil,
		},
		"host": {
			searchTool(harnesstest.Tool(`"A"`), strings.TrimSuffix(node, "}")+`,"sandbox_override":{"network":{"enabled":true,"allow":["a.example"]}}}`),
			call, "dev", "", kernel.OutcomeRefuse, []string{"HOST_NOT_ALLOWED /actions/0"}, nil,
		},
		"listed host": {
			searchTool(harnesstest.Tool(`"A"`), strings.TrimSuffix(node, "}")+`,"sandbox_override":{"network":{"enabled":true,"allow":["a.example"]}}}`),
			call, "dev", "", kernel.OutcomeBundle, nil, []string{"*.b.example", "a.example"},
		},
		"wider host": {
			searchTool(harnesstest.Tool(`"A"`), strings.TrimSuffix(node, "}")+`,"sandbox_override":{"network":{"enabled":true,"allow":["*.a.example"]}}}`),
			call, "dev", "", kernel.OutcomeRefuse, []string{"HOST_NOT_ALLOWED /actions/0"}, []string{"b.a.example"},
		},
		"fallback that is not permitted": {
			map[string]string{
				"T/tool.json": harnesstest.Tool(`"A","B"`),
				"T/A.json":    strings.TrimSuffix(node, "}") + `,"errors":{"fallback":{"adapter_id":"B","condition":"any"}}}`,
				"T/B.json":    harnesstest.CLI("B", `"executable":"bash","arg_mapping":{"pattern":"{value}"}`, ""),
			},
			call, "strict", "T", kernel.OutcomeRefuse, []string{"CMD_NOT_ALLOWED /actions/0"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := harnesstest.OpenBuiltin(t, d.Specs, tc.profile)
			if tc.allowed != "" {
				gate.Profile.AllowedTools = kernel.AllowList{Names: []string{tc.allowed}}
			}
			if tc.hosts != nil {
				gate.Profile.AllowNetwork, gate.Profile.NetworkHosts = true, kernel.AllowList{Names: tc.hosts}
			}
			gate.UseTools(harnesstest.Registry(t, d.Specs, tc.files))
			src := `{"goal":"Search","constraints":["c"],"actions":[` + tc.action + `]}`
			rep, err := harness.Run(t.Context(), harnesstest.Deps(t), gate, harnesstest.Planned(src, "r"))
			if err != nil {
				t.Fatal(err)
			}
			if rep.Decision.Outcome != tc.outcome || !slices.Equal(rep.Decision.Reasons, append([]string{}, tc.reasons...)) {
				t.Errorf("%s", rep.Bytes)
			}
			if tc.outcome == kernel.OutcomeBundle {
				checkPins(t, rep)
			}
		})
	}
}

// checkPins checks that a bundle names the documents behind its call, and that it is made
// again with them.
func checkPins(t *testing.T, rep harness.Report) {
	t.Helper()
	content := rep.Decision.Bundle.Outputs[0].Content
	for _, name := range []string{`"tool_sha256":"sha256:`, `"adapter_sha256":"sha256:`} {
		if !strings.Contains(content, name) {
			t.Errorf("the bundle has %s", content)
		}
	}
	again, err := kernel.Rebuild(rep.Decision.Bundle)
	if err != nil || len(again.Refused) > 0 || string(again.Bytes) != string(rep.Decision.BundleBytes) {
		t.Errorf("made again, it is %s (%v, %v)", again.Bytes, again.Refused, err)
	}
}

// TestToolIsNoWayRound: a tool never passes where the same command as a run action would
// not. The commands are those of all run vectors.
func TestToolIsNoWayRound(t *testing.T) {
	d := harnesstest.Deps(t)
	commands := map[string][]string{}
	for _, f := range harnesstest.LoadVectors(t) {
		for _, v := range f.Vectors {
			var in struct {
				Actions []struct {
					Argv []string `json:"argv"`
				} `json:"actions"`
			}
			if json.Unmarshal(v.Source(t), &in) != nil {
				continue
			}
			for _, a := range in.Actions {
				if len(a.Argv) > 0 {
					commands[fmt.Sprintf("%q", a.Argv)] = a.Argv
				}
			}
		}
	}
	tried, refused := 0, 0
	for _, key := range slices.Sorted(maps.Keys(commands)) {
		argv := commands[key]
		words, err := json.Marshal(argv)
		if err != nil {
			t.Fatal(err)
		}
		first, rest := string(mustJSON(t, argv[0])), string(mustJSON(t, append([]string{}, argv[1:]...)))
		tools, err := harnesstest.MakeRegistry(t, d.Specs, searchTool(harnesstest.Tool(`"A"`), harnesstest.CLI("A", `"executable":`+first+`,"base_args":`+rest, "")))
		if err != nil {
			continue // no adapter can have the command
		}
		tried++
		for _, name := range []string{"strict", "default", "dev"} {
			gate := harnesstest.OpenBuiltin(t, d.Specs, name)
			gate.Profile.AllowedTools = kernel.AllowList{All: true}
			decide := func(action string) kernel.Decision {
				rep, err := harness.Run(t.Context(), harnesstest.Deps(t), gate, harnesstest.Planned(`{"goal":"g","constraints":["c"],"actions":[`+action+`]}`, "r"))
				if err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				return rep.Decision
			}
			run := decide(`{"kind":"run","argv":` + string(words) + `}`)
			gate.UseTools(tools)
			call := decide(`{"kind":"call","tool_id":"T","params":{}}`)
			if call.Outcome != run.Outcome || !slices.Equal(ids(call.Reasons), ids(run.Reasons)) {
				t.Errorf("%s under %s: the run is %s %q, the call %s %q", key, name, run.Outcome, run.Reasons, call.Outcome, call.Reasons)
			}
			if run.Outcome == kernel.OutcomeRefuse {
				refused++
			}
		}
	}
	if tried < 100 || refused < 100 {
		t.Errorf("%d commands, %d refusals", tried, refused)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ids returns the ids of reasons, each once.
func ids(reasons []string) []string {
	var list []string
	for _, r := range reasons {
		id, _, _ := strings.Cut(r, " ")
		list = append(list, id)
	}
	return slices.Compact(list)
}
