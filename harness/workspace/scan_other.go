//go:build !(linux && (amd64 || arm64))

package workspace

import "context"

func scan(ctx context.Context, dir string, o Options) (State, error) {
	return scanPortable(ctx, dir, o)
}
