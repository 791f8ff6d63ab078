//go:build !linux

package saferun

import (
	"errors"
	"os"
)

func openNameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }
