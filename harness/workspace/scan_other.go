//go:build !(linux && (amd64 || arm64))

package workspace

import "context"

func scan(context.Context, string, Options) (State, error) { return State{}, ErrUnsupported }
