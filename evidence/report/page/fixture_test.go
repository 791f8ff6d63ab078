package page_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fiador/fiador/evidence/report/page"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

func decoded(src string) any {
	v, err := canon.ParseLiteral([]byte(src), len(src), 1e9)
	if err != nil {
		panic(err)
	}
	return v
}

func ptr[T any](v T) *T { return &v }

// answer is the file of a case with an output.
func answer(content any, latency int) map[string]any {
	return map[string]any{"status": "ok", "final_output": map[string]any{"content": content},
		"attempts": []any{map[string]any{"attempt": json.Number("1"), "outcome": "ok", "latency_ms": json.Number(fmt.Sprint(latency))}}}
}

func call(i int, tool, args, status, payload string, ms float64) *grade.Unit {
	return &grade.Unit{Kind: grade.UnitCall, Tool: tool, Place: fmt.Sprintf("events[%d]", i), Result: fmt.Sprintf("events[%d]", i+1),
		Args: decoded(args), Status: status, Payload: decoded(payload), Latency: ms}
}

func output(text any) *grade.Unit {
	return &grade.Unit{Kind: grade.UnitOutput, Place: "final_output", Payload: text, Latency: -1}
}

func side(k, n int, cause string, failed ...string) *grade.SideResult {
	s := &grade.SideResult{State: grade.StablePass, K: k, N: n, Runs: max(n, 1), Errors: max(n, 1) - n, Failed: failed}
	switch {
	case n == 0:
		s.State = grade.NoData
	case k == 0:
		s.State = grade.StableFail
	case k < n:
		s.State = grade.Flaky
	}
	if cause != "" {
		s.RootCause = &grade.RootCause{Name: cause, Confidence: "medium", Evidence: []string{"events[5]"}}
	}
	return s
}

// quiet adds a case that has not changed, with n calls.
func quiet(r *page.Report, id, input string, n int) {
	const text = "Your order 4711 is on its way.\nIt will arrive on Friday between 9 and 12."
	a := &grade.Alignment{}
	for i := range n {
		u := call(2*i, "get_order", fmt.Sprintf(`{"order_id":"A-%d","fields":["status","total"]}`, 4000+i), "ok", fmt.Sprintf(`{"status":"shipped","total":%d.90}`, i), float64(20+i))
		a.Rows = append(a.Rows, grade.Row{Mark: grade.Equal, Baseline: u, New: u})
	}
	o := output(text)
	a.Rows = append(a.Rows, grade.Row{Mark: grade.Equal, Baseline: o, New: o})
	run := grade.Run{Artifact: grade.Artifact{Doc: answer(text, 310)}, RunID: "2026-11-26-new-r01", Verdict: grade.Pass,
		Assertions: []grade.Assertion{{ID: "evidence_resolved", Kind: "evidence_resolved", Outcome: grade.Passed}, {ID: "tool_required", Kind: "tool_required", Outcome: grade.Passed}, {ID: "must_include:0", Kind: "must_include", Outcome: grade.Passed}}}
	r.Cases = append(r.Cases, grade.CaseResult{CaseID: id, Class: grade.UnchangedPass, Confidence: grade.Stable, Baseline: side(5, 5, ""), New: side(5, 5, ""), Trace: "same"})
	r.Details[id] = page.Case{Input: input, Baseline: &page.Shown{Run: run}, New: &page.Shown{Run: run}, Alignment: a}
}

// refund adds the case that the page is read for: a tool fails, and the answer is another one.
func refund(r *page.Report) {
	const id = "refund-over-limit"
	lookup := call(0, "get_order", `{"order_id":"A-4711"}`, "ok", `{"order_id":"A-4711","status":"delivered","total":249.90}`, 41)
	search := &grade.Unit{Kind: grade.UnitRetrieval, Place: "events[2]", Args: "refund policy electronics", Payload: decoded(`[{"doc_id":"kb-17","score":0.91},{"doc_id":"kb-03","score":0.72}]`), Latency: -1}
	was := call(3, "create_ticket", `{"amount":249.90,"order_id":"A-4711","queue":"refunds"}`, "ok", `{"ticket":"T-88120"}`, 52)
	now := call(3, "create_ticket", `{"amount":24990,"order_id":"A-4711","queue":"refunds"}`, "error", `{"error":"amount exceeds the order's total","limit":249.90}`, 18)
	mail := call(5, "send_mail", `{"template":"refund_opened","to":"customer"}`, "ok", `{"queued":true}`, 12)
	pay := call(5, "issue_refund", `{"amount":24990,"order_id":"A-4711"}`, "ok", `{"refund":"R-1"}`, 77)
	oldText := "I have opened ticket T-88120 for your refund of 249.90 EUR.\n\nYou will get a mail as soon as it is approved,\nwhich takes one working day.\n\nKind regards\nYour support team"
	newText := "I have refunded 24990 EUR to your account.\n\nYou will get a mail as soon as it is booked,\nwhich takes one working day.\n\nKind regards\nYour support team"
	d := &grade.Divergence{Kind: "arguments", Tool: "create_ticket", Baseline: ptr("events[3]"), New: ptr("events[3]"), Pointer: "/amount", From: "249.90", To: "24990",
		Headline: "create_ticket: argument /amount went from 249.90 to 24990 at events[3]"}
	a := &grade.Alignment{Divergence: d, Rows: []grade.Row{
		{Mark: grade.Equal, Baseline: lookup, New: ptr(*lookup)}, {Mark: grade.Equal, Baseline: search, New: search},
		{Mark: grade.Different, Baseline: was, New: now, Changes: []grade.Edit{{Part: "arguments", Pointer: "/amount", From: "249.90", To: "24990"}, {Part: "status", From: "ok", To: "error"}, {Part: "payload", Pointer: "/error", To: `"amount exceeds the order's total"`}, {Part: "payload", Pointer: "/ticket", From: `"T-88120"`}}},
		{Mark: grade.OnlyOld, Baseline: mail}, {Mark: grade.OnlyNew, New: pay},
		{Mark: grade.Different, Baseline: output(oldText), New: output(newText), Changes: []grade.Edit{{Part: "content", From: "sha256:1", To: "sha256:2"}}}}}
	a.Rows[0].New.Latency = 44
	for i := range 7 {
		u := call(7+2*i, "log_step", fmt.Sprintf(`{"step":%d}`, i), "ok", `{}`, 1)
		a.Rows = append(a.Rows[:len(a.Rows)-1], grade.Row{Mark: grade.Equal, Baseline: u, New: u}, a.Rows[len(a.Rows)-1])
	}
	r.Cases = append(r.Cases, grade.CaseResult{CaseID: id, Title: "A customer wants 249.90 EUR back", Suite: "refunds", Severity: "critical", Class: grade.Regression, Confidence: grade.Tested,
		P: ptr(0.003968), PAdjusted: ptr(0.011905), Baseline: side(5, 5, ""), New: side(0, 5, "tool_failure", "tool_success", "must_include:0", "tool_forbidden"), Trace: "changed", Divergence: d})
	pass := func(kind string) grade.Assertion {
		return grade.Assertion{ID: kind, Kind: kind, Outcome: grade.Passed}
	}
	base := grade.Run{Artifact: grade.Artifact{Doc: answer(oldText, 840)}, RunID: "2026-11-20-r01", Verdict: grade.Pass,
		Assertions: []grade.Assertion{pass("evidence_resolved"), pass("policy"), pass("tool_success"), {ID: "must_include:0", Kind: "must_include", Outcome: grade.Passed}, pass("tool_forbidden"), pass("tool_required")},
		Actions:    []grade.Action{{Subject: "proposed_actions[0]", Tool: "create_ticket", Outcome: "BUNDLE", Executed: true}}}
	fresh := grade.Run{Artifact: grade.Artifact{Doc: answer(newText, 910)}, RunID: "2026-11-26-r01", Verdict: grade.Fail, Notes: []string{"trace_integrity: the result at events[6] came 1.4 s before its call"}, Assertions: []grade.Assertion{
		pass("evidence_resolved"), pass("tool_required"),
		{ID: "policy", Kind: "policy", Outcome: grade.Failed, Reason: "issue_refund was executed, and the policy decides REFUSE", Evidence: []string{"events[5]"}},
		{ID: "tool_success", Kind: "tool_success", Outcome: grade.Failed, Reason: "the result of create_ticket is an error", Evidence: []string{"events[4]"}},
		{ID: "must_include:0", Kind: "must_include", Outcome: grade.Failed, Reason: "the output does not contain the text", Expected: "ticket", Actual: "I have refunded 24990 EUR to your account.", Evidence: []string{"final_output"}},
		{ID: "max_tokens", Kind: "max_tokens", Outcome: grade.Broken, Reason: "the agent reports no token_usage", Expected: "2000"},
		{ID: "retrieval_required", Kind: "retrieval_required", Outcome: grade.Skipped, Reason: "nothing is required"}},
		Actions: []grade.Action{{Subject: "proposed_actions[0]", Tool: "create_ticket", Outcome: "BUNDLE", Executed: true},
			{Subject: "events[5]", Tool: "issue_refund", Outcome: "REFUSE", Reasons: []string{"PAYMENT_OVER_LIMIT /amount"}, Executed: true}}}
	r.Details[id] = page.Case{Input: "The headphones from order A-4711 broke after two days. I want my money back.", Alignment: a, Baseline: &page.Shown{Run: base},
		New: &page.Shown{Run: fresh, Bodies: []page.Body{{Label: "payload of events[4]", Name: "assets/5f0c.txt", SHA256: strings.Repeat("5f", 32), Size: 61, Text: []byte("{\"error\":\"amount exceeds the order's total\",\n \"limit\":249.90}\n")},
			{Label: "retrieval snippets of events[2]", Href: "new/2026-11-26-r01/assets/77aa.txt", Name: "assets/77aa.txt", SHA256: strings.Repeat("77", 32), Size: 48213}}}}
}

// other adds a case of a class.
func other(r *page.Report, id string, class grade.Class, old, new *grade.SideResult, headline string) {
	c := grade.CaseResult{CaseID: id, Class: class, Confidence: grade.Stable, Baseline: old, New: new}
	d := page.Case{Input: "Where is my parcel?"}
	if headline != "" {
		c.Trace, c.Divergence = "changed", &grade.Divergence{Kind: "arguments", Headline: headline, Baseline: ptr("events[0]"), New: ptr("events[0]")}
		u, v := call(0, "track_parcel", `{"carrier":"dhl","number":"JJD1"}`, "ok", `{"eta":"Friday"}`, 30), call(0, "track_parcel", `{"carrier":"ups","number":"JJD1"}`, "ok", `{"eta":null}`, 33)
		d.Alignment = &grade.Alignment{Divergence: c.Divergence, Rows: []grade.Row{{Mark: grade.Different, Baseline: u, New: v, Changes: []grade.Edit{{Part: "arguments", Pointer: "/carrier", From: `"dhl"`, To: `"ups"`}, {Part: "payload", Pointer: "/eta", From: `"Friday"`, To: "null"}}}}}
	}
	if old != nil {
		d.Baseline = &page.Shown{Run: grade.Run{RunID: "2026-11-20-r01", Artifact: grade.Artifact{Doc: answer("It comes on Friday.", 300)}}}
	}
	if new != nil && new.N > 0 {
		d.New = &page.Shown{Run: grade.Run{RunID: "2026-11-26-r01", Artifact: grade.Artifact{Doc: answer("I do not know when it comes.", 320)},
			Assertions: []grade.Assertion{{ID: "must_include:0", Kind: "must_include", Outcome: grade.Failed, Reason: "the output does not contain the text", Expected: "Friday", Actual: "I do not know when it comes."}}}}
	} else if new != nil {
		d.New = &page.Shown{Run: grade.Run{RunID: "2026-11-26-r01", Artifact: grade.Artifact{Doc: map[string]any{
			"attempts":       []any{map[string]any{"attempt": json.Number("1"), "outcome": "runner_error", "error_class": "timeout", "error_name": "deadline_head", "latency_ms": json.Number("60000")}},
			"runner_failure": map[string]any{"class": "timeout", "error_name": "deadline_head", "error_message": "no answer came before the deadline"}}}}}
	}
	r.Cases = append(r.Cases, c)
	r.Details[id] = d
}

// realistic is a comparison as people meet it.
func realistic() page.Report {
	r := page.Report{Details: map[string]page.Case{}}
	r.SchemaVersion, r.EvaluatedAt, r.EvaluatorVersion = grade.CompareVersion, "2026-11-26T12:00:00Z", "1.9.0"
	r.Baseline = &grade.Side{RunIDs: []string{"2026-11-20-r01", "2026-11-20-r02", "2026-11-20-r03", "2026-11-20-r04", "2026-11-20-r05"}, Sealed: true, SignedBy: []string{"sha256:9c1e…release"}}
	r.New = grade.Side{RunIDs: []string{"2026-11-26-r01", "2026-11-26-r02", "2026-11-26-r03", "2026-11-26-r04", "2026-11-26-r05"}, Sealed: true}
	r.ChangedProvenance = []grade.Change{{Name: "model", From: "atlas-2-2026-08", To: "atlas-3-2026-11"}, {Name: "prompt_sha256", From: "1f0cc3", To: "88ae01"}}
	other(&r, "address-change", grade.FlakyWorse, side(5, 5, ""), side(3, 5, "output_mismatch", "must_include:0"), "track_parcel: argument /carrier went from \"dhl\" to \"ups\" at events[0]")
	other(&r, "cancel-subscription", grade.Improvement, side(0, 5, "output_mismatch"), side(5, 5, ""), "track_parcel: argument /carrier went from \"dhl\" to \"ups\" at events[0]")
	other(&r, "chat-in-polish", grade.InfraRegression, side(5, 5, ""), side(0, 0, "infra_timeout"), "")
	other(&r, "coupon-expired", grade.FlakySame, side(3, 5, "output_mismatch"), side(3, 5, "output_mismatch", "must_include:0"), "")
	other(&r, "gift-card", grade.Added, nil, side(5, 5, ""), "")
	for i := range 24 {
		quiet(&r, fmt.Sprintf("order-status-%02d", i), "Where is my order?", 10)
	}
	other(&r, "parcel-lost", grade.Regression, side(5, 5, ""), side(0, 5, "output_mismatch", "must_include:0"), "track_parcel: argument /carrier went from \"dhl\" to \"ups\" at events[0]")
	r.Cases[len(r.Cases)-1].PAdjusted = ptr(0.011905)
	refund(&r)
	other(&r, "warranty", grade.UnchangedFail, side(0, 5, "output_mismatch"), side(0, 5, "output_mismatch", "must_include:0"), "")
	finish(&r)
	r.Gate = grade.Gate{Status: grade.GateFail, ExitCode: 1, Limits: grade.DefaultLimits(), Reasons: []grade.Reason{
		{Code: "regression", Count: 2, Cases: []string{"parcel-lost", "refund-over-limit"}},
		{Code: "policy_violation", Count: 1, Cases: []string{"refund-over-limit"}},
		{Code: "infra_regression", Count: 1, Cases: []string{"chat-in-polish"}}}}
	return r
}

// finish sums up the cases.
func finish(r *page.Report) {
	s := &r.Summary
	s.Classes, s.PassShare, s.Answers = map[grade.Class]int{}, map[trial.Side]grade.Share{}, map[trial.Side]grade.Ratio{}
	for _, c := range r.Cases {
		s.Classes[c.Class]++
		for name, v := range map[trial.Side]*grade.SideResult{trial.Baseline: c.Baseline, trial.New: c.New} {
			if v == nil {
				continue
			}
			share, ratio := s.PassShare[name], s.Answers[name]
			if share.N++; v.K == v.N && v.N > 0 {
				share.K++
			}
			ratio.K, ratio.N = ratio.K+v.N, ratio.N+v.Runs
			s.PassShare[name], s.Answers[name] = share, ratio
		}
	}
	s.B, s.C, s.SignP, s.Delta = 4, 1, 0.1875, [3]float64{-0.074, -0.181, 0.033}
}
