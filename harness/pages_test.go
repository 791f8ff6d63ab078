package harness_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

var updatePages = flag.Bool("update-pages", false, "write the generated pages")

// TestRulesPage: specs/rules.md has the records of the built-in policy, and the weight of
// each rule in each built-in profile.
func TestRulesPage(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	var all []kernel.Profile
	for _, name := range profiles.Names() {
		p, err := profile.Load(profiles.FS(), name, set)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: "strict"}, set, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Rules of the built-in policy\n\nGenerated from `profiles/builtin/records.json` (`go test ./harness -run RulesPage -update-pages`).\n" +
		"A rule that has no severity in a profile always denies. `NOT_PERMITTED` is the kernel's own: an effect that no rule permits.\n" +
		"The texts of questions enter bundles and results: they are those of `records.json`, which is normative. A question's priority is 60 where none is given.\n")
	rules, err := gate.Judge.(*policy.Engine).Rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		fmt.Fprintf(&b, "\n## %s\n\n%s. %s.\n\n", r.ID, r.Title, r.Description)
		for _, p := range all {
			if s, ok := p.Severity[r.ID]; ok {
				fmt.Fprintf(&b, "- %s: %s\n", p.Name, s)
			}
		}
		if _, chosen := all[0].Severity[r.ID]; !chosen {
			b.WriteString("- every profile: deny\n")
		}
		if r.Fix != "" {
			fmt.Fprintf(&b, "- fix: %s\n", r.Fix)
		}
		if r.Priority != kernel.DefaultPriority {
			fmt.Fprintf(&b, "- priority of its question: %d\n", r.Priority)
		}
		if by := r.Settled(); by != "" {
			fmt.Fprintf(&b, "- its question is settled by: %s\n", by)
		}
	}
	checkPage(t, "../specs/rules.md", b.String())
}

// TestReferencePage: docs/reference.md has every record that fiador explain prints without
// a profile of the user's.
func TestReferencePage(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	builtin := harness.Sources{Builtin: profiles.FS(), Profile: "strict"}
	rules, err := harness.Rules(t.Context(), builtin, set, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	weights, err := harness.Weights(builtin, set)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Reference of codes\n\nEvery error code, invariant, reason, word of a comparison and rule of this version, as `fiador explain CODE` prints it. A test writes this page from the\n" +
		"same records (`go test ./harness -run ReferencePage -update-pages`). Rules of a profile or a layer of your own have the same form:\n" +
		"`fiador explain CODE --policy PATH`. How each built-in profile weighs a rule stands with the rule; where nothing is said, it always denies.\n")
	entry := func(r result.Record, more ...string) {
		fmt.Fprintf(&b, "\n### %s\n\n%s. %s.\n\n- fix: %s\n- since: %s\n", r.ID, upperFirst(r.Title), r.Why, r.Fix, r.Since)
		for _, line := range more {
			b.WriteString("- " + line + "\n")
		}
	}
	for _, section := range []struct {
		kind        result.RecordKind
		title, text string
	}{
		{result.RecordError, "Errors", "No decision was made; the exit code is 2, and standard error carries a RunError line."},
		{result.RecordInvariant, "Invariants", "What every RunResult fulfils; `fiador verify` checks them."},
		{result.RecordExecution, "Executions", "The ids of `decision.reasons` of an intent that was executed, and of `reasons` of an execution report."},
		{result.RecordPack, "Packs", "What every run pack fulfils; `fiador pack verify` checks them, rules SG with `--key` and `--ledger-key`. [pack-rules.md](pack-rules.md) has the vector of each."},
		{result.RecordKind(grade.OfAssertion), "Comparisons: assertions", "What the cases of a suite expect, judged by `fiador suite compare` in each run; [evaluation.md](../specs/evaluation.md#assertions) says when each holds."},
		{result.RecordKind(grade.OfClass), "Comparisons: classes", "How a case on new differs from baseline."},
		{result.RecordKind(grade.OfGate), "Comparisons: reasons of the gate", "Why new was rejected, or why there is no decision."},
		{result.RecordKind(grade.OfRootCause), "Comparisons: root causes", "Why runs of a case did not pass."},
		{result.RecordChange, "Changes", "The findings of `fiador check --covers` about changed paths."},
		{result.RecordRule, "Rules", "The ids of `decision.reasons`, and of the notes and questions of reports."},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", section.title, section.text)
		for _, r := range harness.Records() {
			if r.Kind == section.kind {
				entry(r)
			}
		}
	}
	for _, r := range rules {
		var said []string
		for _, p := range profiles.Names() {
			if w, ok := weights[r.ID][p]; ok {
				said = append(said, p+" "+w)
			}
		}
		more := []string{fmt.Sprintf("rule: %s of `%s`, in `%s`", strings.Join(r.Kinds, ", "), r.Layer, r.Module)}
		if len(said) > 0 {
			more = append(more, "weight: "+strings.Join(said, ", "))
		}
		if by := r.Settled(); by != "" {
			more = append(more, "its question is settled by: "+by)
		}
		if r.Since == "" || r.Fix == "" {
			t.Errorf("%s has no fix or no since", r.ID)
		}
		entry(result.Record{ID: r.ID, Title: r.Title, Why: r.Description, Fix: r.Fix, Since: r.Since}, more...)
	}
	checkPage(t, "../docs/reference.md", b.String())
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// TestOneIntentPage: docs/one-intent.md follows examples/notes.json from its bytes to its
// digest. The test computes every hash on the page again from the bytes that the page
// shows, with SHA-256 alone, and compares it with a run.
func TestOneIntentPage(t *testing.T) {
	raw, err := os.ReadFile("../examples/notes.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := canon.Parse(raw, canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	intent, err := kernel.ParseIntent(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	rep := runNotes(t, raw)
	bundle := rep.Decision.Bundle
	idless := *bundle
	idless.ID = ""
	out := bundle.Outputs[0]
	var b strings.Builder
	b.WriteString(pageHead)
	step := func(title, text string, v any, shown string) {
		content, _, err := canon.Artifact(v)
		if raw, ok := v.([]byte); ok {
			content, err = raw, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		if shown == "" || !strings.HasPrefix(sum, shown) {
			t.Errorf("%s: the bytes hash to %s, and the run gave %s", title, sum, shown)
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n```json\n%s```\n\nSHA-256 `%s`\n\n", title, text, content, sum)
	}
	step("The file", "These bytes are what `intent.sha256` covers; the last one is a line feed.", raw, rep.Result.Intent.SHA256.Hex())
	step("The normalised intent", "Always six members, in canonical form, and a line feed. This is `source_intent_hash`.", intent.Normalised(), bundle.SourceIntentHash)
	step("The node", fmt.Sprintf("The first 16 digits make the id `%s`.", bundle.RootNode.ID),
		map[string]any{"constraints": intent.Constraints, "goal": intent.Goal, "parent_id": nil}, strings.TrimPrefix(bundle.RootNode.ID, "node_"))
	step("The output", fmt.Sprintf("One write gives one output. The first 16 digits make the id `%s`.", out.ID),
		map[string]any{"content": out.Content, "path": out.Path, "type": out.Type}, strings.TrimPrefix(out.ID, "out_"))
	step("The bundle without its id", fmt.Sprintf("The first 16 digits make the id `%s`.", bundle.ID), &idless, strings.TrimPrefix(bundle.ID, "bundle_"))
	step("The bundle", "What `--bundle FILE` writes, byte for byte. This is `bundle.sha256`.", rep.Decision.BundleBytes, rep.Result.Bundle.SHA256.Hex())
	res, err := canon.Parse(rep.Bytes, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	obj := res.Value().(map[string]any)
	digest, err := result.Digest(obj)
	if err != nil {
		t.Fatal(err)
	}
	step("The canonical subset", "The RunResult without `run_id`, `started_at`, `completed_at` and `intent.path`. This is what `fiador digest` prints.",
		result.Subset(obj), digest.Hex())
	b.WriteString("## The RunResult\n\nWhat a run printed at one moment. Only the four members above differ from run to run.\n\n```json\n" + string(rep.Bytes) + "```\n")
	checkPage(t, "../docs/one-intent.md", b.String())
}

const pageHead = "# One intent, byte for byte\n\nThis page follows `examples/notes.json` under the profile default to its RunResult and its hashes.\n" +
	"A test writes it and recomputes every hash from the bytes shown (`go test ./harness -run OneIntentPage -update-pages`).\n" +
	"Each block is one line and its line feed, except the first, which is the file as it is. To check one by hand, put the block into a file and run `sha256sum`.\n\n"

func runNotes(t *testing.T, raw []byte) harness.Report {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: "default"}, set, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	moment := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	rep, err := harness.Run(t.Context(), harness.Deps{Now: func() time.Time { return moment }, Rand: strings.NewReader("\x01\x23\x45\x67\x89\xab\xcd\xef"), Specs: set}, gate,
		harness.Request{Source: raw, Path: "examples/notes.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func checkPage(t *testing.T, page, want string) {
	t.Helper()
	if *updatePages {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): run go test ./harness -run Page -update-pages", page, err)
	}
}
