package provecmd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/fingerprint"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// TestFingerprintOfAFaultyMachine: a vector with another result than expected is named.
// The exit status still names a failure when the vectors are printed, and when both
// fingerprints are equal.
func TestFingerprintOfAFaultyMachine(t *testing.T) {
	const sound = `{"name":"sound","why":"w","intent_text":"{","profile":"strict","mode":"plan-only","model_mode":"none","expect":{"error":"RUN_E002","offset":1}}`
	faulty := strings.NewReplacer(`"sound"`, `"faulty"`, `"offset":1`, `"offset":2`).Replace(sound)
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(t.TempDir(), "there.txt")
	for _, c := range []struct {
		name, vectors string
		flags         fingerprintFlags
		status        int
		out, err      string
	}{
		{"sound", sound, fingerprintFlags{}, cli.ExitAccepted, "fiador-fingerprint ", ""},
		{"faulty", sound + "," + faulty, fingerprintFlags{vectors: true}, cli.ExitRejected, "sha256:", "fiador: a/faulty does not hold on this machine: /offset is 1, and the vector says 2\n"},
		{"as faulty there", sound + "," + faulty, fingerprintFlags{against: there}, cli.ExitRejected, "MATCH  ", "fiador: a/faulty does not hold on this machine: /offset is 1, and the vector says 2\n"},
	} {
		var out, errs bytes.Buffer
		a := &cli.App{System: cli.System{Stdout: &out, Stderr: &errs}, Term: cli.Terminal{W: &errs}, Page: cli.Terminal{W: &out}, Specs: set}
		err := printFingerprint(t.Context(), a, c.flags, fstest.MapFS{"a.json": {Data: []byte(`{"about":"a","vectors":[` + c.vectors + `]}`)}})
		if err != nil || a.Status != c.status || !strings.HasPrefix(out.String(), c.out) || errs.String() != c.err {
			t.Errorf("%s: error %v, status %d, stdout %q, stderr %q", c.name, err, a.Status, out.String(), errs.String())
		}
		if err := os.WriteFile(there, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := &cli.App{Specs: set}
	var re *result.RunError
	err = printFingerprint(t.Context(), a, fingerprintFlags{}, fstest.MapFS{"a.json": {Data: []byte("{")}})
	if !errors.As(err, &re) || re.Code != result.CodeEvidence {
		t.Errorf("vectors that cannot be read: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err = printFingerprint(ctx, a, fingerprintFlags{}, specs.RunVectors()); !errors.As(err, &re) || re.Code != result.CodeInternal {
		t.Errorf("interrupted: %v", err)
	}
}

// TestFingerprintAgainst: the words for equal vectors, different vectors, vectors of one
// side only, and another version of the kernel.
func TestFingerprintAgainst(t *testing.T) {
	of := func(version string, prints ...string) fingerprint.Fingerprint {
		list := make([]fingerprint.Print, len(prints))
		for i, p := range prints {
			name, value, _ := strings.Cut(p, "=")
			list[i] = fingerprint.Print{Name: name, SHA256: canon.Sum([]byte(value))}
		}
		f := fingerprint.New(list)
		f.Kernel = version
		return f
	}
	line := func(f fingerprint.Fingerprint) fingerprint.Fingerprint { f.Prints = nil; return f }
	here := of("1", "a=1", "b=1", "d=1", "\U0001F600=1", "\uFFFD=1")
	both := "  here   " + string(here.Line()) + "  there  "
	for _, c := range []struct {
		name  string
		there fingerprint.Fingerprint
		want  string
	}{
		{"same", here, "MATCH  " + string(here.Line())},
		{"same line", line(here), "MATCH  " + string(here.Line())},
		{"other kernel", of("2", "a=1", "b=1", "d=1", "\U0001F600=1", "\uFFFD=1"),
			"another kernel version: 1 here, 2 there\nDIFFERENT  5 vectors here, 5 there: 0 differ, 0 only here, 0 only there\n"},
		{"other kernel, line", line(of("2", "a=1")), "another kernel version: 1 here, 2 there\nDIFFERENT\n" + both + string(of("2", "a=1").Line())},
		{"other line", line(of("1", "a=1")), "DIFFERENT\n" + both + string(of("1", "a=1").Line())},
		{"one differs", of("1", "a=1", "b=2", "d=1", "\U0001F600=1", "\uFFFD=1"),
			"differs     b\nDIFFERENT  5 vectors here, 5 there: 1 differs, 0 only here, 0 only there\n"},
		{"all at once", of("1", "a=2", "c=1", "d=1", "\uFFFD=2", "\uFFFDz=1"),
			"differs     a\nonly here   b\nonly there  c\nonly here   \U0001F600\ndiffers     \uFFFD\nonly there  \uFFFDz\nDIFFERENT  5 vectors here, 5 there: 2 differ, 2 only here, 2 only there\n"},
	} {
		var out, errs bytes.Buffer
		a := &cli.App{System: cli.System{Stdout: &out, Stderr: &errs}, Term: cli.Terminal{W: &errs}, Page: cli.Terminal{W: &out}}
		err := against(a, "human", here, c.there)
		same := strings.HasPrefix(c.want, "MATCH")
		hint := !same && c.there.Prints == nil
		if err != nil || out.String() != c.want || (a.Status == cli.ExitAccepted) != same || strings.HasPrefix(errs.String(), "hint: ") != hint {
			t.Errorf("%s: error %v, status %d, stderr %q, stdout\n%s\nnot\n%s", c.name, err, a.Status, errs.String(), out.String(), c.want)
		}
	}
}

// TestFingerprintWrittenOtherwise: a file that another program has re-encoded is no
// fingerprint, and the message names the encoding.
func TestFingerprintWrittenOtherwise(t *testing.T) {
	text := string(fingerprint.New([]fingerprint.Print{{Name: "a", SHA256: canon.Sum(nil)}}).Text())
	wide := func(order binary.AppendByteOrder, s string) string {
		var b []byte
		for _, r := range s {
			b = order.AppendUint16(b, uint16(r))
		}
		return string(b)
	}
	for _, c := range []struct{ text, want string }{
		{text, ""},
		{strings.ReplaceAll(text, "\n", "\r\n"), "its lines end in CRLF: line 1: "},
		{"\ufeff" + text, "it begins with a byte order mark (BOM): line 1: "},
		{"\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"), "it begins with a byte order mark (BOM): line 1: "},
		{wide(binary.LittleEndian, "\ufeff"+text), "it is UTF-16: line 1: "},
		{wide(binary.BigEndian, "\ufeff"+text), "it is UTF-16: line 1: "},
		{wide(binary.LittleEndian, text), "it is UTF-16: line 1: "},
		{wide(binary.BigEndian, text), "it is UTF-16: line 1: "},
		{"\x00\x00", "line 1: "}, {"x", "line 1: "}, {"", "line 1: "},
	} {
		name := filepath.Join(t.TempDir(), "there.txt")
		if err := os.WriteFile(name, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := readFingerprint(t.Context(), &cli.App{}, name)
		var re *result.RunError
		switch {
		case c.want == "":
			if err != nil {
				t.Error(err)
			}
		case !errors.As(err, &re) || !strings.HasPrefix(re.Message, "there.txt: no fingerprint: "+c.want) || re.Details["line"] != 1:
			t.Errorf("%.20q: %v", c.text, err)
		}
	}
}

// TestFingerprintFileIsBounded: an endless file is read up to a limit, and the message has
// a hint.
func TestFingerprintFileIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "there.txt")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Skipf("no sparse file can be made here: %v", err)
	}
	_, err := readFingerprint(t.Context(), &cli.App{}, name)
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeUnreadable || !strings.Contains(re.Message, "larger than") || !strings.Contains(re.Hint, "--vectors") {
		t.Errorf("error %v", err)
	}
}
