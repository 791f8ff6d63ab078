package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

const profileName = "default"

//go:embed testdata/small/small.rego
var smallPolicy []byte

// scene is one folder with everything that the tools read.
type scene struct {
	dir  string
	set  *specs.Set
	gate *harness.Gate
}

// newScene writes the profile and the records, the built-in Rego, and an allowed and a refused
// intent with their policy inputs.
func newScene(dir string) (*scene, error) {
	set, err := specs.New()
	if err != nil {
		return nil, err
	}
	gate, err := harness.OpenGate(context.Background(), harness.Sources{Builtin: profiles.FS(), Profile: profileName}, set, policy.DefaultLimits())
	if err != nil {
		return nil, err
	}
	s := &scene{dir: dir, set: set, gate: gate}
	src, err := fs.ReadFile(profiles.FS(), profiles.RecordsModule)
	if err != nil {
		return nil, err
	}
	_, records, err := profiles.ReadRecords(src)
	if err != nil {
		return nil, err
	}
	data, err := canon.Canonical(map[string]any{"profile": gate.Profile, "records": records["records"]})
	if err != nil {
		return nil, err
	}
	if err := s.write("data.json", data); err != nil {
		return nil, err
	}
	if err := errors.Join(s.copyRego(), s.write("small.rego", smallPolicy)); err != nil {
		return nil, err
	}
	for name, src := range map[string][]byte{"allowed": sized(1 << 10), "refused": refusedIntent()} {
		if err := s.addIntent(name, src); err != nil {
			return nil, fmt.Errorf("intent %q: %w", name, err)
		}
	}
	return s, nil
}

func (s *scene) write(name string, b []byte) error {
	return os.WriteFile(filepath.Join(s.dir, name), b, 0o600)
}

func (s *scene) copyRego() error {
	if err := os.Mkdir(filepath.Join(s.dir, "rego"), 0o700); err != nil {
		return err
	}
	names, err := fs.Glob(profiles.FS(), "builtin/*.rego")
	if err != nil {
		return err
	}
	for _, name := range names {
		src, err := fs.ReadFile(profiles.FS(), name)
		if err != nil {
			return err
		}
		if err := s.write(filepath.Join("rego", filepath.Base(name)), src); err != nil {
			return err
		}
	}
	return nil
}

// addIntent writes NAME.json and NAME.input.json, which has passed the schema of
// the policy input.
func (s *scene) addIntent(name string, src []byte) error {
	in, err := s.question(src)
	if err != nil {
		return err
	}
	input, err := canon.Canonical(in.Document())
	if err != nil {
		return err
	}
	doc, err := canon.Parse(input, 2*canon.MaxIntentBytes)
	if err != nil {
		return err
	}
	violations, err := s.set.Validate(specs.KindPolicyInput, doc.Value())
	if err != nil {
		return err
	}
	if len(violations) > 0 {
		return fmt.Errorf("policy input: %s: %s", violations[0].Pointer, violations[0].Msg)
	}
	if err := s.write(name+".json", src); err != nil {
		return err
	}
	return s.write(name+".input.json", input)
}

// question returns the input that the harness gives the policy about an intent.
func (s *scene) question(src []byte) (policy.Input, error) {
	doc, err := canon.Parse(src, canon.MaxIntentBytes)
	if err != nil {
		return policy.Input{}, err
	}
	intent, err := kernel.ParseIntent(doc.Value())
	if err != nil {
		return policy.Input{}, err
	}
	whole := map[string]any{
		"actions": []any{}, "constraints": []any{}, "context": map[string]any{},
		"inputs": []any{}, "outputs": []any{},
	}
	maps.Copy(whole, doc.Value().(map[string]any))
	return policy.Input{
		Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone, KernelVersion: kernel.Version,
		IntentSHA256: string(canon.Sum(src)), Intent: whole,
		Effects: intent.Effects(s.gate.Profile), Findings: intent.FindingsUnder(s.gate.Profile),
	}, nil
}

// command is a command line and the exit status that it must end with.
type command struct {
	name string
	args []string
	exit int
}

func fiadorRun(t tools, name string) command {
	return command{"fiador run", []string{t.fiador, "run", "--policy", profileName, name + ".json"}, 0}
}

// opaEval asks for the four sets that Fiador asks for, and for nothing else.
func opaEval(t tools, name string) command {
	return command{"opa eval", []string{
		t.opa, "eval", "--format", "json", "--data", "rego", "--data", "data.json", "--input", name + ".input.json",
		"[data.gate.builtin.permit, data.gate.builtin.deny, data.gate.builtin.clarify, data.gate.builtin.note]",
	}, 0}
}

// opaSmall asks a small policy, written by hand, whether it allows the intent.
func opaSmall(t tools, name string) command {
	return command{"opa eval, small policy", []string{
		t.opa, "eval", "--format", "json", "--data", "small.rego", "--data", "data.json", "--input", name + ".input.json", "data.small.allow",
	}, 0}
}

// conftestTest has to be told where everything is; its own default is text.
func conftestTest(t tools, name string) command {
	return command{"conftest test", []string{
		t.conftest, "test", "--no-color", "--output", "json", "--policy", "rego", "--data", "data.json",
		"--namespace", policy.Builtin, name + ".input.json",
	}, 0}
}

// output runs a command in the scene and returns its standard output, whatever
// exit status it ends with.
func (s *scene) output(ctx context.Context, c command) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	return out, nil
}

// environment is the same for all tools, and as small as they take it.
func (s *scene) environment() []string {
	return []string{"HOME=" + s.dir, "TMPDIR=" + s.dir, "PATH=" + os.Getenv("PATH")}
}

// agree makes sure that the tools decide the allowed and the refused intent
// alike, by the same rules in the same words.
func (s *scene) agree(ctx context.Context, t tools) error {
	for name, outcome := range map[string]kernel.Outcome{"allowed": kernel.OutcomeBundle, "refused": kernel.OutcomeRefuse} {
		v, err := s.verdict(ctx, name)
		if err != nil {
			return fmt.Errorf("%s intent: %w", name, err)
		}
		for tool, check := range map[string]func(context.Context, tools, string, kernel.Outcome, kernel.Verdict) error{
			"fiador": s.agreeFiador, "opa": s.agreeOPA, "conftest": s.agreeConftest, "opa with the small policy": s.agreeSmall,
		} {
			if err := check(ctx, t, name, outcome, v); err != nil {
				return fmt.Errorf("%s on the %s intent: %w", tool, name, err)
			}
		}
	}
	return nil
}

func (s *scene) verdict(ctx context.Context, name string) (kernel.Verdict, error) {
	src, err := os.ReadFile(filepath.Join(s.dir, name+".json"))
	if err != nil {
		return kernel.Verdict{}, err
	}
	in, err := s.question(src)
	if err != nil {
		return kernel.Verdict{}, err
	}
	return s.gate.Judge.Eval(ctx, in)
}

// agreeFiador: the process says the outcome and the reasons of the verdict.
func (s *scene) agreeFiador(ctx context.Context, t tools, name string, outcome kernel.Outcome, v kernel.Verdict) error {
	out, err := s.output(ctx, fiadorRun(t, name))
	if err != nil {
		return err
	}
	var got struct {
		Kind     kernel.Outcome `json:"kernel_result_kind"`
		Decision struct{ Reasons []string }
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return fmt.Errorf("no result: %s", out)
	}
	var reasons []string
	for _, d := range v.Deny {
		reasons = append(reasons, d.ID+" "+d.Path)
	}
	if got.Kind != outcome || !sameSet(got.Decision.Reasons, reasons) {
		return fmt.Errorf("%s %q instead of %s %q", got.Kind, got.Decision.Reasons, outcome, reasons)
	}
	return nil
}

// agreeOPA: the four sets are those of the verdict, member by member.
func (s *scene) agreeOPA(ctx context.Context, t tools, name string, _ kernel.Outcome, v kernel.Verdict) error {
	out, err := s.output(ctx, opaEval(t, name))
	if err != nil {
		return err
	}
	var got struct {
		Result []struct {
			Expressions []struct{ Value [4][]json.RawMessage }
		}
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Result) != 1 || len(got.Result[0].Expressions) != 1 {
		return fmt.Errorf("no answer: %s", out)
	}
	for i, want := range answers(v) {
		var set []string
		for _, raw := range got.Result[0].Expressions[0].Value[i] {
			b, err := canon.Canonical(raw)
			if err != nil {
				return err
			}
			set = append(set, string(b))
		}
		if !sameSet(set, want) {
			return fmt.Errorf("answer %d is %q instead of %q", i, set, want)
		}
	}
	return nil
}

// agreeSmall: the small policy allows what the profile allows, and nothing else.
func (s *scene) agreeSmall(ctx context.Context, t tools, name string, outcome kernel.Outcome, _ kernel.Verdict) error {
	out, err := s.output(ctx, opaSmall(t, name))
	if err != nil {
		return err
	}
	if said := fmt.Sprintf(`"value": %t`, outcome == kernel.OutcomeBundle); !bytes.Contains(out, []byte(said)) {
		return fmt.Errorf("no %s: %s", said, out)
	}
	return nil
}

// answers are the four sets of a verdict, each element in canonical JSON. Fixes and options
// are not answers of the Rego: the gate takes them from the records.
func answers(v kernel.Verdict) [4][]string {
	var sets [4][]string
	add := func(i int, x any) {
		b, err := canon.Canonical(x)
		if err != nil {
			panic(err)
		}
		sets[i] = append(sets[i], string(b))
	}
	for _, id := range v.Permits {
		add(0, id)
	}
	for i, list := range [][]kernel.Result{v.Deny, v.Clarify, v.Note} {
		text := []string{"msg", "question", "msg"}[i]
		for _, r := range list {
			add(i+1, map[string]any{"id": r.ID, "path": r.Path, text: r.Text})
		}
	}
	return sets
}

// agreeConftest: conftest fails with the messages of the denials. It asks for no
// other set that the policy has.
func (s *scene) agreeConftest(ctx context.Context, t tools, name string, _ kernel.Outcome, v kernel.Verdict) error {
	out, err := s.output(ctx, conftestTest(t, name))
	if err != nil {
		return err
	}
	var got []struct {
		Namespace string
		Failures  []struct{ Msg string }
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got) != 1 || got[0].Namespace != policy.Builtin {
		return fmt.Errorf("no answer: %s", bytes.TrimSpace(out))
	}
	var set, want []string
	for _, f := range got[0].Failures {
		set = append(set, f.Msg)
	}
	for _, d := range v.Deny {
		want = append(want, d.Text)
	}
	if !sameSet(set, want) {
		return fmt.Errorf("failures %q instead of %q", set, want)
	}
	return nil
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// intent is the source of an intent, before it is JSON.
type intent struct {
	Goal        string           `json:"goal"`
	Constraints []string         `json:"constraints"`
	Actions     []map[string]any `json:"actions"`
	Inputs      []string         `json:"inputs,omitempty"`
	Outputs     []string         `json:"outputs,omitempty"`
	Context     any              `json:"context,omitempty"`
}

func (in intent) bytes() []byte {
	b, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return b
}

// small is an ordinary intent that the profile allows: files to write and
// commands to run.
func small() intent {
	return intent{
		Goal:        "Build the documentation site and write the release notes for version 1.4.0",
		Constraints: []string{"every page links back to the index", "the notes fit on one page"},
		Actions: []map[string]any{
			{"kind": "write", "path": "out/notes.md", "content": ""},
			{"kind": "run", "argv": []string{"node", "scripts/build.js", "--out", "dist/site"}, "risk_level": "low"},
			{"kind": "write", "path": "dist/site/manifest.json", "content": `{"version":"1.4.0","pages":12}`},
			{"kind": "run", "argv": []string{"npm", "test"}, "timeout_ms": 30000},
		},
		Inputs:  []string{"src/index.md", "scripts/build.js"},
		Outputs: []string{"out/notes.md", "dist/site/manifest.json"},
	}
}

// prose is n bytes of plain text with a line feed here and there, which JSON
// escapes into two bytes each.
func prose(n int) string {
	const line = "The start is faster, and the index lists every page.\n"
	s := strings.Repeat(line, n/len(line)+1)
	for len(s)+strings.Count(s, "\n") > n {
		s = s[:len(s)-1]
	}
	return s
}

// sized is the ordinary intent with so much content in one file that it has n
// bytes.
func sized(n int) []byte {
	in := small()
	in.Actions[0]["content"] = prose(n - len(in.bytes()))
	return in.bytes()
}

// crowded is an intent of n bytes with the most actions that an intent may have.
func crowded(n int) []byte {
	const actions = 256
	in := small()
	in.Outputs = nil
	for i := len(in.Actions); i < actions; i++ {
		in.Actions = append(in.Actions, map[string]any{
			"kind": "write", "path": fmt.Sprintf("out/page-%03d.md", i), "content": "",
		})
	}
	share := (n - len(in.bytes())) / (actions - 4)
	for i := 4; i < actions; i++ {
		in.Actions[i]["content"] = prose(share)
	}
	return in.bytes()
}

// hostile is an intent of n bytes whose context takes as many values as fit.
func hostile(n int) []byte {
	in := small()
	in.Context = map[string]any{"n": []int{}}
	in.Context = map[string]any{"n": make([]int, (n-len(in.bytes()))/2)}
	return in.bytes()
}

func refusedIntent() []byte {
	in := small()
	in.Actions = append(in.Actions,
		map[string]any{"kind": "run", "argv": []string{"curl", "-o", "out/install.sh", "example.com/install.sh"}},
		map[string]any{"kind": "write", "path": ".github/workflows/gate.yml", "content": "on: push\n"},
		map[string]any{"kind": "write", "path": "../outside.txt", "content": "x"},
	)
	return in.bytes()
}
