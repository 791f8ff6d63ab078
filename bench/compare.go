package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// compareSizes are the sizes at which comparisons are timed.
type compareSizes struct {
	cases  int // of both sides
	events int // of each answer
	long   int // events of the one case of the other suite
	rounds int
}

func fullCompare(rounds int) compareSizes { return compareSizes{1000, 20, 5000, max(5, rounds/8)} }

func quickCompare() compareSizes { return compareSizes{20, 20, 200, 2} }

// suiteCompare is the command that is measured.
const suiteCompare = "fiador suite compare"

// judged has the measurements of comparisons.
type judged struct {
	sizes compareSizes
	load  string // of the machine before, as Linux counts it
	on    string // file system of all folders
	many  comparedDirs
	long  comparedDirs
}

// comparedDirs has the measurements of both sides of a run, and the sizes of what a comparison writes.
type comparedDirs struct {
	verifiedDirs
	page, report int64 // report.html and compare-report.json
}

// compare fills the report's part about comparisons.
func (r *report) compare(ctx context.Context, t tools, dir string, z compareSizes, log io.Writer) (err error) {
	s := &suiteScene{toolScene: toolScene{scene: scene{dir: filepath.Join(dir, "compare")}, tools: t}}
	m := &judged{sizes: z, load: loadAverage()}
	r.judged = m
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	m.on = fileSystem(s.dir)
	if s.agent, err = serveAgent(suiteSizes{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.agent.close()) }()
	return inParts(ctx, []part[*suiteScene]{
		{"many cases", func(ctx context.Context, s *suiteScene) error {
			return m.many.measure(ctx, s, z.cases, z.events, z.rounds)
		}},
		{"long traces", func(ctx context.Context, s *suiteScene) error {
			return m.long.measure(ctx, s, 1, z.long, z.rounds)
		}},
	}, s, "comparisons", log)
}

// tracedCase is a case of the generated suites, with expectations of each sort.
type tracedCase struct {
	ID       string         `json:"id"`
	Input    tracedInput    `json:"input"`
	Expected tracedExpected `json:"expected"`
}

type tracedInput struct {
	User    string `json:"user"`
	Context struct {
		Events int `json:"events"` // of the answer
		Order  int `json:"order"`
	} `json:"context"`
}

type tracedExpected struct {
	ToolRequired []string `json:"tool_required"`
	ToolSuccess  bool     `json:"tool_success"`
	MaxToolCalls int      `json:"max_tool_calls"`
	MustInclude  []string `json:"must_include"`
	Integrity    bool     `json:"trace_integrity"`
}

// tracedSuite writes cases whose answers have so many events. The orders differ, from first on.
func (s *suiteScene) tracedSuite(cases, events, first int) error {
	list := make([]tracedCase, cases)
	for i := range list {
		c := &list[i]
		c.ID, c.Input.User = fmt.Sprintf("case-%04d", i), fmt.Sprintf("Where is order %d? Refund it if it is lost.", first+i)
		c.Input.Context.Events, c.Input.Context.Order = events, first+i
		c.Expected = tracedExpected{[]string{"order_state"}, true, events, []string{fmt.Sprintf("Order %d", first+i)}, true}
	}
	text, err := json.Marshal(list)
	return errors.Join(err, s.put(casesFile(cases), string(text)))
}

// The orders whose answers on new differ, by their last digit.
const (
	orderLater = 3 // has other arguments, and a call more
	orderWorse = 7 // has a call that fails
)

// traced answers with calls and their results, as the request says.
func traced(w http.ResponseWriter, body []byte) {
	var r struct {
		Input tracedInput `json:"input"`
		Side  string      `json:"version"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	order, changed := r.Input.Context.Order, r.Side == "new"
	later, worse := changed && order%10 == orderLater, changed && order%10 == orderWorse
	say(w, `{"proposed_actions":[],"events":[`)
	calls := r.Input.Context.Events / 2
	for n := range calls {
		part, status := n, "ok"
		if n > 0 {
			say(w, ",")
		}
		if later && n >= calls/2 && n%5 == 0 {
			part += calls // an argument that baseline does not have
		}
		if worse && n == calls/2 {
			status = "error"
		}
		at := 1767258000000 + 50*n
		say(w, fmt.Sprintf(`{"type":"tool_call","ts":%d,"call_id":"c%d","tool":"order_state","args":{"order":"%d","part":%d,"fields":["state","items","carrier"]}},`, at, n, order, part))
		say(w, fmt.Sprintf(`{"type":"tool_result","ts":%d,"call_id":"c%d","status":%q,"latency_ms":40,"payload_summary":{"state":"sent","items":%d,"paid":true,"note":"Part %d left the warehouse on Monday, and nobody has signed for it."}}`,
			at+40, n, status, part, part))
	}
	say(w, fmt.Sprintf(`],"final_output":{"content_type":"text","content":"Order %d was sent on Monday. The refund waits until somebody agrees."}}`, order))
}

// measure times the comparison of both sides of a run, beside what only reads the same files.
func (m *comparedDirs) measure(ctx context.Context, s *suiteScene, cases, events, rounds int) error {
	sum, err := exec.LookPath(sumWay)
	if err != nil {
		return fmt.Errorf("what a comparison is held against: %w", err)
	}
	out, first, rejected := fmt.Sprintf("runs-%d", cases), 0, 1
	m.what = fmt.Sprintf("%d cases of %d events", cases, events)
	if cases == 1 {
		m.what = fmt.Sprintf("a case of %d events", events)
		first, rejected = orderLater, 0
	}
	if err := s.tracedSuite(cases, events, first); err != nil {
		return err
	}
	url := s.agent.url + baseTraced
	if err := s.does(ctx, append(s.run(suiteRun, cases, url, url).args, "--out", out, "--fail-on-error")...); err != nil {
		return err
	}
	var files []string
	if files, m.bytes, err = s.filesOf(out); err != nil {
		return err
	}
	m.files = len(files)
	compare := command{suiteCompare, []string{s.tools.fiador, "suite", "compare", out}, rejected}
	if err := m.prove(ctx, s, compare, cases, first); err != nil {
		return err
	}
	verify := command{suiteVerify, []string{s.tools.fiador, "suite", "verify", filepath.Join(out, "baseline", suiteRunID), filepath.Join(out, "new", suiteRunID)}, 0}
	m.runs, err = s.timed(ctx, []command{
		compare, verify, {sumWay, append([]string{sum}, files...), 0}, {versionWay, []string{s.tools.fiador, "version"}, 0},
	}, min(2, rounds), rounds)
	return err
}

// prove makes sure that a comparison finds the cases that differ, and no others.
func (m *comparedDirs) prove(ctx context.Context, s *suiteScene, compare command, cases, first int) error {
	text, err := s.output(ctx, compare)
	if err != nil {
		return err
	}
	var got struct {
		Cases []struct {
			Class string `json:"class"`
			Trace string `json:"trace"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(text, &got); err != nil || len(got.Cases) != cases {
		return fmt.Errorf("%d cases were compared instead of %d (%w)", len(got.Cases), cases, err)
	}
	for i, c := range got.Cases {
		class, trace := "unchanged_pass", "same"
		switch (first + i) % 10 {
		case orderLater:
			trace = "changed"
		case orderWorse:
			class, trace = "regression", "changed"
		}
		if c.Class != class || c.Trace != trace {
			return fmt.Errorf("case %d is %s with a trace that is %s, instead of %s and %s", i, c.Class, c.Trace, class, trace)
		}
	}
	m.report = int64(len(text))
	page, err := os.Stat(filepath.Join(s.dir, compare.args[3], "report.html"))
	if err == nil {
		m.page = page.Size()
	}
	return err
}
