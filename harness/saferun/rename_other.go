//go:build !linux

package saferun

import (
	"errors"
	"os"
)

func renameNoReplace(*os.Root, string, string) error { return errors.ErrUnsupported }
