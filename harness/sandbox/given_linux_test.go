//go:build linux && (amd64 || arm64)

package sandbox

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/harness/change"
)

// TestGivenContent: a file whose content comes late has that content, whatever its size. A
// failed write is reported. Late content is not mixed up with content of the plan.
func TestGivenContent(t *testing.T) {
	for _, isolation := range []Isolation{Full, Confined} {
		t.Run(string(isolation), func(t *testing.T) {
			h := NewHost(t.TempDir())
			defer h.Close()
			s, err := h.Start(t.Context(), Request{
				Write: Staged, Least: isolation, Most: isolation, Limits: Limits{MemoryMB: 512, CPUCores: 1, MaxChildren: 10, OutputFiles: 10, OutputBytes: 4 << 20},
				Actions: []Action{
					{Path: "a/small", Given: true}, {Path: "a/large", Given: true}, {Path: "a/none", Given: true}, {Path: "plain", Content: []byte("plain")},
					{Path: "plain/below", Given: true}, {Path: "a/late", Given: true},
				},
			})
			if err != nil {
				t.Skipf("%s isolation cannot be had here: %v", isolation, err)
			}
			defer s.Close()
			large := strings.Repeat("0123456789abcdef", 1<<16) + "end"
			write := func(i int, content string, want syscall.Errno) {
				t.Helper()
				if errno, err := s.WriteGiven(i, []byte(content)); errno != want || err != nil {
					t.Errorf("action %d: errno %v, error %v", i, errno, err)
				}
			}
			write(0, "small", 0)
			write(1, large, 0)
			write(2, "", 0)
			write(3, "given", syscall.EBADF)
			if errno, err := s.Write(3); errno != 0 || err != nil {
				t.Errorf("plain: errno %v, error %v", errno, err)
			}
			write(4, "below", syscall.ENOTDIR)
			if errno, err := s.Write(5); errno != syscall.EBADF || err != nil {
				t.Errorf("without content: errno %v, error %v", errno, err)
			}
			changes, err := s.Changes()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, c := range changes {
				if c.Kind != change.KindFile {
					continue
				}
				f, err := s.Content(c.Path)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(f)
				f.Close()
				if err != nil || c.Executable {
					t.Errorf("%+v, error %v", c, err)
				}
				got[c.Path] = string(b)
			}
			for path, want := range map[string]string{"a/small": "small", "a/large": large, "a/none": "", "plain": "plain"} {
				if content, there := got[path]; !there || content != want {
					t.Errorf("%s has %d bytes, there is one: %v", path, len(content), there)
				}
			}
			if len(got) != 4 {
				t.Errorf("%d files", len(got))
			}
		})
	}
}
