package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
)

// The shape of bundle.json is that of specs/bundle.schema.json (ST4).

func (s *strictLevel) readBundle() {
	d := s.doc(BundleFile)
	if d == nil || d.value == nil {
		return
	}
	r := s.shape("ST4", BundleFile)
	if bundle := r.bundle(d.value); !r.bad {
		s.bundle = bundle
	}
}

func (r *shape) bundle(v any) *kernel.Bundle {
	o := r.object(v)
	b := &kernel.Bundle{
		ID:               o.form("id", identifier("bundle_"), "the id of a bundle"),
		SchemaVersion:    o.one("schema_version", kernel.BundleSchemaVersion),
		KernelVersion:    o.form("kernel_version", isVersion, "a version"),
		SourceIntentHash: o.form("source_intent_hash", isSum, "64 lower-case hex digits"),
		Status:           o.one("status", "complete", "incomplete"),
		Outputs:          []kernel.Output{},
	}
	o.within("root_node", func(v any) { b.RootNode = r.planNode(v) })
	o.list("terminal_nodes", 1, func(v any) { b.TerminalNodes = append(b.TerminalNodes, r.planNode(v)) })
	o.list("outputs", 256, func(v any) { b.Outputs = append(b.Outputs, r.planOutput(v)) })
	b.UnresolvedQuestions = r.planQuestions(&o)
	o.within("stats", func(v any) {
		o := r.object(v)
		b.Stats = kernel.Stats{
			TotalNodes: o.count("total_nodes", 1, 1), TerminalNodes: o.count("terminal_nodes", 0, 1), MaxDepth: o.count("max_depth", 0, 0),
			TotalOutputs: o.count("total_outputs", 0, 256), UnresolvedCount: o.count("unresolved_count", 0, 4000),
			AvgTerminalEntropy: o.count("avg_terminal_entropy", 0, 100), AvgTerminalDensity: o.count("avg_terminal_density", 0, 100),
		}
		o.done()
	})
	o.done()
	return b
}

func (o *members) count(name string, low, high int) int {
	return int(o.whole(name, int64(low), int64(high)))
}

func (r *shape) planNode(v any) kernel.Node {
	o := r.object(v)
	isNode := identifier("node_")
	n := kernel.Node{
		ID: o.form("id", isNode, "the id of a node"), Status: o.one("status", "terminal", "blocked"),
		Goal:        o.text("goal", 1, 196608),
		Constraints: o.texts("constraints", 1000, upTo(24576), "a string of at most 24576 characters"),
		Children:    o.texts("children", 1000, isNode, "the id of a node"),
	}
	if !o.null("parent_id") {
		parent := o.form("parent_id", isNode, "the id of a node, or null")
		n.ParentID = &parent
	}
	o.within("entropy", func(v any) {
		o := r.object(v)
		n.Entropy = kernel.Entropy{
			UnresolvedRefs: o.count("unresolved_refs", 0, 1048576), SchemaGaps: o.count("schema_gaps", 0, 3),
			ContradictionCount: o.count("contradiction_count", 0, 1048576), BranchingFactor: o.count("branching_factor", 1, 10),
			EntropyScore: o.count("entropy_score", 0, 100),
		}
		o.done()
	})
	o.within("density", func(v any) {
		o := r.object(v)
		n.Density = kernel.Density{
			ConcreteConstraints: o.count("concrete_constraints", 0, 1000), SpecifiedOutputs: o.count("specified_outputs", 0, 10256),
			ConstraintDepth: o.count("constraint_depth", 0, 1), DensityScore: o.count("density_score", 0, 100),
		}
		o.done()
	})
	n.UnresolvedQuestions = r.planQuestions(&o)
	o.done()
	return n
}

func (r *shape) planQuestions(o *members) []kernel.Question {
	list := []kernel.Question{}
	o.list("unresolved_questions", 4000, func(v any) {
		o := r.object(v)
		q := kernel.Question{
			ID: o.form("id", identifier("q_"), "the id of a question"), Text: o.text("text", 0, 2048),
			ExpectedAnswerType: o.one("expected_answer_type", "boolean", "choice", "text", "number", "list", "structured"),
			WhyNeeded:          o.text("why_needed", 0, 8192),
			InformationGain:    o.count("information_gain", 0, 100), Priority: o.count("priority", 0, 100),
		}
		if o.has("options") {
			q.Options = o.texts("options", 1000, upTo(2048), "a string of at most 2048 characters")
		}
		o.done()
		list = append(list, q)
	})
	return list
}

func (r *shape) planOutput(v any) kernel.Output {
	o := r.object(v)
	out := kernel.Output{
		ID:   o.form("id", identifier("out_"), "the id of an output"),
		Type: o.one("type", "file", "command", "config", "instruction", "schema"),
		Path: o.text("path", 1, 3072), Content: o.text("content", 0, 8388608),
		ContentHash: o.form("content_hash", isSum, "64 lower-case hex digits"),
		Confidence:  o.count("confidence", 0, 100),
		Encoding:    o.one("encoding", "utf8", "base64"), Executable: o.yes("executable"),
	}
	o.list("source_constraints", 0, func(any) {})
	if !o.null("action") {
		action := o.count("action", 0, 255)
		out.Action = &action
	}
	o.done()
	return out
}

// checkBundle is ST4: the bundle is what the kernel makes of the plan that it shows. Its
// ids, hashes, counts and scores are made anew; only source_intent_hash, and what was
// declared as an output and not written, follow from an intent that a pack does not have.
// A bundle of another kernel version may have other findings of placeholders and
// contradictions; these are then taken as they are.
func (s *strictLevel) checkBundle() {
	b := s.bundle
	if b == nil {
		return
	}
	s.checkBundleID(b)
	s.checkRoot(b)
	s.checkQuestions(b)
	s.checkOutputs(b)
	s.checkScores(b)
	s.checkStats(b)
	if s.run == nil || s.run.Bundle == nil {
		return
	}
	if s.run.Bundle.BundleID != b.ID {
		s.fault("ST4", at(RunFile, "bundle", "bundle_id"), "not the id of the bundle, %s", b.ID)
	}
	if s.run.KernelVersion != b.KernelVersion {
		s.fault("ST4", at(BundleFile, "kernel_version"), "not the kernel of run.json, %s", quoted(s.run.KernelVersion))
	}
	asked := []string{}
	for _, q := range b.UnresolvedQuestions {
		asked = append(asked, q.Text)
	}
	switch kind := s.run.KernelResultKind; {
	case (kind == kernel.OutcomeBundle) != (b.Status == "complete"):
		s.fault("ST4", at(BundleFile, "status"), "%s is not the status of a bundle of a %s", b.Status, kind)
	case kind == kernel.OutcomeClarify && !slices.Equal(asked, s.run.ClarifyQuestions):
		s.fault("ST4", at(RunFile, "clarify_questions"), "not the texts of the bundle's open questions")
	}
}

// checkBundleID makes the id of the bundle anew. It is over the bundle without it, which
// in canonical text is its first member.
func (s *strictLevel) checkBundleID(b *kernel.Bundle) {
	d := s.doc(BundleFile)
	if rest, ok := bytes.CutPrefix(d.raw, []byte(`{"id":"`+b.ID+`",`)); ok && d.exact {
		h := sha256.New()
		h.Write([]byte{'{'})
		h.Write(rest)
		s.checkID(at(BundleFile, "id"), b.ID, "bundle_"+hex.EncodeToString(h.Sum(nil)[:8]))
		return
	}
	idless := maps.Clone(s.object(BundleFile))
	delete(idless, "id")
	s.checkIDOf(at(BundleFile, "id"), "bundle_", b.ID, idless)
}

// checkIDOf holds an id against the value that it is the id of.
func (s *strictLevel) checkIDOf(path, prefix, id string, of map[string]any) {
	if want, err := canon.ID(prefix, of); err == nil {
		s.checkID(path, id, want)
	}
}

func (s *strictLevel) checkID(path, id, want string) {
	if id != want {
		s.fault("ST4", path, "not the id of what stands there, which is %s", want)
	}
}

// checkRoot holds the one node against what it comes from, and the terminal node against
// it.
func (s *strictLevel) checkRoot(b *kernel.Bundle) {
	n := b.RootNode
	constraints := anyTexts(n.Constraints)
	s.checkIDOf(at(BundleFile, "root_node", "id"), "node_", n.ID, map[string]any{"constraints": constraints, "goal": n.Goal, "parent_id": nil})
	if n.ParentID != nil {
		s.fault("ST4", at(BundleFile, "root_node", "parent_id"), "the root has no parent")
	}
	if len(n.Children) > 0 {
		s.fault("ST4", at(BundleFile, "root_node", "children"), "a bundle has one node")
	}
	open, status, terminal := len(b.UnresolvedQuestions) > 0, "terminal", 1
	if open {
		status, terminal = "blocked", 0
	}
	if n.Status != status {
		s.fault("ST4", at(BundleFile, "root_node", "status"), "%s, with %d open questions", n.Status, len(b.UnresolvedQuestions))
	}
	if open != (b.Status == "incomplete") {
		s.fault("ST4", at(BundleFile, "status"), "%s, with %d open questions", b.Status, len(b.UnresolvedQuestions))
	}
	if open && len(b.Outputs) > 0 {
		s.fault("ST4", at(BundleFile, "outputs"), "an incomplete bundle has none")
	}
	doc := s.object(BundleFile)
	root, _ := doc["root_node"].(map[string]any)
	nodes, _ := doc["terminal_nodes"].([]any)
	switch {
	case len(nodes) != terminal:
		s.fault("ST4", at(BundleFile, "terminal_nodes"), "%d, with %d open questions", len(nodes), len(b.UnresolvedQuestions))
	case terminal == 1 && !sameJSON(nodes[0], any(root)):
		s.fault("ST4", at(BundleFile, "terminal_nodes", "0"), "not the root node")
	}
	if !sameJSON(root["unresolved_questions"], doc["unresolved_questions"]) {
		s.fault("ST4", at(BundleFile, "root_node", "unresolved_questions"), "not the questions of the bundle")
	}
}

func (s *strictLevel) checkQuestions(b *kernel.Bundle) {
	seen := map[string]bool{}
	for i, q := range b.UnresolvedQuestions {
		here := func(name string) string { return at(BundleFile, "unresolved_questions", strconv.Itoa(i), name) }
		s.checkIDOf(here("id"), "q_", q.ID, map[string]any{
			"expected_answer_type": q.ExpectedAnswerType, "text": q.Text, "why_needed": q.WhyNeeded,
		})
		if seen[q.ID] {
			s.fault("ST4", here("id"), "the question is asked twice")
		}
		seen[q.ID] = true
		if q.InformationGain != q.Priority {
			s.fault("ST4", here("information_gain"), "not the priority, %d", q.Priority)
		}
		want := "text"
		if q.Options != nil {
			want = "choice"
		}
		if q.ExpectedAnswerType != want {
			s.fault("ST4", here("expected_answer_type"), "not %s", want)
		}
		if _, ok := sortedSet(q.Options); !ok || q.Options != nil && len(q.Options) == 0 {
			s.fault("ST4", here("options"), "not a sorted list of answers, each once")
		}
	}
}

// checkScores makes the measures of the node anew (specs/bundle.md).
func (s *strictLevel) checkScores(b *kernel.Bundle) {
	n, e, d := b.RootNode, b.RootNode.Entropy, b.RootNode.Density
	want := func(value, should int, path ...string) {
		if value != should {
			s.fault("ST4", at(BundleFile, append([]string{"root_node"}, path...)...), "%d where %d follows", value, should)
		}
	}
	want(e.BranchingFactor, min(10, 1+len(b.UnresolvedQuestions)), "entropy", "branching_factor")
	want(d.ConstraintDepth, min(1, len(n.Constraints)), "density", "constraint_depth")
	if d.SpecifiedOutputs < s.plan.files {
		want(d.SpecifiedOutputs, s.plan.files, "density", "specified_outputs")
	}
	gaps := 0
	for _, absent := range []bool{len(n.Constraints) == 0, d.SpecifiedOutputs == 0, b.Status == "complete" && len(s.plan.actions) == 0} {
		if absent {
			gaps++
		}
	}
	if b.Status == "complete" || e.SchemaGaps != gaps+1 { // the actions of an incomplete bundle are not known
		want(e.SchemaGaps, gaps, "entropy", "schema_gaps")
	}
	s.checkFound(b, want)
	want(e.EntropyScore, hundredth(30*min(100, 10*e.UnresolvedRefs)+25*min(100, 33*e.SchemaGaps)+
		25*min(100, 20*e.ContradictionCount)+20*halfUp(100*(e.BranchingFactor-1), 9)), "entropy", "entropy_score")
	want(d.DensityScore, min(100, hundredth(40*min(100, 20*d.ConcreteConstraints)+60*min(100, 34*d.SpecifiedOutputs))), "density", "density_score")
	confidence := hundredth(60*d.DensityScore + 40*(100-e.EntropyScore))
	for i, o := range b.Outputs {
		if o.Confidence != confidence {
			s.fault("ST4", at(BundleFile, "outputs", strconv.Itoa(i), "confidence"), "%d where %d follows", o.Confidence, confidence)
		}
	}
}

// halfUp is a/b rounded half up, for a >= 0 and b > 0.
func halfUp(a, b int) int { return (2*a + b) / (2 * b) }

func hundredth(a int) int { return halfUp(a, 100) }

// maxPaired is how many constraints can have no more contradicting pairs than a kernel
// lists. The number that it counts of more depends on the order in which an intent has
// them, which a bundle does not keep.
const maxPaired = 45

// checkFound holds the goal and the constraints against what normalisation leaves, and
// counts anew what the kernel finds in them.
func (s *strictLevel) checkFound(b *kernel.Bundle, want func(value, should int, path ...string)) {
	n := b.RootNode
	if b.KernelVersion != kernel.Version {
		return
	}
	constraints := anyTexts(n.Constraints)
	in, err := kernel.ParseIntent(map[string]any{"goal": n.Goal, "constraints": constraints})
	switch {
	case err != nil:
		s.fault("ST4", at(BundleFile, "root_node"), "no intent has this goal and these constraints: %s", err)
		return
	case in.Goal != n.Goal:
		s.fault("ST4", at(BundleFile, "root_node", "goal"), "not normalised")
		return
	case !slices.Equal(in.Constraints, n.Constraints):
		s.fault("ST4", at(BundleFile, "root_node", "constraints"), "not normalised, not sorted, or one is there twice")
		return
	}
	refs, pairs, vague := 0, 0, map[string]bool{}
	for _, f := range in.Findings() {
		switch f.Code {
		case finding.Placeholder:
			refs++
			if f.Path != "/goal" {
				vague[f.Path] = true
			}
		case finding.Contradiction:
			pairs++
		}
	}
	want(n.Entropy.UnresolvedRefs, refs, "entropy", "unresolved_refs")
	want(n.Density.ConcreteConstraints, len(n.Constraints)-len(vague), "density", "concrete_constraints")
	if len(constraints) <= maxPaired || (pairs == 0) != (n.Entropy.ContradictionCount == 0) {
		want(n.Entropy.ContradictionCount, pairs, "entropy", "contradiction_count")
	}
}

func (s *strictLevel) checkStats(b *kernel.Bundle) {
	st := b.Stats
	for _, c := range []struct {
		name          string
		value, should int
	}{
		{"terminal_nodes", st.TerminalNodes, len(b.TerminalNodes)},
		{"total_outputs", st.TotalOutputs, len(b.Outputs)},
		{"unresolved_count", st.UnresolvedCount, len(b.UnresolvedQuestions)},
		{"avg_terminal_entropy", st.AvgTerminalEntropy, b.RootNode.Entropy.EntropyScore},
		{"avg_terminal_density", st.AvgTerminalDensity, b.RootNode.Density.DensityScore},
	} {
		if c.value != c.should {
			s.fault("ST4", at(BundleFile, "stats", c.name), "%d where %d follows", c.value, c.should)
		}
	}
}

// anyTexts is a list of texts as a decoded value.
func anyTexts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
