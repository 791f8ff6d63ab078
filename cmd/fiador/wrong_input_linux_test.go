package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// TestWrongInputs: each wrong input of testdata/wrong_inputs.txtar is an error with the
// exit status that the table gives. The message names the place, and the message or the
// hint has the remedy. In a pipe the RunError carries both as message and details.hint. A
// terminal shows the same two texts in words.
func TestWrongInputs(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/wrong_inputs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	wrongFiles(t, archive)
	seen := 0
	for row := range strings.Lines(string(archive.Comment)) {
		fields := strings.Split(strings.TrimSuffix(row, "\n"), "|")
		if strings.HasPrefix(row, "#") || len(fields) != 4 {
			continue
		}
		seen++
		status, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fields[0], func(t *testing.T) {
			args := strings.Fields(fields[0])
			got, stderr := wrongly(args, false)
			re := lastRunError(t, stderr)
			hint, _ := re.Details["hint"].(string)
			if got != status || !strings.Contains(re.Message, fields[2]) || hint == "" || !strings.Contains(re.Message+" "+hint, fields[3]) {
				t.Errorf("exit status %d, %s\nhint: %s", got, re.Message, hint)
			}
			got, shown := wrongly(args, true)
			// run and check show the file of an error in a column of its own.
			file, _ := re.Details["file"].(string)
			said := regexp.MustCompile("^"+regexp.QuoteMeta(file)+`(:\d+)?: `).ReplaceAllString(re.Message, "")
			if words := inWords(shown); got != status || !strings.Contains(words, inWords(said)) || !strings.Contains(words, file) || !strings.Contains(words, inWords(hint)) {
				t.Errorf("on a terminal: exit status %d, %s", got, shown)
			}
		})
	}
	if seen < 80 {
		t.Errorf("only %d wrong inputs", seen)
	}
}

// wrongFiles makes the files of the archive, and those that no text can hold.
func wrongFiles(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range archive.Files {
		write(f.Name, string(f.Data))
	}
	schema, _ := specs.Schema("intent")
	for name, text := range map[string]string{
		"bom.json": "\ufeff{}", "utf16.json": "\xff\xfe{\x00", "latin.json": "{\"goal\":\"caf\xe9\"}", "empty.json": "", "pack.tar.gz": "\x1f\x8b\x08\x00", "dir/note.txt": "",
		"deep.json":  `{"goal":"x","context":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "}",
		"large.json": `{"goal":"` + strings.Repeat("x", 1<<20) + `"}`, "schema.json": string(schema),
	} {
		write(name, text)
	}
	if err := os.Symlink("loop.json", "loop.json"); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"run ok.json --report json=result.json --bundle bundle.json", "run ok.json --pack pack"} {
		if status, stderr := wrongly(strings.Fields(args), false); status != 0 {
			t.Fatalf("%s: exit status %d, %s", args, status, stderr)
		}
	}
}

// wrongly calls the program without standard input. It returns the exit status, and standard
// error or all that a terminal shows.
func wrongly(args []string, tty bool) (int, string) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return -1, err.Error()
	}
	defer null.Close()
	var stdout, stderr bytes.Buffer
	status := cli.Run(context.Background(), args, cli.System{
		Stdin: null, Stdout: &stdout, Stderr: &stderr, TTY: tty, OutTTY: tty, Now: time.Now,
		Env:  func(string) string { return "" },
		Rand: rand.Reader,
	}, commands)
	if tty {
		return status, stdout.String() + stderr.String()
	}
	return status, stderr.String()
}

func lastRunError(t *testing.T, stderr string) (re result.RunError) {
	t.Helper()
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, `{"code":`) {
			if err := json.Unmarshal([]byte(line), &re); err != nil {
				t.Fatal(err)
			}
		}
	}
	if re.Code == "" {
		t.Fatalf("no RunError: %q", stderr)
	}
	return re
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*[mK]")

// inWords returns the words of a text as a terminal shows them, however they are wrapped. It
// leaves out lines of JSON.
func inWords(text string) string {
	var words []string
	for line := range strings.Lines(ansi.ReplaceAllString(text, "")) {
		if !strings.HasPrefix(line, `{"code":`) {
			words = append(words, strings.Fields(screen.Plain(strings.TrimSuffix(line, "\n")))...)
		}
	}
	return strings.Join(words, " ")
}
