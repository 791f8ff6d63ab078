//go:build amd64 || arm64

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// versus is a folder in which tests write version directories, and compare them. OUT is the
// folder "out".
type versus struct{ dir, out string }

func newVersus(t *testing.T) versus {
	t.Helper()
	dir := t.TempDir()
	return versus{dir, filepath.Join(dir, "out")}
}

// twoCases has two cases, which expect a yes.
const twoCases = `[{"id":"a","input":{"user":"say yes"},"expected":{"must_include":["yes"]}},{"id":"b","input":{"user":"say yes"},"expected":{"must_include":["yes"]}}]` + "\n"

// sample is a version directory that a test writes.
type sample struct {
	side, id     string
	of, index    int               // of the run group "g"; 0: of none
	unsealed     bool              // as another runner leaves it
	cases        string            // the document; empty: twoCases
	otherCopy    bool              // the copy of the cases is not the document that was run
	answers      map[string]string // by the id of the case: see caseText
	extensionsOf string            // case that has an asset
}

// caseText returns the file of a case: "down" is a network error, a text that begins with a
// bracket is the members of a case file, and any other text is the output.
func caseText(side, id, answer string) map[string]any {
	doc := map[string]any{"schema_version": "case.v1", "case_id": id, "version": side, "status": "ok", "proposed_actions": []any{}, "events": []any{},
		"final_output": map[string]any{"content_type": "text", "content": answer}}
	switch {
	case answer == "down":
		for _, name := range []string{"proposed_actions", "events", "final_output"} {
			delete(doc, name)
		}
		doc["status"] = "runner_error"
		doc["attempts"] = []any{map[string]any{"attempt": 1, "error_class": "network_error", "latency_ms": 3, "outcome": "runner_error", "started_at": "2026-01-02T03:04:05Z"}}
		doc["runner_failure"] = map[string]any{"attempt": 1, "body_snippet": nil, "class": "network_error", "error_message": "nobody listens", "full_body_meta_saved_to": nil, "full_body_saved_to": nil,
			"latency_ms": 3, "timeout_ms": 1000, "url": "http://127.0.0.1:1/run-case"}
	case strings.HasPrefix(answer, "{"):
		var more map[string]json.RawMessage // numbers as they are spelt
		if err := json.Unmarshal([]byte(answer), &more); err != nil {
			panic(err)
		}
		for name, value := range more {
			doc[name] = value
		}
	}
	return doc
}

// at is the version directory of a side in OUT.
func (v versus) at(side, id string) string { return filepath.Join(v.out, side, id) }

// write writes a version directory to its place in OUT, and returns the place.
func (v versus) write(t *testing.T, s sample) string {
	t.Helper()
	dir := v.at(s.side, s.id)
	files, items := map[string]string{}, []any{}
	asset := func(id string, text string) string {
		name := "assets/" + hashOf([]byte(text)) + ".txt"
		files[name] = text
		var of any
		kind := "other"
		if id != "run" {
			of = id
		}
		items = append(items, map[string]any{"asset_id": id + "/" + kind + "/" + hashOf([]byte(text))[:16], "href": name, "kind": kind, "case_id": of, "sha256": hashOf([]byte(text)), "size_bytes": len(text), "side": s.side})
		return name
	}
	encode := func(name string, doc any) {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text) + "\n"
	}
	if s.cases == "" {
		s.cases = twoCases
	}
	copied, ids := s.cases, slices.Sorted(maps.Keys(s.answers))
	if s.otherCopy {
		copied = strings.ReplaceAll(copied, "say", "[redacted:literal]")
	}
	run := map[string]any{"schema_version": "run.v1", "run_id": s.id, "version": s.side, "generated_at": "2026-01-02T03:04:05Z", "base_url": "http://127.0.0.1:8787", "cases_path": "cases.json",
		"out_dir": "out", "selected_case_ids": ids, "runner_version": "0.0.0", "cases_sha256": "sha256:" + hashOf([]byte(s.cases)), "cases_href": asset("run", copied)}
	seal := map[string]string{}
	for _, id := range ids {
		if s.answers[id] == "lost" {
			continue
		}
		doc := caseText(s.side, id, s.answers[id])
		if id == s.extensionsOf {
			doc["extensions_href"] = asset(id, `{"more":"`+id+`"}`)
		}
		encode(id+".json", doc)
		seal[id+".json"] = "sha256:" + hashOf([]byte(files[id+".json"]))
	}
	encode("assets/manifest.json", map[string]any{"schema_version": "assets-manifest.v1", "generated_at": "2026-01-02T03:04:05Z", "items": items})
	seal["assets/manifest.json"] = "sha256:" + hashOf([]byte(files["assets/manifest.json"]))
	if !s.unsealed {
		run["artifacts"] = seal
	}
	if s.of > 0 {
		run["run_group"] = map[string]any{"run_id": "g", "index": s.index, "of": s.of}
	}
	encode("run.json", run)
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		put(t, dir, name, text)
	}
	return dir
}

// pair writes a baseline and a new version with the id r, whose cases a and b have these answers.
func (v versus) pair(t *testing.T, baseline, new [2]string) {
	t.Helper()
	for side, said := range map[string][2]string{"baseline": baseline, "new": new} {
		v.write(t, sample{side: side, id: "r", answers: map[string]string{"a": said[0], "b": said[1]}, extensionsOf: "a"})
	}
}

// compared is what the tests read of compare-report.json.
type compared struct {
	Baseline *struct {
		RunIDs []string `json:"run_ids"`
	}
	New struct {
		RunIDs   []string `json:"run_ids"`
		Sealed   bool
		SignedBy []string `json:"signed_by"`
	}
	Cases []struct {
		ID    string `json:"case_id"`
		Class string
		New   struct {
			State   string
			K, N    int
			Failed  []string
			Actions []action
		}
		Trace      string
		Divergence struct{ Headline string }
	}
	Gate struct {
		Status   string
		ExitCode int `json:"exit_code"`
		Reasons  []struct {
			Code  string
			Cases []string
		}
	}
}

type action struct {
	Subject, Tool, Outcome string
	Reasons                []string
	Executed               bool
	IntentSHA256           string `json:"intent_sha256"`
}

// class returns the class of a case.
func (c compared) class(id string) string {
	for _, one := range c.Cases {
		if one.ID == id {
			return one.Class
		}
	}
	return ""
}

// codes returns the reasons of the gate.
func (c compared) codes() (codes []string) {
	for _, r := range c.Gate.Reasons {
		codes = append(codes, r.Code)
	}
	return codes
}

// suite runs a command of suite in this process, at a fixed time.
func suite(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := func(name string) string { return map[string]string{"SOURCE_DATE_EPOCH": "1800000000"}[name] }
	code = cli.Run(t.Context(), append([]string{"suite"}, args...), cli.System{
		Stdin: os.Stdin, Stdout: &out, Stderr: &errs, Env: env, Now: time.Now, Rand: rand.NewChaCha8([32]byte{}),
	}, commands)
	return out.String(), errs.String(), code
}

// compare compares, and has to end with an exit status and a report.
func (v versus) compare(t *testing.T, want int, args ...string) (c compared) {
	t.Helper()
	stdout, stderr, code := suite(t, append([]string{"compare"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &c); code != want || err != nil {
		t.Fatalf("compare %q: exit status %d, want %d (%v)\n%s%s", args, code, want, err, stdout, stderr)
	}
	if c.Gate.ExitCode != want {
		t.Errorf("compare %q: exit status %d, and the report says %d", args, code, c.Gate.ExitCode)
	}
	return c
}

// refuses runs a command of suite that ends with exit status 2 and one error with a remedy, prints
// nothing, and changes nothing.
func (v versus) refuses(t *testing.T, code string, says []string, args ...string) {
	t.Helper()
	before := shot(t, v.dir)
	stdout, stderr, exit := suite(t, args...)
	var e struct {
		Code, Message string
		Details       struct{ Hint string }
	}
	err := json.Unmarshal([]byte(stderr), &e)
	if exit != cli.ExitError || stdout != "" || err != nil || e.Code != code || e.Message == "" || e.Details.Hint == "" {
		t.Errorf("%q: exit status %d (%v), want %s\n%s%s", args, exit, err, code, stdout, stderr)
	}
	for _, part := range says {
		if !strings.Contains(e.Message+"\n"+e.Details.Hint, part) {
			t.Errorf("%q: %s does not say %q", args, stderr, part)
		}
	}
	unchanged(t, v.dir, before)
}

// keygen makes a key outside of OUT, and returns the files of both halves.
func (v versus) keygen(t *testing.T, name string) (private, public string) {
	t.Helper()
	private = filepath.Join(v.dir, name+".key")
	stdout, stderr, code := inside(t, false, "pack", "keygen", "--name", name, "--key", private)
	if code != cli.ExitAccepted {
		t.Fatal(stderr)
	}
	return private, put(t, v.dir, name+".pub", stdout)
}

// rewrite changes a file.
func rewrite(t *testing.T, path string, change func(text string) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Dir(path), filepath.Base(path), change(string(text)))
}

func swap(from, to string) func(string) string {
	return func(text string) string { return strings.Replace(text, from, to, 1) }
}

// TestCompareTampered: whatever is changed in a sealed directory of either side, there is no
// decision, and nothing is written.
func TestCompareTampered(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"baseline", "new"} {
		for name, tamper := range map[string]func(dir string){
			"case file":   func(dir string) { rewrite(t, dir+"/a.json", swap("yes", "Yes")) },
			"white space": func(dir string) { rewrite(t, dir+"/a.json", func(s string) string { return s + "\n" }) },
			"twin member": func(dir string) { rewrite(t, dir+"/a.json", swap(`"status":"ok"`, `"status":"ok","status":"ok"`)) },
			"no JSON":     func(dir string) { put(t, dir, "a.json", "yes") },
			"asset":       func(dir string) { asset(t, dir, `{"more":"a"}`, `{"more":"A"}`) },
			"copy":        func(dir string) { asset(t, dir, twoCases, strings.ReplaceAll(twoCases, "yes", "not")) },
			"manifest":    func(dir string) { rewrite(t, dir+"/assets/manifest.json", swap("run/other", "run/Other")) },
			"seal": func(dir string) {
				rewrite(t, dir+"/run.json", swap(`"a.json":"sha256:`, `"a.json":"sha256:0`))
			},
			"seal without a case": func(dir string) { rewrite(t, dir+"/run.json", swap(`"b.json":`, `"c.json":`)) },
			"case file gone":      func(dir string) { remove(t, dir+"/b.json") },
			"manifest gone":       func(dir string) { remove(t, dir+"/assets/manifest.json") },
			"one more file":       func(dir string) { put(t, dir, "notes.txt", "mine") },
			"one more case":       func(dir string) { put(t, dir, "c.json", `{}`) },
			"a link": func(dir string) {
				remove(t, dir+"/b.json")
				if err := os.Symlink("a.json", dir+"/b.json"); err != nil {
					t.Fatal(err)
				}
			},
			"other selection":   func(dir string) { rewrite(t, dir+"/run.json", swap(`["a","b"]`, `["a"]`)) },
			"another schema":    func(dir string) { rewrite(t, dir+"/run.json", swap(`run.v1`, `run.v2`)) },
			"run.json is empty": func(dir string) { put(t, dir, "run.json", "") },
		} {
			t.Run(side+"/"+name, func(t *testing.T) {
				v := newVersus(t)
				v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "no"})
				tamper(v.at(side, "r"))
				v.refuses(t, "RUN_E006", []string{"not valid", "fiador suite verify"}, "compare", v.out)
				v.refuses(t, "RUN_E006", []string{"not valid", "fiador suite verify"}, "bless", v.at(side, "r"), "--to", filepath.Join(v.dir, "to"))
			})
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// asset changes the text of an asset.
func asset(t *testing.T, dir, from, to string) {
	t.Helper()
	put(t, filepath.Join(dir, "assets"), hashOf([]byte(from))+".txt", to)
}

// TestCompareKeys: with --key, each directory needs a signature of one of the keys, of this run.json
// with a seal.
func TestCompareKeys(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	for _, side := range []string{"baseline", "new"} {
		v.write(t, sample{side: side, id: "r", unsealed: true, answers: map[string]string{"a": "yes", "b": "yes"}})
	}
	mine, pub := v.keygen(t, "mine")
	other, otherPub := v.keygen(t, "other")
	v.refuses(t, "RUN_E006", []string{"signature", "no seal", "--sign"}, "compare", v.out, "--key", pub)
	place := filepath.Join(v.dir, "base")
	s := sample{side: "new", id: "r", answers: map[string]string{"a": "yes", "b": "yes"}}
	v.write(t, s)
	for name, key := range map[string]string{"mine": mine, "other": other} {
		if stdout, stderr, code := suite(t, "bless", v.at("new", "r"), "--to", place+name, "--sign", key); code != cli.ExitAccepted {
			t.Fatal(stdout, stderr)
		}
		if stdout, _, code := suite(t, "verify", place+name, "--key", pub); (code == cli.ExitAccepted) != (name == "mine") {
			t.Errorf("verify of %s: exit status %d, %s", name, code, stdout)
		}
	}
	new := v.at("new", "r")
	v.refuses(t, "RUN_E006", []string{"signature"}, "compare", "--baseline", place+"mine", "--new", new, "--key", pub) // new has none
	// A signed run of new: a recording that is run again.
	cases := put(t, v.dir, "cases.json", twoCases)
	stdout, stderr, code := suite(t, "run", cases, "--new", "replay:"+new, "--run-id", "signed", "--out", v.out, "--sign", mine)
	if code != cli.ExitAccepted {
		t.Fatal(stdout, stderr)
	}
	signed := v.at("new", "signed")
	both := []string{"compare", "--baseline", place + "mine", "--new", signed, "--out", v.out, "--cases", cases}
	for name, key := range map[string]string{"none": "", "one": pub, "several": otherPub} {
		args := both[1:]
		if key != "" {
			args = append(slices.Clone(args), "--key", key, "--key", pub)
		}
		if c := v.compare(t, cli.ExitAccepted, args...); !c.New.Sealed || (len(c.New.SignedBy) == 1) != (key != "") {
			t.Errorf("%s: %+v", name, c.New)
		}
	}
	v.refuses(t, "RUN_E006", []string{"signature", "trusted"}, append(both, "--key", otherPub)...)
	v.refuses(t, "RUN_E006", []string{"signature"}, "compare", "--baseline", place+"other", "--new", signed, "--cases", cases, "--key", pub)
	for name, forge := range map[string]func(){
		"of another run": func() { v.copied(t, place+"mine/signature.json", signed+"/signature.json") },
		"of a text":      func() { put(t, signed, "signature.json", "{}") },
		"empty":          func() { put(t, signed, "signature.json", "") },
		"run.json":       func() { rewrite(t, signed+"/run.json", swap(`"retries":1`, `"retries":2`)) },
		"payload":        func() { rewrite(t, signed+"/signature.json", swap(`"payload":"ey`, `"payload":"eyA`)) },
		"gone":           func() { remove(t, signed+"/signature.json") },
	} {
		before := filesOf(t, signed)
		forge()
		v.refuses(t, "RUN_E006", []string{"signature"}, append(both, "--key", pub)...)
		for file, text := range before {
			put(t, signed, file, text)
		}
		if name == "gone" {
			v.compare(t, cli.ExitAccepted, append(both[1:], "--key", pub)...)
		}
	}
	v.refuses(t, "RUN_E001", nil, append(both, "--key", filepath.Join(v.dir, "nothing"))...)
}

// copied copies a file.
func (v versus) copied(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Dir(to), filepath.Base(to), string(text))
}

// TestCompareForeign: in a directory without a seal, a reference that leads nowhere fails its case,
// a case without a file has no data, a file that is gone counts against its case, and the other
// cases are judged as ever.
func TestCompareForeign(t *testing.T) {
	t.Parallel()
	dangling := `{"final_output":{"content_type":"text","content":"yes"},"proposed_actions":[{"action_id":"x","action_type":"t","tool_name":"t","params":{},"risk_level":"low","risk_tags":[],"evidence_refs":[{"kind":"tool_result","call_id":"nowhere"}]}]}`
	for name, c := range map[string]struct {
		answer, class, state string
		failed               []string
		exit                 int
		spoil                func(dir string)
	}{
		"reference": {dangling, "regression", "stable_fail", []string{"evidence_resolved"}, 1, nil},
		"missing":   {"lost", "infra_regression", "no_data", []string{}, 2, nil},
		"asset gone": {"yes", "regression", "stable_fail", []string{"evidence_resolved"}, 1, func(dir string) {
			remove(t, filepath.Join(dir, "assets", hashOf([]byte(`{"more":"a"}`))+".txt"))
			remove(t, filepath.Join(dir, "assets", "manifest.json"))
		}},
		"asset in the manifest gone": {"yes", "regression", "stable_fail", []string{"evidence_resolved"}, 1, func(dir string) {
			remove(t, filepath.Join(dir, "assets", hashOf([]byte(`{"more":"a"}`))+".txt"))
		}},
		"asset of the manifest alone": {"yes", "regression", "stable_fail", []string{"evidence_resolved"}, 1, func(dir string) {
			rewrite(t, dir+"/assets/manifest.json", swap(`"items":[`, `"items":[{"asset_id":"a/other/1","case_id":"a","href":"assets/gone.txt","kind":"other","side":"new","size_bytes":1,"sha256":"`+hashOf(nil)+`"},`))
		}},
		"sound": {"yes", "unchanged_pass", "stable_pass", []string{}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVersus(t)
			v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
			if err := os.RemoveAll(v.at("new", "r")); err != nil {
				t.Fatal(err)
			}
			dir := v.write(t, sample{side: "new", id: "r", unsealed: true, answers: map[string]string{"a": c.answer, "b": "yes"}, extensionsOf: "a"})
			if c.spoil != nil {
				c.spoil(dir)
			}
			got := v.compare(t, c.exit, v.out)
			a := got.Cases[0]
			if got.class("a") != c.class || a.New.State != c.state || !slices.Equal(a.New.Failed, c.failed) || got.class("b") != "unchanged_pass" || got.New.Sealed {
				t.Errorf("%+v", got)
			}
		})
	}
	for name, spoil := range map[string]func(dir string){
		"a case file of another form": func(dir string) { rewrite(t, dir+"/a.json", swap(`"status":"ok"`, `"status":"fine"`)) },
		"a manifest of another form":  func(dir string) { rewrite(t, dir+"/assets/manifest.json", swap(`assets-manifest.v1`, "x")) },
		"an asset of the run is gone": func(dir string) { remove(t, filepath.Join(dir, "assets", hashOf([]byte(twoCases))+".txt")) },
		"a path out of the directory": func(dir string) { rewrite(t, dir+"/run.json", swap(`"cases_href":"assets`, `"cases_href":"../assets`)) },
		"a case that nobody selected": func(dir string) { rewrite(t, dir+"/run.json", swap(`["a","b"]`, `["a"]`)) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVersus(t)
			spoil(v.write(t, sample{side: "new", id: "r", unsealed: true, answers: map[string]string{"a": "yes", "b": "yes"}}))
			v.refuses(t, "RUN_E006", []string{"not valid"}, "compare", v.out)
		})
	}
}

// TestCompareYardstick: a new version brings no cases of its own, and --cases decides for both
// sides.
func TestCompareYardstick(t *testing.T) {
	t.Parallel()
	weaker := strings.ReplaceAll(twoCases, `["yes"]`, `["n"]`)
	v := newVersus(t)
	v.write(t, sample{side: "baseline", id: "r", answers: map[string]string{"a": "yes", "b": "yes"}})
	v.write(t, sample{side: "new", id: "r", cases: weaker, answers: map[string]string{"a": "no", "b": "no"}})
	v.refuses(t, "RUN_E006", []string{"other cases", "--cases"}, "compare", v.out)
	strong, weak := put(t, v.dir, "strong.json", twoCases), put(t, v.dir, "weak.json", weaker)
	if c := v.compare(t, cli.ExitRejected, v.out, "--cases", strong); c.class("a") != "regression" || c.class("b") != "regression" {
		t.Errorf("%+v", c)
	}
	if c := v.compare(t, cli.ExitAccepted, v.out, "--cases", weak); c.class("a") != "improvement" { // "yes" has no n
		t.Errorf("%+v", c)
	}
	one := put(t, v.dir, "one.json", twoCases[:strings.Index(twoCases, `,{"id":"b"`)]+"]")
	v.refuses(t, "RUN_E006", []string{`the case "b"`, "--cases"}, "compare", v.out, "--cases", one)
	v.refuses(t, "RUN_E001", []string{"no such file"}, "compare", v.out, "--cases", filepath.Join(v.dir, "none.json"))
	v.refuses(t, "RUN_E002", nil, "compare", v.out, "--cases", put(t, v.dir, "broken.json", "["))

	redacted := newVersus(t)
	for _, side := range []string{"baseline", "new"} {
		redacted.write(t, sample{side: side, id: "r", otherCopy: true, answers: map[string]string{"a": "yes", "b": "yes"}})
	}
	redacted.refuses(t, "RUN_E006", []string{"redaction has changed it", "--cases"}, "compare", redacted.out)
	redacted.compare(t, cli.ExitAccepted, redacted.out, "--cases", strong)
}

// TestCompareFixture: the two cases of another runner's form have their classes, and with a case
// that has no answer there is no decision.
func TestCompareFixture(t *testing.T) {
	t.Parallel()
	from := rehearsal.NeedFixture(t, "agent-qa-toolkit", "minimal-v1")
	v := newVersus(t)
	if err := os.CopyFS(v.out, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	c := v.compare(t, cli.ExitError, v.out, "--cases", filepath.Join(v.out, "cases.json"))
	if len(c.Cases) != 2 || c.class("ticket_ok") != "unchanged_pass" || c.class("agent_down") != "infra_regression" || c.Gate.Status != "inconclusive" || fmt.Sprint(c.codes()) != "[answers infra_regression]" {
		t.Errorf("%+v", c)
	}
	v.refuses(t, "RUN_E006", []string{"no copy of its cases", "--cases"}, "compare", v.out)
	to := filepath.Join(v.dir, "blessed")
	if stdout, stderr, code := suite(t, "bless", filepath.Join(v.out, "new", "r1"), "--to", to); code != cli.ExitAccepted {
		t.Fatal(stdout, stderr)
	}
	if stdout, _, code := suite(t, "verify", to); code != cli.ExitAccepted || !strings.HasSuffix(stdout, ": valid, sealed\n") {
		t.Errorf("exit status %d: %s", code, stdout)
	}
}
