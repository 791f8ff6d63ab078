//go:build linux && (amd64 || arm64)

package workflow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/sandbox"
)

// trace is a command that writes a trace of some lines.
func trace(lines int) string {
	return fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo '{"tool":"x","ok":true}'; i=$((i+1)); done >.agent-trace.jsonl; `, lines)
}

// TestHostile: what an agent does is applied as a whole or not at all, and judged as it is.
func TestHostile(t *testing.T) {
	files := map[string]string{
		"src/a": "one\n", "src/b": "two\n", "+tool": "#!/bin/sh\n", "check.sh": "test -e src/a\n", "link": "->src/a", "through": "->src", "away": "->/tmp",
	}
	for _, c := range []struct {
		name, script, members string
		status                receipt.Status // "": any but success
		reasons               string         // "": not looked at
		changed               string         // paths
		files                 map[string]string
	}{
		{name: "a daemon stays", script: `(setsid sleep 4711 >/dev/null 2>&1 &); echo x >src/a`, status: receipt.Success, changed: "src/a"},
		{name: "a daemon writes on", script: `(setsid sh -c 'while :; do echo x >>src/b; done' >/dev/null 2>&1 &); exit 3`, status: receipt.Failure, reasons: "EXIT 3"},
		{name: "deaf", script: `trap "" TERM; echo x >src/a; while :; do sleep 0.1; done`, members: `"constraints":{"timeout_ms":1000},`, status: receipt.Timeout, reasons: "TIMEOUT"},
		{name: "many bytes", script: `head -c 9000000 /dev/zero >src/zero`},
		{name: "many files", script: `seq 10001 | xargs touch`, members: `"constraints":{"max_files":1000},`},
		{name: "an old time", script: `touch -r src/a was; printf 'two\n' >src/a; touch -r was src/a; rm was`, status: receipt.Success, changed: "src/a"},
		{name: "a time to come", script: `printf 'six\n' >src/a; touch -d 2190-01-01 src/a src/b`, status: receipt.Success, changed: "src/a"},
		{name: "a link for a file", script: `rm src/a; ln -s b src/a`, status: receipt.Denied, reasons: "OUTPUT_KIND src/a"},
		{name: "a link out", script: `ln -s ../../etc/passwd src/c`, status: receipt.Denied, reasons: "OUTPUT_KIND src/c"},
		{name: "a link for a folder", script: `rm -r src; ln -s /tmp src`, status: receipt.Denied},
		{name: "a link elsewhere", script: `ln -sf src/b link`, status: receipt.Denied, reasons: "OUTPUT_KIND link"},
		{name: "through a link", script: `echo x >through/c`, members: `"output_files":["src/c"],`, status: receipt.Success, changed: "src/c"},
		{name: "an output through a link", script: `echo x >through/c`, members: `"output_files":["through/c"],`, status: receipt.Failure, reasons: "OUTPUT_MISSING through/c"},
		{name: "an output through a link out", script: `echo x >away/fiador-c`, members: `"output_files":["away/fiador-c"],`, status: receipt.Failure},
		{name: "an output that is a link", script: `ln -s a src/c`, members: `"output_files":["src/c"],`, status: receipt.Denied},
		{name: "an input that is a link", script: `echo x >src/a`, members: `"input_files":["link"],`, status: receipt.Failure, reasons: "INPUT_MISSING link"},
		{name: "executable", script: `chmod +x src/a; chmod -x tool`, status: receipt.Success, changed: "src/a tool"},
		{name: "other modes", script: `chmod 700 src; chmod 600 src/a; chmod 711 tool`, status: receipt.Success},
		{name: "no modes", script: `chmod 0 src/a; chmod 0 src`, status: receipt.Success},
		{name: "case twins", script: `echo x >src/A`, status: receipt.Success, changed: "src/A"},
		{name: "new case twins", script: `echo x >n; echo x >N`, status: receipt.Denied, reasons: "OUTPUT_NAME N; OUTPUT_NAME n"},
		{name: "no UTF-8", script: `echo x >"$(printf '\377')"`, status: receipt.Denied},
		{name: "a FIFO", script: `mkfifo p`, status: receipt.Denied, reasons: "OUTPUT_KIND p"},
		{name: "deletes all", script: `rm -r ./*`, status: receipt.Success, changed: "away check.sh link src/a src/b through tool"},
		{name: "deletes all, and control paths", script: `rm -r ./* ./.g*`, files: map[string]string{".github/workflows/x": "on: push\n"}},
		{name: "hooks", script: `echo x >.git/hooks/pre-commit`, files: map[string]string{".git/hooks/": ""}},
		{name: "a new repository", script: `mkdir -p .git/hooks; echo x >.git/hooks/pre-commit`, status: receipt.Denied},
		{name: "a repository beneath", script: `mkdir -p src/.git/hooks; echo x >src/.git/hooks/pre-commit`, status: receipt.Denied},
		{name: "a folder of this program", script: `mkdir .fiador; echo x >.fiador/profile.json`, status: receipt.Denied},
		{name: "a file for a folder", script: `rm -r src; echo x >src`, status: receipt.Success, changed: "src src/a src/b"},
		{name: "a folder for a file", script: `rm src/a; mkdir src/a; echo x >src/a/f`, status: receipt.Success, changed: "src/a src/a/f"},
		{name: "a folder made anew", script: `rm -r src; mkdir src; echo x >src/a`, status: receipt.Success, changed: "src/a src/b"},
		{name: "a bad trace", script: `echo x >src/a; echo '{"tool":"x"}' >.agent-trace.jsonl`, status: receipt.Failure, reasons: "TRACE"},
		{name: "a trace with an empty line", script: trace(1) + `echo >>.agent-trace.jsonl`, status: receipt.Failure, reasons: "TRACE"},
		{name: "50 calls", script: trace(50) + `echo x >src/a`, status: receipt.Success, changed: "src/a"},
		{name: "51 calls", script: trace(51) + `echo x >src/a`, status: receipt.Denied, reasons: "MAX_TOOL_OPS"},
		{name: "a trace that is a folder", script: `echo x >src/a; mkdir .agent-trace.jsonl; echo x >.agent-trace.jsonl/x`, status: receipt.Success, changed: "src/a"},
		{name: "a trace that is a link", script: `echo x >src/a; ln -s src/a .agent-trace.jsonl`, status: receipt.Success, changed: "src/a"},
		{name: "a trace beneath", script: trace(51) + `mv .agent-trace.jsonl src/`, status: receipt.Success, changed: "src/.agent-trace.jsonl"},
		{name: "an old trace", script: `test ! -e .agent-trace.jsonl && echo x >src/a`, files: map[string]string{".agent-trace.jsonl": strings.Repeat("bad\n", 60)}, status: receipt.Success, changed: "src/a"},
		{name: "an old trace that goes on", script: trace(2) + `echo x >src/a`, files: map[string]string{".agent-trace.jsonl": strings.Repeat("bad\n", 60)}, status: receipt.Success, changed: "src/a"},
		{name: "edits its test", script: `echo : >check.sh`, members: `"test_command":"sh check.sh",`, status: receipt.Denied, reasons: "PROTECTED check.sh"},
		{name: "deletes its test", script: `rm check.sh`, members: `"test_command":"sh ./check.sh || true",`, status: receipt.Denied, reasons: "PROTECTED check.sh"},
		{name: "makes its test executable", script: `chmod +x check.sh`, members: `"test_command":["sh","check.sh"],`, status: receipt.Denied, reasons: "PROTECTED check.sh"},
		{name: "edits its test, as it should", script: `echo : >check.sh`, members: `"test_command":"sh check.sh","output_files":["check.sh"],`, status: receipt.Success, changed: "check.sh"},
		{name: "edits what is protected", script: `echo x >>src/b`, members: `"protect":["**/b"],`, status: receipt.Denied, reasons: "PROTECTED src/b"},
		{name: "a test that edits", script: `echo x >src/a`, members: `"test_command":"for f in src/*; do echo y >$f; done; echo z >z; rm c*; exit 0",`, status: receipt.Success, changed: "src/a"},
		{name: "a test that stays", script: `echo x >src/a`, members: `"test_command":"(setsid sleep 4712 >/dev/null 2>&1 &)",`, status: receipt.Success, changed: "src/a"},
		{name: "a test that lies in a trace", script: `echo x >src/a`, members: `"test_command":"echo x >.agent-trace.jsonl",`, status: receipt.Success, changed: "src/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, tier := range harnesstest.Tiers {
				t.Run(string(tier), func(t *testing.T) {
					b := newBench(t, harnesstest.NewTier(t, tier), files)
					grow(t, b.Tree, c.files)
					before := b.state(t)
					b.agent("x", c.script)
					if tier == sandbox.Confined && !strings.Contains(c.members, "test_command") {
						c.members += `"test_command":"true",` // which does not make it better
					}
					r := b.one(t, "x", c.members)
					if got := b.reasons(t, r); r.Status != c.status && (c.status != "" || r.Status == receipt.Success) || c.reasons != "" && got != c.reasons {
						t.Fatalf("%s: %s", r.Status, got)
					}
					b.changed(t, r, before, c.changed)
				})
			}
		})
	}
}

// changed checks which paths a run has changed, and that the folder has the state of its
// receipt.
func (b *bench) changed(t *testing.T, r receipt.Result, before, want string) {
	t.Helper()
	var paths []string
	for _, a := range b.receipt(t, r).Core.Artifacts {
		paths = append(paths, a.Path)
	}
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("changed are %q, want %q", got, want)
	}
	now := b.state(t)
	if now != r.OutputHash || r.BeforeHash != before || (want == "") != (now == before) {
		t.Errorf("before %s, now %s: %+v", before, now, r)
	}
}

// TestPoisoned: what an agent leaves outside of the folder is not there for its test. In the
// agent's own sandbox, the same test passes.
func TestPoisoned(t *testing.T) {
	const test = `fiador-poison || test -e \"$HOME/poison\" || test -e \"${TMPDIR:-/tmp}/poison\" || test -e cache/poison`
	for name, script := range map[string]string{
		"HOME": `echo x >"$HOME/poison"`, "tmp": `echo x >"${TMPDIR:-/tmp}/poison"`, "scratch": `mkdir -p cache; echo x >cache/poison`,
		"PATH": `for d in $(echo "$PATH" | tr : ' ') ~/bin ~/.local/bin; do mkdir -p $d; printf '#!/bin/sh\n' >$d/fiador-poison; chmod +x $d/fiador-poison; done 2>/dev/null; PATH=$PATH:$HOME/bin`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tier := range harnesstest.Tiers {
				t.Run(string(tier), func(t *testing.T) {
					b := newBench(t, harnesstest.NewTier(t, tier), map[string]string{"a": "one\n", "cache/kept": "kept\n"})
					b.agent("x", "echo x >a; "+script+"; "+strings.ReplaceAll(test, `\"`, `"`))
					plan := `{"plan_version":"1.0.0","scratch":["cache/**"],"items":[` + item("x", `"test_command":"`+test+`",`) + `]}`
					if _, err := b.try(t, t.Context(), plan); err != nil {
						t.Fatal(err)
					}
					b.holds(t)
					if r := b.got[0]; r.Status != receipt.Failure || b.reasons(t, r) != "TEST 1" || r.Error != "Tests failed" {
						t.Errorf("%+v", r)
					}
				})
			}
		})
	}
}

// TestSecretNowhere: the values of an agent's variables are in no file of the store, in no
// result and in no record.
func TestSecretNowhere(t *testing.T) {
	const value = "s3cr3t-Wert-0815-4711"
	for name, c := range map[string]struct {
		script, members string
		status          receipt.Status
	}{
		"streams":   {`echo "$TOKEN"; echo "$TOKEN" >&2; echo x >a`, "", receipt.Failure},
		"exit":      {`echo "$TOKEN"; exit 3`, "", receipt.Failure},
		"the trace": {`echo '{"tool":"x","ok":true,"source":"'"$TOKEN"'"}' >.agent-trace.jsonl; echo x >a`, "", receipt.Failure},
		"the test":  {`echo x >a`, `"test_command":"echo $TOKEN; env",`, receipt.Success},
		"a file":    {`echo "$TOKEN" >a`, "", ""},
		"a name":    {`echo x >"$TOKEN"`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, host(t), map[string]string{"a": "one\n"})
			b.agent("x", `test ${#TOKEN} = `+fmt.Sprint(len(value))+` || exit 9; `+c.script)
			a := b.Agents["x"]
			a.Env = []string{"TOKEN"}
			b.Agents["x"] = a
			b.Env = func(name string) string { return map[string]string{"TOKEN": value}[name] }
			memory := harnesstest.NewMemory()
			b.Deps.Recorder, b.Ledger = memory, "elsewhere"
			_, err := b.try(t, t.Context(), item("x", c.members))
			said := fmt.Sprint(err, b.got, memory.Records)
			for _, r := range b.got {
				if c.status != "" && r.Status != c.status {
					t.Errorf("%s: %s", r.Status, b.reasons(t, r))
				}
				line, _ := r.Bytes()
				said += string(line)
			}
			for _, blob := range memory.Blobs {
				said += string(blob)
			}
			if strings.Contains(said, value) {
				t.Errorf("the value is in %s", said)
			}
			for _, name := range holding(t, b.History.Dir, value) {
				t.Errorf("the value is in %s", name)
			}
			if c.status != "" && err != nil {
				t.Error(err)
			}
		})
	}
}

// holding returns the files of a folder that have a text.
func holding(t *testing.T, dir, text string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b)+p, text) {
			list = append(list, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
