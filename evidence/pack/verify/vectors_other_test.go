//go:build !unix

package verify

import "errors"

// makeOther would make an entry that is no file, folder or link.
func makeOther(string) error { return errors.ErrUnsupported }
