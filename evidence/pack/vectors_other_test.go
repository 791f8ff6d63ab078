//go:build !unix

package pack

import "errors"

// makeOther makes what is no file, folder or link.
func makeOther(string) error { return errors.ErrUnsupported }
