// Package tree changes a folder as a whole: all accepted changes are applied, or none, even
// if the process is killed (Apply, Recover). It owns the journal of such a change, and how
// files beneath a folder are opened without following a link.
package tree

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fiador/fiador/harness/change"
)

// Looked is what a caller saw in a folder before it decided on changes.
type Looked struct {
	Dir     change.Seen                       // the folder itself, which must be the same one
	Folders map[string]change.Seen            // folders in it, by path, which must be the same ones
	Beneath map[string]map[string]change.Seen // for each folder to remove, by path: everything in it, by path
}

// Content opens the new content of a changed file.
type Content func(path string) (io.ReadCloser, error)

// ConflictError says that something in a folder changed after an execution saw it. Nothing
// is applied.
type ConflictError struct {
	Path string // beneath the folder
}

// Error names the changed path.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%q was changed since the execution began", e.Path)
}

// Recovery is what Recover did with an Apply that was killed.
type Recovery string

const (
	RecoveredNothing Recovery = ""        // no Apply was killed
	RecoveredForward Recovery = "forward" // completed
	RecoveredBack    Recovery = "back"    // undone
)

// The errors of Apply and Recover that leave a journal.
var (
	ErrApplied    = errors.New("the changes are applied, but something is left to be cleared away")
	ErrUnfinished = errors.New("the changes are applied in part and cannot be taken back yet")
)

// ErrBusy says that the context ended while another call held the folder. Nothing was done.
var ErrBusy = errors.New("interrupted while another command was changing the folder")

// ErrNotOwn is wrapped in the error for a state folder, or a journal in it, that another
// user owns or can write. Anybody could have written its content.
var ErrNotOwn = errors.New("it belongs to another user, or others can write to it")

type waitingKey struct{}

// WithWaiting returns a context for Apply and Recover. Each of them calls waiting once when
// it has waited for about a second for another call on the folder.
func WithWaiting(ctx context.Context, waiting func()) context.Context {
	return context.WithValue(ctx, waitingKey{}, waiting)
}

func tellWaiting(ctx context.Context) {
	if waiting, ok := ctx.Value(waitingKey{}).(func()); ok {
		waiting()
	}
}
