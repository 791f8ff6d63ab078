package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy"
)

// sizes are the sizes at which a folder of intents is timed.
type sizes struct {
	intents int   // in the whole folder
	rules   []int // of a policy, from none to all
	whole   int   // rounds over the whole folder
	rounds  int   // rounds over it with all rules, and over parts of it
}

func fullSize() sizes  { return sizes{10000, []int{0, 125, 250, 500, 1000}, 5, 3} }
func quickSize() sizes { return sizes{400, []int{0, 10, 20, 40, 80}, 1, 1} }

// One or few shards stand for the folder where all of it would take long.
const (
	one = 1
	few = 2
)

// parts are how many shards are timed, from small to the whole folder.
func parts() []int { return []int{few, 5, 10, shards} }

func (z sizes) in(shard int) int { return z.intents * shard / shards }
func (z sizes) allRules() int    { return z.rules[len(z.rules)-1] }

// folder has the measurements of a folder of intents.
type folder struct {
	sizes
	intentBytes, inputBytes int
	plainCount, ruledCount  map[kernel.Outcome]int // of few shards

	plain   []series // the whole folder, built-in policy: fiador, conftest
	ruled   []series // the whole folder, all rules: fiador, conftest
	forms   []series // one shard, all rules: fiador, and conftest in three forms
	byParts []series // fiador by part
	keeping []series // fiador on the first and the last part, for each of keepers
	byRules []series // fiador on few shards, by number of rules
}

// keepers are the formats that keep findings until the end; json keeps nothing.
func keepers() []string { return []string{"sarif", "junit"} }

// rulesFolder is where the profile with so many rules lies, seen from the folder
// of intents: not below what is gated.
func rulesFolder(n int) string { return fmt.Sprintf("../rules-%d", n) }

const rawRules = "../rules-raw"

// fiadorCheck ends with 1: some intents of every part are rejected.
func fiadorCheck(t tools, policy, format string, paths ...string) command {
	args := []string{t.fiador, "check", "--policy", policy, "--format", format}
	return command{"fiador check", append(args, paths...), 1}
}

// conftestFolder is told where everything is, as for one intent.
func conftestFolder(t tools, flags []string, paths ...string) command {
	args := append([]string{t.conftest, "test", "--no-color", "--output", "json"}, flags...)
	return command{"conftest test", append(args, paths...), 1}
}

func builtinFlags() []string {
	return []string{"--policy", "../rego", "--data", "../data.json", "--namespace", policy.Builtin}
}

func userFlags(rules int) []string {
	return []string{"--policy", rulesFolder(rules), "--namespace", userPackage}
}

func rawFlags() []string { return []string{"--policy", rawRules} }

// folders fills the report's part about a folder of intents.
func (r *report) folders(ctx context.Context, t tools, s *scene, z sizes) error {
	f, err := newFolder(s, z)
	if err != nil {
		return err
	}
	r.folder.sizes = z
	if r.folder.intentBytes, r.folder.inputBytes, err = f.addFolder(z.intents); err != nil {
		return err
	}
	for _, part := range []func(context.Context, tools, *scene) error{
		r.folder.agree, r.folder.sideBySide, r.folder.inForms, r.folder.inParts, r.folder.inRules,
	} {
		if err := part(ctx, t, f); err != nil {
			return err
		}
	}
	return nil
}

// newFolder is a scene in a folder of its own, with the policies beside it.
func newFolder(s *scene, z sizes) (*scene, error) {
	f := &scene{dir: filepath.Join(s.dir, "folder"), set: s.set, gate: s.gate}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return nil, err
	}
	for _, n := range z.rules {
		if err := f.addRules(rulesFolder(n), n); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(filepath.Join(f.dir, rawRules), 0o700); err != nil {
		return nil, err
	}
	return f, f.addModules(rawRules, z.allRules(), onIntents())
}

// sideBySide times both tools on the whole folder.
func (m *folder) sideBySide(ctx context.Context, t tools, s *scene) error {
	var err error
	m.plain, err = s.inTurn(ctx, t, []command{
		fiadorCheck(t, profileName, "json", "intents"), conftestFolder(t, builtinFlags(), "inputs"),
	}, 0, m.whole)
	if err != nil {
		return err
	}
	rules := m.allRules()
	m.ruled, err = s.inTurn(ctx, t, []command{
		fiadorCheck(t, rulesFolder(rules), "json", "intents"), conftestFolder(t, userFlags(rules), "inputs"),
	}, 0, m.rounds)
	return err
}

// inForms times what else conftest could be given, on a part of the folder.
func (m *folder) inForms(ctx context.Context, t tools, s *scene) error {
	rules, intents, inputs := m.allRules(), below("intents", one), below("inputs", one)
	commands := []command{
		fiadorCheck(t, rulesFolder(rules), "json", intents...),
		conftestFolder(t, userFlags(rules), inputs...),
		conftestFolder(t, append(builtinFlags(), userFlags(rules)...), inputs...),
		conftestFolder(t, rawFlags(), intents...),
	}
	for i, form := range []string{"", ", as above", ", two namespaces", ", on intents"} {
		commands[i].name += form
	}
	var err error
	m.forms, err = s.inTurn(ctx, t, commands, 0, m.rounds)
	return err
}

// inParts times fiador on larger and larger parts of the folder.
func (m *folder) inParts(ctx context.Context, t tools, s *scene) error {
	var byParts, keeping []command
	for _, part := range parts() {
		byParts = append(byParts, fiadorCheck(t, profileName, "json", below("intents", part)...))
	}
	for _, format := range keepers() {
		for _, part := range []int{few, shards} {
			keeping = append(keeping, fiadorCheck(t, profileName, format, below("intents", part)...))
		}
	}
	var err error
	if m.byParts, err = s.inTurn(ctx, t, byParts, 0, m.rounds); err != nil {
		return err
	}
	m.keeping, err = s.inTurn(ctx, t, keeping, 0, 1)
	return err
}

// inRules times fiador under more and more rules.
func (m *folder) inRules(ctx context.Context, t tools, s *scene) error {
	var commands []command
	for _, n := range m.rules {
		commands = append(commands, fiadorCheck(t, rulesFolder(n), "json", below("intents", few)...))
	}
	var err error
	m.byRules, err = s.inTurn(ctx, t, commands, 0, m.rounds)
	return err
}

// denials are the rules that deny an intent, each with its place, by the name of
// the intent's file.
type denials map[string][]string

// agree fails unless both tools refuse the same intents by the same rules. It asks them
// about a part of the folder, for each policy that is timed, and counts the outcomes.
func (m *folder) agree(ctx context.Context, t tools, s *scene) error {
	intents, inputs, rules := below("intents", few), below("inputs", few), m.allRules()
	plain, counts, err := s.fiadorDenials(ctx, fiadorCheck(t, profileName, "json", intents...))
	if err != nil {
		return err
	}
	m.plainCount = counts
	ruled, counts, err := s.fiadorDenials(ctx, fiadorCheck(t, rulesFolder(rules), "json", intents...))
	if err != nil {
		return err
	}
	m.ruledCount = counts
	user := ruled.byRules(rules)
	for _, c := range []struct {
		what string
		want denials
		c    command
	}{
		{"the built-in policy", plain, conftestFolder(t, builtinFlags(), inputs...)},
		{"the rules", user, conftestFolder(t, userFlags(rules), inputs...)},
		{"the rules and the built-in policy", ruled, conftestFolder(t, append(builtinFlags(), userFlags(rules)...), inputs...)},
		{"the rules written for the intents", user, conftestFolder(t, rawFlags(), intents...)},
	} {
		got, err := s.conftestDenials(ctx, c.c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		if len(got) != m.in(few) || len(c.want) != m.in(few) {
			return fmt.Errorf("%s: %d and %d intents were decided instead of %d", c.what, len(c.want), len(got), m.in(few))
		}
		for name, want := range c.want {
			if !sameSet(got[name], want) {
				return fmt.Errorf("%s: %s is denied by %q and by %q", c.what, name, want, got[name])
			}
		}
	}
	return nil
}

// byRules leaves out the denials of the built-in policy.
func (d denials) byRules(rules int) denials {
	own := map[string]bool{}
	for n := range rules {
		own[nthRule(n).id] = true
	}
	out := denials{}
	for name, list := range d {
		out[name] = slices.DeleteFunc(slices.Clone(list), func(denial string) bool {
			id, _, _ := strings.Cut(denial, " ")
			return !own[id]
		})
	}
	return out
}

// fiadorDenials reads what fiador check prints: a result a line.
func (s *scene) fiadorDenials(ctx context.Context, c command) (denials, map[kernel.Outcome]int, error) {
	out, err := s.output(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	d, counts := denials{}, map[kernel.Outcome]int{}
	for line := range bytes.Lines(out) {
		var got struct {
			Kind     kernel.Outcome `json:"kernel_result_kind"`
			Intent   struct{ Path string }
			Decision struct{ Reasons []string }
		}
		if err := json.Unmarshal(line, &got); err != nil {
			return nil, nil, fmt.Errorf("no result: %s", line)
		}
		counts[got.Kind]++
		name := path.Base(got.Intent.Path)
		d[name] = nil
		if got.Kind == kernel.OutcomeRefuse {
			d[name] = got.Decision.Reasons
		}
	}
	return d, counts, nil
}

func (s *scene) conftestDenials(ctx context.Context, c command) (denials, error) {
	out, err := s.output(ctx, c)
	if err != nil {
		return nil, err
	}
	var files []struct {
		Filename string
		Failures []struct {
			Metadata struct{ ID, Path string }
		}
	}
	if err := json.Unmarshal(out, &files); err != nil {
		return nil, fmt.Errorf("no answer: %s", bytes.TrimSpace(out))
	}
	d := denials{}
	for _, f := range files {
		name := path.Base(f.Filename)
		list := d[name]
		for _, failure := range f.Failures {
			list = append(list, failure.Metadata.ID+" "+failure.Metadata.Path)
		}
		d[name] = list // with two namespaces a file comes twice
	}
	return d, nil
}
