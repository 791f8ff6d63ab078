package command_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/fiador/fiador/harness/command"
)

// BenchmarkTrue measures a command that does nothing; BenchmarkTrueExec measures the same
// with os/exec.
func BenchmarkTrue(b *testing.B) {
	start := command.Direct([]string{"/bin/true"}, nil, "")
	for b.Loop() {
		if _, err := command.Run(b.Context(), start, command.Spec{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTrueExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput reads and passes on 100 MB.
func BenchmarkOutput(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	start := command.Direct([]string{"head", "-c", "100000000", "/dev/zero"}, path, "")
	b.SetBytes(100_000_000)
	for b.Loop() {
		if _, err := command.Run(b.Context(), start, command.Spec{Stdout: command.Stream{Keep: 1 << 20, Tee: null}}); err != nil {
			b.Fatal(err)
		}
	}
}
