//go:build !linux

package saferun

import (
	"errors"
	"os"
)

func openNameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func renameNoReplace(*os.Root, string, string) error { return errors.ErrUnsupported }
