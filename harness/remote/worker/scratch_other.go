//go:build !(linux && (amd64 || arm64))

package worker

import (
	"errors"
	"os"
)

// Workers are supported on Linux alone.

func hold(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func sweep(string) {}
