//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"syscall"
)

// WriteGiven performs action i, a file whose content is known only now. The errno says
// why the file could not be written; err that the sandbox is gone.
func (s *Sandbox) WriteGiven(i int, content []byte) (syscall.Errno, error) {
	f, err := inMemory("content", content)
	if err != nil {
		return 0, s.fail(StepFiles, err)
	}
	defer f.Close()
	return s.write(i, []*os.File{f})
}
