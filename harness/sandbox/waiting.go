package sandbox

import (
	"context"
	"errors"
)

// ErrBusy says that the context ended while another call had the folder. Nothing was
// done.
var ErrBusy = errors.New("interrupted while another command was changing the folder")

// ErrNotOwn is in the error for a state folder, or a journal in it, that belongs to
// somebody else, or that others can write: what it says could be anybody's.
var ErrNotOwn = errors.New("it belongs to another user, or others can write to it")

type waitingKey struct{}

// WithWaiting is a context with which Apply and Recover call waiting, once each, when
// they have waited for another call on the folder for about a second.
func WithWaiting(ctx context.Context, waiting func()) context.Context {
	return context.WithValue(ctx, waitingKey{}, waiting)
}

func tellWaiting(ctx context.Context) {
	if waiting, ok := ctx.Value(waitingKey{}).(func()); ok {
		waiting()
	}
}
