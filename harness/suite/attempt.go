package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// attempts runs one case on one side.
type attempts struct {
	*session
	trial.Case
	redactor *redact.Redactor
	list     []trial.Attempt
}

// outcome says how a case has ended. An error is one of the directory.
type outcome struct {
	class trial.Class
	name  string
	err   error
}

// run makes the attempts for a case, and writes its file.
func (s *session) run(ctx context.Context, c trial.Case) (end outcome) {
	x := &attempts{session: s, Case: c, redactor: s.Rules.Redactor()}
	defer func() {
		if e := recover(); e != nil {
			x.list = nil
			end = x.unanswered(Observed{Panicked: true})
		}
	}()
	return x.run(ctx)
}

// unanswered writes the file of a case in which nothing was asked.
func (x *attempts) unanswered(o Observed) outcome {
	return x.failed(o, x.Now(), 0)
}

func (x *attempts) run(ctx context.Context) outcome {
	if err := x.broken(); err != nil {
		return outcome{err: err}
	}
	if ctx.Err() != nil {
		return x.unanswered(Observed{Cancelled: true})
	}
	text, err := x.request()
	if err != nil {
		return outcome{err: err}
	}
	for {
		started := x.Now()
		o := x.ask(ctx, text)
		latency := x.Now().Sub(started)
		if o.StderrAt, err = x.stderr(o); err != nil {
			return outcome{err: StoreError(err)}
		}
		if class, _ := Failed(o); class == "" {
			end, done := x.answered(&o, started, latency)
			if done {
				return end
			}
		}
		class, _ := Failed(o)
		wait, again := x.wait(o, class)
		if !again {
			return x.failed(o, started, latency)
		}
		if _, err := x.note(o, started, latency); err != nil {
			return outcome{err: err}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return x.unanswered(Observed{Cancelled: true})
		}
	}
}

// stderr keeps the beginning of what an agent wrote to standard error.
func (x *attempts) stderr(o Observed) (href string, err error) {
	if len(o.Stderr) == 0 {
		return "", nil
	}
	text := x.redactor.Bytes(o.Stderr, o.StderrCut)
	href, _, err = x.dir.Keep(trial.KindOther, x.ID, text[:min(len(text), keptStderr)])
	return href, err
}

// ask makes one attempt.
func (x *attempts) ask(ctx context.Context, text []byte) Observed {
	ctx, stop := context.WithTimeout(ctx, x.Timeout)
	defer stop()
	return x.agent.Ask(ctx, Request{CaseID: x.ID, Side: x.side, Text: text, Most: x.Limits.MaxBodyBytes})
}

// request returns the document that the agent gets.
func (x *attempts) request() ([]byte, error) {
	text, _, err := requestPlan.Artifact(&request{x.ID, x.side, x.Input, requestMeta{x.doc.RunID}})
	return bytes.TrimSuffix(text, []byte("\n")), err
}

type request struct {
	CaseID  string      `json:"case_id"`
	Version trial.Side  `json:"version"`
	Input   any         `json:"input"`
	RunMeta requestMeta `json:"run_meta"`
}

type requestMeta struct {
	RunID string `json:"run_id"`
}

var requestPlan canon.Plan[request]

// MaxValues is how many values an answer may have.
const MaxValues = 200_000

// answered reads an answer. If it is one, answered writes the file of the case, and done says so;
// otherwise it notes in o why it is none.
func (x *attempts) answered(o *Observed, started time.Time, latency time.Duration) (end outcome, done bool) {
	text, assets, err := x.decoded(o, trial.Attempt{
		Attempt: len(x.list) + 1, StartedAt: stamp(started), LatencyMS: latency.Milliseconds(), Outcome: trial.OK, StderrSavedTo: o.StderrAt,
	})
	if text == nil && err == nil {
		return end, false
	}
	for _, a := range assets {
		if err == nil {
			_, _, err = x.dir.Keep(a.Kind, x.ID, a.Content)
		}
	}
	if err == nil {
		err = x.put(x.ID+".json", text)
	}
	if err != nil {
		end.err = StoreError(err)
	}
	return end, true
}

// decoded returns the file of the case and its assets; nil if there is no answer, and o says why.
// Few answers are decoded at once. None of them waits for a disk.
func (x *attempts) decoded(o *Observed, last trial.Attempt) (text []byte, assets []trial.Asset, err error) {
	x.decoding <- struct{}{}
	defer func() { <-x.decoding }()
	if len(o.Body) == 0 {
		o.JSON = "empty_body"
		return nil, nil, nil
	}
	value, err := canon.ParseLiteral(o.Body, x.Limits.MaxBodyBytes, MaxValues)
	if e, ok := errors.AsType[*canon.Error](err); ok {
		if o.JSON = string(e.Kind); e.Kind == canon.KindEmpty {
			o.JSON = "empty_body"
		}
		o.Message = "at byte " + strconv.FormatInt(e.Offset, 10)
		return nil, nil, nil
	}
	value = x.redactor.Value(value)
	answer, faults := trial.Normalize(value, trial.Want{
		CaseID: x.ID, Version: x.side, Limits: x.Limits, Strict: x.Strict, WarnEvidence: x.WarnEvidence, Redactions: x.redactions(*o),
	})
	if len(faults) > 0 {
		o.Answer, o.Message = faults[0].Word(), pointers(faults)
		return nil, nil, nil
	}
	x.list = append(x.list, last)
	text, err = trial.OKCase{CaseID: x.ID, Version: x.side, Attempts: x.list, Answered: answer}.Bytes()
	return text, answer.Assets, err
}

// pointers lists the places of faults.
func pointers(faults []trial.Fault) string {
	const most = 20
	var list []string
	for i, f := range faults {
		if i == most {
			list = append(list, "…")
			break
		}
		list = append(list, strconv.QuoteToASCII(canon.Cut(f.Pointer)))
	}
	return "at " + strings.Join(list, ", ")
}

// wait returns how long the next attempt has to wait, and whether there is one.
func (x *attempts) wait(o Observed, class trial.Class) (wait time.Duration, again bool) {
	const longest = 30 * time.Second
	n := len(x.list) + 1
	if n > x.Retries || !retried(o, class, x.Idempotent) {
		return 0, false
	}
	if after, given := retryAfter(o.RetryAfter, x.Now()); given {
		return after, after <= longest
	}
	wait = min(longest, 250*time.Millisecond<<min(n-1, 10))
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d", x.doc.RunID, x.ID, x.side, n))
	half := wait / 2
	return half + time.Duration(binary.BigEndian.Uint64(sum[:])%uint64(half)), true
}

// retryAfter reads the header Retry-After: seconds, or a time (RFC 9110, section 10.2.3).
func retryAfter(text string, now time.Time) (wait time.Duration, given bool) {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// note notes a failed attempt, keeps its body, and returns the failure.
func (x *attempts) note(o Observed, started time.Time, latency time.Duration) (trial.Failure, error) {
	class, name := Failed(o)
	n := len(x.list) + 1
	_, url := x.agent.Place()
	if was := o.Recorded; was != nil {
		name = x.header(name) // as another runner wrote it
		o.Status, o.Message = was.Status, ""
		if place, ok := strings.CutPrefix(was.ErrorMessage, Phrase(class, name)+", "); ok {
			o.Message = place // a message of another runner has other words
		}
	}
	f := trial.Failure{
		Type: trial.FailureType, Class: class, ErrorName: name, URL: x.redactor.Text(url), Attempt: n,
		TimeoutMS: x.Timeout.Milliseconds(), LatencyMS: latency.Milliseconds(), ErrorMessage: x.message(o, class, name),
	}
	if class == trial.HTTPError {
		f.Status, f.StatusText = o.Status, http.StatusText(o.Status)
	}
	a := trial.Attempt{Attempt: n, StartedAt: stamp(started), LatencyMS: f.LatencyMS, Outcome: trial.RunnerError, ErrorClass: class, ErrorName: name, StderrSavedTo: o.StderrAt}
	if err := x.keep(o, n, &f); err != nil {
		return f, StoreError(err)
	}
	if f.FullBodySavedTo != nil {
		a.FullBodySavedTo = *f.FullBodySavedTo
	}
	f.RedactionsApplied = x.redactions(o)
	x.list = append(x.list, a)
	return f, nil
}

// message returns the message of a failure: a fixed phrase, and a place.
func (x *attempts) message(o Observed, class trial.Class, name string) string {
	const most = 300
	text := Phrase(class, name)
	if o.Message != "" {
		text += ", " + x.redactor.Text(o.Message)
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("…")], "") + "…"
	}
	return text
}

// failed writes the file of a case that has no answer.
func (x *attempts) failed(o Observed, started time.Time, latency time.Duration) outcome {
	f, err := x.note(o, started, latency)
	if err != nil {
		return outcome{err: err}
	}
	err = x.write(x.ID+".json", trial.FailedCase{
		SchemaVersion: trial.CaseVersion, CaseID: x.ID, Version: x.side, Status: trial.RunnerError, Attempts: x.list, RunnerFailure: f,
	})
	if err != nil {
		return outcome{err: StoreError(err)}
	}
	return outcome{class: f.Class, name: f.ErrorName}
}

// keep keeps the body of a failed attempt, and its description. Secrets are redacted before the
// body is cut.
func (x *attempts) keep(o Observed, n int, f *trial.Failure) error {
	if len(o.Body) == 0 {
		return nil
	}
	text := x.redacted(o)
	same := len(text) == len(o.Body)
	cut := len(text) > x.Limits.MaxBodyBytes
	if cut {
		text = text[:x.Limits.MaxBodyBytes]
	}
	href, sum, err := x.dir.Keep(trial.KindFullBody, x.ID, text)
	if err != nil {
		return err
	}
	meta := trial.Meta{
		SchemaVersion: trial.MetaVersion, CaseID: x.ID, Version: x.side, Class: f.Class, BytesWritten: int64(len(text)),
		Truncated: cut || !o.Whole, SHA256: sum,
	}
	if same {
		meta.BytesTotal = o.Total
	}
	if o.Encoding != "" {
		coding := x.header(o.Encoding)
		meta.Encoding = &coding
	}
	for name, value := range o.Header {
		if meta.Headers == nil {
			meta.Headers = map[string]string{}
		}
		meta.Headers[name] = x.header(value)
	}
	if kind, ok := meta.Headers["content-type"]; ok {
		meta.ContentType = &kind
	}
	b, err := meta.Bytes()
	if err != nil {
		return err
	}
	at, err := x.dir.Meta(x.ID, n, b)
	if err != nil {
		return err
	}
	snippet := trial.Snippet(text, x.Limits.MaxInlineSnippetBytes)
	f.BodySnippet, f.FullBodySavedTo, f.FullBodyMetaSavedTo = &snippet, &href, &at
	return nil
}

// redacted returns the body without secrets. It takes the place of an answer that is decoded: the
// search for secrets needs many times the size of the body.
func (x *attempts) redacted(o Observed) []byte {
	x.decoding <- struct{}{}
	defer func() { <-x.decoding }()
	return x.redactor.Bytes(o.Body, !o.Whole && o.Recorded == nil) // a recording was redacted before it was cut
}

// header returns the value of a header as a description has it. A secret is redacted before the
// value is cut.
func (x *attempts) header(value string) string {
	return canon.Cut(canon.Clean(x.redactor.Text(value)))
}

// redactions returns the rules that have redacted something, here or before a recording was made.
func (x *attempts) redactions(o Observed) []string {
	list := append(x.redactor.Applied(), o.Redacted...)
	slices.Sort(list)
	return slices.Compact(list)
}
