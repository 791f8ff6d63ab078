package execute

import (
	"crypto/sha256"
	"slices"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel/reason"
)

// withhold throws away each stream of a command that repeats a secret, and says whether one
// did. Nothing of such a stream is kept.
func (w *performance) withhold(streams ...*command.Captured) (leaked bool) {
	if w.task.Secrets == nil || w.task.Secrets.Empty() {
		return false
	}
	for _, s := range streams {
		if w.task.Secrets.Repeats(s.Bytes) {
			*s = command.Captured{SHA256: sha256.Sum256(nil), Size: s.Size, Truncated: true, TeeErr: s.TeeErr}
			leaked = true
		}
	}
	return leaked
}

// withheld returns the changes without those that repeat a secret, in their content, their
// name or where they lead. The calls and commands that had a secret are a reason then.
func (w *performance) withheld(changes []change.Change) ([]change.Change, error) {
	if w.task.Secrets == nil || w.task.Secrets.Empty() {
		return changes, nil
	}
	var kept []change.Change
	for _, c := range changes {
		leaked := w.task.Secrets.Repeats([]byte(c.Path)) || w.task.Secrets.Repeats([]byte(c.Target))
		if !leaked && c.Kind == change.KindFile {
			f, err := w.p.Content(c.Path)
			if err != nil {
				return nil, runerr.Evidence("a written file could not be searched for secrets", err)
			}
			leaked, err = w.task.Secrets.Scan(f)
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
			if err != nil {
				return nil, runerr.Evidence("a written file could not be searched for secrets", err)
			}
		}
		if !leaked {
			kept = append(kept, c)
		}
	}
	if len(kept) < len(changes) {
		w.rejectSecret()
	}
	return kept, nil
}

// rejectSecret adds a reason for each call and each command that had a secret.
func (w *performance) rejectSecret() {
	if len(w.task.Env) > 0 {
		for _, r := range w.p.Runs {
			w.p.Observed.Reject(reason.Answer(r.Action))
		}
	}
	for at, call := range w.task.Tools {
		if slices.ContainsFunc(call, secret.Needed) {
			w.p.Observed.Reject(reason.Answer(at))
		}
	}
}
