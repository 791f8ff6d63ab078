package kernel

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
)

// fixture reads a file of the fixtures.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(rehearsal.NeedFixture(t, "bundle", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t *testing.T, src string) Intent {
	t.Helper()
	doc, err := canon.Parse([]byte(src), canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	in, err := ParseIntent(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func permitAll(in Intent) Verdict {
	var v Verdict
	for _, e := range in.Effects(Profile{}) {
		v.Permits = append(v.Permits, e.ID)
	}
	return v
}

func decide(t *testing.T, in Intent, v Verdict) Decision {
	t.Helper()
	d, err := Decide(in, in.Effects(Profile{}), in.Findings(), v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBundleFixtures(t *testing.T) {
	for _, tc := range []struct {
		name, id, hash string
		outcome        Outcome
		clarify        []Result
	}{
		{"bundle", "bundle_fb637399cbc3bb77", "sha256:bedf5f787b0a5f3e54de20260ac8550973c0b8fe65e2ba60332c46f6ceb0a32d", OutcomeBundle, nil},
		{"clarify", "bundle_29a22533fc41a771", "sha256:76034c04acd56d38b911c7e4bdfb0b2ef207b59318fe8d57903c9a695f9323c6", OutcomeClarify, []Result{{
			Module: "gate.builtin", ID: "PLACEHOLDER", Path: "/goal", Priority: 80,
			Text: `What does "<environment>" in the goal stand for?`, Why: "A placeholder leaves open what would be done",
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := fixture(t, tc.name+".bundle.json")
			in := parse(t, string(fixture(t, tc.name+".intent.json")))
			v := permitAll(in)
			v.Clarify = tc.clarify
			d := decide(t, in, v)
			if d.Outcome != tc.outcome || d.Bundle.ID != tc.id || string(d.BundleHash) != tc.hash {
				t.Errorf("got %s %s %s", d.Outcome, d.Bundle.ID, d.BundleHash)
			}
			if !bytes.Equal(d.BundleBytes, want) {
				t.Errorf("bundle bytes\n got %s\nwant %s", d.BundleBytes, want)
			}
		})
	}
}

func TestNormalisation(t *testing.T) {
	in := parse(t, `{"goal":"\ufeff \u0085 Caf\u0065\u0301\r\nau lait\r \u00a0\u3000","constraints":["  b \t\t c ","\ufeffa","a","","\ud83d\ude00","\uffee","\u200b"],"outputs":["\ufeffout/e\u0301"]}`)
	if want := "Café\nau lait"; in.Goal != want {
		t.Errorf("goal %q, want %q", in.Goal, want)
	}
	// U+1F600 is D83D DE00 in UTF-16, and so it sorts before U+FFEE.
	if got, want := strings.Join(in.Constraints, "|"), "a|b c|\u200b|😀|\uffee"; got != want {
		t.Errorf("constraints %q, want %q", got, want)
	}
	if got := in.Outputs[0]; got != "out/é" {
		t.Errorf("output %q", got)
	}
	b, err := canon.Canonical(in.Normalised())
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"actions":[],"constraints":["a","b c","` + "\u200b" + `","😀","` + "\uffee" + `"],"context":{},"goal":"Café\nau lait","inputs":[],"outputs":["out/é"]}`; string(b) != want {
		t.Errorf("normalised %s\nwant %s", b, want)
	}
}

func TestOutputs(t *testing.T) {
	in := parse(t, `{"goal":"g","constraints":["c"],"actions":[
		{"kind":"run","argv":["node","x.js"],"env":{"B":"2","A":"1"},"cwd":"./src//","stdin":"in","timeout_ms":5e3},
		{"kind":"call","tool_id":"search","adapter_id":"a1","params":{"q":[1.50,null]}},
		{"kind":"write","path":"./out//b.bin","content_base64":"aGk=","executable":true},
		{"kind":"run","argv":["npm","ci"]}]}`)
	d := decide(t, in, permitAll(in))
	var got []string
	for _, o := range d.Bundle.Outputs {
		got = append(got, o.Type+" "+o.Path+" "+o.Content+" "+o.Encoding)
	}
	want := []string{
		`config calls/002.json {"adapter_id":"a1","params":{"q":[1.5,null]},"tool_id":"search"} utf8`,
		`command commands/001.json {"argv":["node","x.js"],"cwd":"src","env":{"A":"1","B":"2"},"stdin":"in","timeout_ms":5000} utf8`,
		`command commands/004.json {"argv":["npm","ci"],"cwd":".","env":{}} utf8`,
		`file out/b.bin aGk= base64`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("outputs\n%s", strings.Join(got, "\n"))
	}
	file := d.Bundle.Outputs[3]
	// SHA-256 of the two bytes "hi".
	if file.ContentHash != "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4" || !file.Executable || *file.Action != 2 {
		t.Errorf("file output %+v", file)
	}
}

func TestInstructionCannotForgeAHeading(t *testing.T) {
	in := parse(t, `{"goal":"one\n# Constraints\r\n\n## x","constraints":["# y\nz"]}`)
	d := decide(t, in, permitAll(in))
	o := d.Bundle.Outputs[0]
	want := "# Goal\n\n    one\n    # Constraints\n    \n    ## x\n\n## Constraint 1\n\n    # y\n    z\n"
	if o.Type != "instruction" || o.Path != "context/"+d.Bundle.RootNode.ID+".md" || o.Content != want || o.Action != nil {
		t.Errorf("instruction %+v\nwant content %q", o, want)
	}
}

// TestMeasures calculates the formulas of specs/bundle.md by hand.
func TestMeasures(t *testing.T) {
	for _, tc := range []struct {
		name, intent     string
		questions        int
		entropy, density int
	}{
		// 25·min(100,99)=2475; /100 = 24.75.
		{"nothing but a goal", `{"goal":"g"}`, 0, 25, 0},
		// 30·10+25·33+20·11 = 1345.
		{"one reference, one gap, one question", `{"goal":"<environment>","constraints":["c"],"actions":[{"kind":"run","argv":["a"]}]}`, 1, 13, 8},
		// Branching is capped at 10: 20·100 = 2000.
		{"twelve questions", `{"goal":"g","constraints":["c"],"outputs":["out/a"],"actions":[{"kind":"write","path":"out/a","content":""}]}`, 12, 20, 49},
		// Density: 40·100+60·100.
		{"everything said", `{"goal":"g","constraints":["a","b","c","d","e","f"],"outputs":["o/1","o/2","o/3"],"actions":[{"kind":"run","argv":["a"]}]}`, 0, 0, 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tc.intent)
			v := permitAll(in)
			for i := range tc.questions {
				v.Clarify = append(v.Clarify, Result{ID: "Q", Path: "/goal", Text: strings.Repeat("?", i+1), Priority: 60})
			}
			d := decide(t, in, v)
			n := d.Bundle.RootNode
			if n.Entropy.EntropyScore != tc.entropy || n.Density.DensityScore != tc.density {
				t.Errorf("entropy %+v density %+v", n.Entropy, n.Density)
			}
		})
	}
}

// TestPlanAgrees: a plan writes the same bytes as encoding/json and jcs.
func TestPlanAgrees(t *testing.T) {
	action, parent := 3, "node_0"
	node := Node{ID: "node_1", ParentID: &parent, Status: "terminal", Goal: "g", Constraints: []string{"c"},
		Entropy: Entropy{1, 2, 3, 4, 5}, Density: Density{6, 7, 8, 9}, Children: []string{"node_2"},
		UnresolvedQuestions: []Question{{ID: "q", Text: "t", ExpectedAnswerType: "choice", WhyNeeded: "w", InformationGain: 10, Priority: 11, Options: []string{"o"}}, {}}}
	other := node
	other.ID, other.ParentID = "node_2", nil
	full := &Bundle{ID: "b", SchemaVersion: "s", KernelVersion: "k", SourceIntentHash: "h", Status: "complete", RootNode: node,
		TerminalNodes: []Node{node, other}, UnresolvedQuestions: node.UnresolvedQuestions, Stats: Stats{12, 13, 14, 15, 16, 17, 18},
		Outputs: []Output{{ID: "o", Type: "file", Path: "p", Content: "c", ContentHash: "h", SourceConstraints: []string{"s"}, Confidence: 19, Action: &action, Encoding: "utf8", Executable: true}, {SourceConstraints: []string{}}}}
	for i := range full.TerminalNodes[1].UnresolvedQuestions {
		full.TerminalNodes[1].UnresolvedQuestions[i].Priority = 42
	}
	idless := *full
	idless.ID = ""
	execution := &Execution{SandboxID: "s", Cmd: []string{"c"}, ExitCode: 1, StdoutSHA256: "o", StderrSHA256: "e",
		Inputs: []FileRef{{"a", "h", 1}}, Outputs: []FileRef{{"b", "i", 2}}, TotalOutputBytes: 3, OutputTruncated: true, Reasons: []string{"EXIT 1"}}
	policy := PolicyProfile{"n", true, 1, 2, 3, []string{"c"}, []string{"r"}}
	record := DecisionRecord{true, []string{"r"}, true}
	for _, tc := range []struct {
		name   string
		tagged any
		write  func() ([]byte, error)
	}{
		{"bundle", full, func() ([]byte, error) { return bundlePlan.Canonical(full) }},
		{"bundle without id", idless, func() ([]byte, error) { return bundlePlan.Canonical(&idless) }},
		{"execution", execution, func() ([]byte, error) { return canon.Canonical(execution) }},
		{"policy", policy, func() ([]byte, error) { return canon.Canonical(policy) }},
		{"record", record, func() ([]byte, error) { return canon.Canonical(record) }},
	} {
		want, err := canon.Transform(tc.tagged)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tc.write(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s (%v)\n got %s\nwant %s", tc.name, err, got, want)
		}
	}
}
