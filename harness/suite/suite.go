// Package suite runs the cases of a suite against agents (specs/suite.md). Every selected case
// gets its file in a version directory, whatever the agent does: an answer, or the failure of the
// last attempt with the body that came.
//
// Cases do not depend on each other. Each has its own goroutine, its own time and its own
// redactor, and a failure of the runner in one of them is the failure of that case alone.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// Resume says what a run does with a directory that is there.
type Resume string

// The ways to go on with a directory.
const (
	Fresh   Resume = ""        // a directory that is there is refused
	Missing Resume = "missing" // cases run that have no file, were interrupted, or in which the runner failed
	Errors  Resume = "errors"  // cases run that have no answer
)

// The bounds of a plan.
const (
	MaxRepeats     = 99
	MaxRetries     = 10
	MaxConcurrency = 256
	MaxBody        = 32 << 20 // of max_body_bytes
)

// Plan is a run of a suite.
type Plan struct {
	Cases     []trial.Case // those that are selected, in the order of the file
	CasesPath string       // as run.json has it
	CasesText []byte       // the document of the cases, canonical with a line feed

	Agents  map[trial.Side]Agent // one, or one for each side
	Out     string
	OutPath string // Out as run.json has it
	RunID   string

	Repeats, Retries, Concurrency int
	Timeout                       time.Duration // of an attempt
	Limits                        trial.Limits
	Strict                        bool // no answer is repaired
	WarnEvidence                  bool // a reference that leads nowhere is noted alone
	Rules                         *redact.Rules
	Provenance                    map[string]string
	Resume                        Resume

	Sign    func(run []byte) (signature []byte, err error) // makes signature.json of run.json; nil: nobody signs
	Version string                                         // of this program
	Now     func() time.Time

	// Progress is told of each case that has ended. It is called by one goroutine at a time. It
	// may be nil.
	Progress func(Ended)
}

// Ended is a case that has its file.
type Ended struct {
	Side      trial.Side
	RunID     string
	CaseID    string
	Class     trial.Class // empty: the case has an answer
	ErrorName string
	Left      int // cases of the plan that have not ended yet
}

// Finished is a version directory of a run that has ended.
type Finished struct {
	trial.Run
	Text []byte // run.json
}

// runner runs a plan.
type runner struct {
	Plan
	decoding chan struct{} // takes one for each answer that is decoded
	mu       sync.Mutex
	left     int
	err      error // the first one of a directory
	stop     context.CancelFunc
}

// decoders is how many answers are decoded at once: a decoded answer takes many times its size.
const decoders = 2

// Run runs the plan, and returns its directories. If the context ends, every case that has no
// file gets one that says interrupted, and the directories are sealed all the same. The error is
// a *result.RunError: a directory could not be made or written.
func (p Plan) Run(ctx context.Context) (list []Finished, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &runner{Plan: p, decoding: make(chan struct{}, decoders), stop: stop}
	rounds := make([][]*session, p.Repeats)
	if err := p.Places(); err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range slices.Concat(rounds...) {
			err = errors.Join(err, s.close())
		}
		if err != nil {
			err = StoreError(err)
		}
	}()
	for i := range rounds {
		for _, side := range []trial.Side{trial.Baseline, trial.New} {
			if p.Agents[side] == nil {
				continue
			}
			s, err := r.open(side, i+1)
			if err != nil {
				return nil, err
			}
			rounds[i] = append(rounds[i], s)
			r.left += len(p.Cases) - len(s.kept)
		}
	}
	for _, s := range slices.Concat(rounds...) {
		if err := s.begin(); err != nil {
			return nil, err
		}
	}
	for _, round := range rounds {
		r.round(ctx, round)
	}
	if r.err != nil {
		return nil, r.err
	}
	for _, s := range slices.Concat(rounds...) {
		f, err := s.finish(ctx.Err() != nil)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// round runs every case once.
func (r *runner) round(ctx context.Context, sides []*session) {
	slots := make(chan struct{}, r.Concurrency)
	var all sync.WaitGroup
	for _, c := range r.Cases {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			var both sync.WaitGroup
			for _, s := range sides {
				if !r.has(s, c.ID) {
					both.Go(func() { r.ended(s, c, s.run(ctx, c)) })
				}
			}
			both.Wait()
		})
	}
	all.Wait()
}

// has says whether a case has its file.
func (r *runner) has(s *session, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, kept := s.kept[id]
	return kept
}

// broken returns the error of a directory, after which nothing more is asked or written.
func (r *runner) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// ended notes that a case has its file, or why it has none.
func (r *runner) ended(s *session, c trial.Case, end outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left--
	if end.err != nil {
		if r.err == nil {
			r.err = end.err
			r.stop()
		}
		return
	}
	s.kept[c.ID] = end.class
	if r.Progress != nil {
		r.Progress(Ended{s.side, s.doc.RunID, c.ID, end.class, end.name, r.left})
	}
}

// session is one version directory of a run.
type session struct {
	*runner
	side  trial.Side
	agent Agent
	dir   *asset.Dir
	doc   trial.Run
	begun time.Time
	kept  map[string]trial.Class // cases that have their files; empty: with an answer
}

// stamp returns a time as documents have it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// runID returns the id of a repeat, counted from 1.
func (p Plan) runID(repeat int) string {
	if p.Repeats == 1 {
		return p.RunID
	}
	return fmt.Sprintf("%s-r%02d", p.RunID, repeat)
}

// Places looks at the places of all version directories before the first one is made or changed:
// a new run finds nothing there, and a run that goes on finds at least one directory. A killed
// run may not have made the others yet.
func (p Plan) Places() error {
	there := false
	for side := range p.Agents {
		for i := range p.Repeats {
			_, err := os.Lstat(filepath.Join(p.Out, string(side), p.runID(i+1)))
			there = there || err == nil
		}
	}
	switch {
	case there && p.Resume == Fresh:
		return StoreError(fmt.Errorf("%s: %w", canon.Quote(p.RunID), asset.ErrExists))
	case !there && p.Resume != Fresh:
		return runerr.New(result.CodeEvidence, "--resume: there is no run "+canon.Quote(p.RunID), "correct --run-id and --out, or leave --resume out")
	}
	return nil
}

// open makes or opens a version directory. Of one that is there it changes nothing but what a
// killed process has not finished.
func (r *runner) open(side trial.Side, repeat int) (*session, error) {
	s := &session{runner: r, side: side, agent: r.Agents[side], begun: r.Now(), kept: map[string]trial.Class{}}
	base, _ := s.agent.Place()
	plain := r.Rules.Redactor()
	provenance := make(map[string]string, len(r.Provenance))
	for key, value := range r.Provenance {
		provenance[plain.Text(key)] = plain.Text(value)
	}
	s.doc = trial.Run{
		SchemaVersion: trial.RunVersion, RunID: r.RunID, Version: side, GeneratedAt: stamp(s.begun), BaseURL: plain.Text(base),
		CasesPath: plain.Text(r.CasesPath), CasesSHA256: canon.Sum(r.CasesText), OutDir: plain.Text(r.OutPath), RunnerVersion: r.Version,
		TimeoutMS: r.Timeout.Milliseconds(), Retries: r.Retries, Concurrency: r.Concurrency,
		RetryPolicy: trial.RetryPolicy{Classes: []string{"dial", "http_429", "http_503"}, Backoff: "exponential", Jitter: true},
		Limits:      r.Limits, Agent: s.agent.Kind(), Provenance: provenance,
	}
	for _, c := range r.Cases {
		s.doc.SelectedCaseIDs = append(s.doc.SelectedCaseIDs, c.ID)
	}
	if s.doc.RunID = r.runID(repeat); r.Repeats > 1 {
		s.doc.RunGroup = &trial.RunGroup{RunID: r.RunID, Index: repeat, Of: r.Repeats}
	}
	err := fs.ErrNotExist
	if r.Resume != Fresh {
		if s.dir, err = asset.Resume(r.Out, string(side), s.doc.RunID); err == nil {
			err = s.resume()
		}
	}
	if s.dir == nil && errors.Is(err, fs.ErrNotExist) {
		s.dir, err = asset.Create(r.Out, string(side), s.doc.RunID)
	}
	if err != nil {
		if s.dir != nil {
			err = errors.Join(err, s.dir.Close())
		}
		return nil, StoreError(err)
	}
	return s, nil
}

// begin writes run.json, before the first request.
func (s *session) begin() (err error) {
	s.doc.CasesHref, _, err = s.dir.Keep(trial.KindOther, "", s.Rules.Redactor().Bytes(s.CasesText, false))
	if err == nil {
		err = s.write(trial.RunFile, s.doc)
	}
	if err != nil {
		return StoreError(err)
	}
	return nil
}

func (s *session) close() error { return s.dir.Close() }

// document is a document that can be written.
type document interface{ Bytes() ([]byte, error) }

func (s *session) write(name string, d document) error {
	text, err := d.Bytes()
	if err != nil {
		return err
	}
	return s.put(name, text)
}

// put writes a file, unless writing has failed before.
func (s *session) put(name string, text []byte) error {
	if err := s.broken(); err != nil {
		return err
	}
	return s.dir.Write(name, text)
}

// finish writes the manifest, and run.json with the seal.
func (s *session) finish(interrupted bool) (Finished, error) {
	now := s.Now()
	err := s.dir.Manifest(stamp(now))
	if err != nil {
		return Finished{}, StoreError(err)
	}
	if s.doc.Artifacts, err = s.dir.Seal(); err != nil {
		return Finished{}, StoreError(err)
	}
	if err := s.dir.InPlace(); err != nil {
		return Finished{}, StoreError(err)
	}
	failed := 0
	for class := range maps.Values(s.kept) {
		if class != "" {
			failed++
		}
	}
	s.doc.Interrupted = interrupted
	s.doc.Stats = &trial.Stats{CasesTotal: len(s.Cases), CasesCompleted: len(s.kept) - failed, CasesFailed: failed, DurationMS: now.Sub(s.begun).Milliseconds()}
	text, err := s.doc.Bytes()
	if err == nil {
		err = s.dir.Write(trial.RunFile, text)
	}
	if err == nil && s.Sign != nil {
		var signature []byte
		if signature, err = s.Sign(text); err == nil {
			err = s.dir.Write(trial.SignatureFile, signature)
		}
	}
	if err != nil {
		return Finished{}, StoreError(err)
	}
	return Finished{s.doc, text}, nil
}

// StoreError is the RunError for a directory that cannot be used.
func StoreError(err error) error {
	var re *result.RunError
	if errors.As(err, &re) {
		return re
	}
	hint := "give the folder of --out room and permission"
	switch {
	case errors.Is(err, asset.ErrExists):
		hint = "use another --run-id, or go on with --resume"
	case errors.Is(err, asset.ErrBusy):
		hint = "wait until the other run has ended, or use another --run-id"
	case errors.Is(err, asset.ErrMoved):
		hint = "leave the folder alone while a run writes it, and run again with another --run-id"
	}
	return runerr.New(result.CodeEvidence, "the run cannot be kept: "+runerr.Reason(err), hint, runerr.Because(err))
}

// PathInRun returns a path of the command line as run.json has it: as it was given if it leads
// from the working folder downwards, and its last name otherwise.
func PathInRun(given string) string {
	if p := filepath.ToSlash(filepath.Clean(given)); filepath.IsLocal(given) {
		return p
	}
	return filepath.Base(given)
}
