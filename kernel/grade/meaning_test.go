package grade_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/grade"
)

// TestMeanings: every word of a judgement has one meaning, which says what it is, what it means
// and what to do, and no word has two.
func TestMeanings(t *testing.T) {
	words := map[grade.MeaningKind]string{
		grade.OfAssertion: `evidence_resolved policy action_required tool_required tool_forbidden tool_sequence tool_success max_tool_calls max_latency_ms
			max_tokens trace_integrity json_schema must_include must_not_include equals json_equals retrieval_required evidence_required_for_actions`,
		grade.OfClass: `regression flaky_worse infra_regression inconclusive removed changed_fail added baseline_unusable flaky_same flaky_better
			improvement unchanged_fail unchanged_pass`,
		grade.OfGate: `regression critical_failure policy_violation added_failing removed secret_exposed suite_worse pass_rate flaky weak no_cases
			answers infra_regression baseline_unusable`,
		grade.OfRootCause: `missing_case infra_timeout infra_network infra_http infra_other bad_response_format evidence_unresolved contract_violation
			policy_violation tool_failure wrong_tool_choice missing_required_data format_violation output_mismatch unknown`,
	}
	got := map[grade.MeaningKind][]string{}
	for _, m := range grade.Meanings() {
		got[m.Kind] = append(got[m.Kind], m.ID)
		for _, s := range []string{m.Title, m.Why, m.Fix} {
			if s == "" || strings.HasSuffix(s, ".") || strings.TrimSpace(s) != s || strings.Contains(s, "\n") {
				t.Errorf("%s %s says %q", m.Kind, m.ID, s)
			}
		}
		if len(m.Title) > 64 || len(m.Why)+len(m.Fix) > 320 {
			t.Errorf("%s %s says too much", m.Kind, m.ID)
		}
		if grade.MeaningOf(m.Kind, m.ID) != m {
			t.Errorf("%s %s has two meanings", m.Kind, m.ID)
		}
	}
	for kind, list := range words {
		if want := strings.Fields(list); !slices.Equal(got[kind], want) {
			t.Errorf("%s: there are %q, want %q", kind, got[kind], want)
		}
	}
	if m := grade.MeaningOf(grade.OfGate, "else"); m.Title != "else" || m.Why != "" {
		t.Errorf("an unknown word means %+v", m)
	}
}
