//go:build !unix

package pack

import "errors"

// makeOther would make an entry that is no file, folder or link.
func makeOther(string) error { return errors.ErrUnsupported }
