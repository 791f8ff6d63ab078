package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// newLedger makes a ledger beneath a folder and returns the flags that record in it.
func newLedger(t *testing.T, dir string) []string {
	t.Helper()
	gate, key := filepath.Join(dir, "gate"), filepath.Join(dir, "gate.key")
	if out, err := command(t, "ledger", "init", gate, "--origin", "example.com/gate", "--key", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return []string{"--ledger", gate, "--ledger-key", key}
}

// TestLedgerNamesNothingOfTheMachine: no record has a secret, a path of the machine, the
// name of the host or a value of the environment. This holds whatever the intent, its
// policy and its surroundings contain, and also for the files beside the records. The
// evidence holds the intent, and so the text of the intent. It holds nothing else of the
// machine.
func TestLedgerNamesNothingOfTheMachine(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const said, env, user = "hunter2-said", "hunter2-of-the-environment", "somebody-who-has-a-name"
	in := filepath.Join(dir, "deep", "tree")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	record := newLedger(t, dir)
	quoted := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	full := func(goal string, actions ...any) string {
		return quoted(map[string]any{
			"goal": goal + " " + said + " at " + dir + " on " + host, "constraints": []string{"token=" + said, dir},
			"context": map[string]any{"password": said, "home": dir, "host": host}, "actions": actions,
		})
	}
	write := map[string]any{"kind": "write", "path": "build/p.js", "content": "console.log('" + said + "', process.env, require('os').hostname())"}
	run := map[string]any{"kind": "run", "argv": []string{"node", "build/p.js", said, dir}, "env": map[string]string{"CI": said}}
	intents := []string{
		full("Write", write),
		full("Run", write, run),
		full("Ask <" + said + ">"),
		full("Leave the tree", map[string]any{"kind": "write", "path": dir + "/" + said, "content": said}),
		full("Call curl", map[string]any{"kind": "run", "argv": []string{"curl", "https://someone:" + said + "@example.com"}}),
		full("Name a command", map[string]any{"kind": "run", "argv": []string{dir + "/" + said}}),
		full("Delete", map[string]any{"kind": "delete", "path": dir}),
		`{"goal":"` + said + `","` + said + `":"` + dir + `"}`,
		`{"goal":"` + said,
		quoted(map[string]any{"goal": " ", "context": map[string]any{said: dir}}),
	}
	house := filepath.Join(dir, "house")
	if err := os.Mkdir(house, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "house/profile.json", `{"name":"house","extends":"dev","allowed_write_roots":["build"]}`)
	put(t, dir, "house/rules.rego", "# "+dir+" "+said+`
package gate.user.house
import rego.v1
deny contains {"id": "HOUSE_RULE", "msg": sprintf("no %v", [input.intent.goal])} if { contains(input.intent.goal, "Call") }
`)
	statuses := map[int]int{}
	for i, text := range intents {
		name := put(t, in, "intent-"+string(rune('a'+i))+"-"+said+".json", text)
		for _, policy := range []string{"default", "strict", "dev", house} {
			for _, mode := range []string{"plan-only", "execute-sandbox"} {
				args := append([]string{"run", name, "--policy", policy, "--mode", mode}, record...)
				if mode == "execute-sandbox" {
					args = append(args, "--work", in, "--tree", in)
				}
				cmd := command(t, args...)
				cmd.Env = rehearsal.Env(
					"PATH="+os.Getenv("PATH"), "HOME="+dir, "USER="+user, "TMPDIR="+dir, "SECRET="+env, "CI="+env, "HOSTNAME="+host,
				)
				statuses[status(t, cmd.Run())]++
			}
		}
	}
	for code := range 3 {
		if statuses[code] == 0 {
			t.Errorf("no run ended with %d: %v", code, statuses)
		}
	}
	gate := filepath.Join(dir, "gate")
	if out, err := command(t, "ledger", "publish", filepath.Join(dir, "public"), "--ledger", gate).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	secret, err := os.ReadFile(record[3])
	if err != nil {
		t.Fatal(err)
	}
	if len(host) < 6 {
		host = `"` + host + `"` // a short name occurs in many hashes
	}
	never := []string{env, user, strings.TrimSpace(string(secret)), "PRIVATE+KEY"}
	inRecords := append([]string{said, dir, filepath.Base(filepath.Dir(dir)), host, "intent-a"}, never...)
	var files int
	for _, top := range []string{gate, filepath.Join(dir, "public")} {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			files++
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			words := inRecords
			if strings.HasPrefix(name, filepath.Join(gate, "evidence")) {
				words = never
			}
			for _, w := range words {
				if w = strings.TrimSpace(w); w == "" {
					continue
				}
				for _, form := range []string{w, base64.StdEncoding.EncodeToString([]byte(w))} {
					if bytes.Contains(b, []byte(form)) {
						t.Errorf("%s holds %q", strings.TrimPrefix(name, dir), form)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	lines, err := os.ReadFile(filepath.Join(gate, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(lines, []byte{'\n'}); n < 60 || files < 20 {
		t.Errorf("only %d records in %d files", n, files)
	}
	for _, kind := range []string{"begun", "decision", "error"} {
		if !bytes.Contains(lines, []byte(`"kind":"`+kind+`"`)) {
			t.Errorf("no record of kind %s", kind)
		}
	}
}

// TestLedgerThatCannotBeWritten: nothing is decided, and stdout is empty.
func TestLedgerThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := newLedger(t, dir)
	intent := put(t, dir, "intent.json", allowed)
	binary := installed(t, filepath.Join(dir, "fiador")) // any user can start it there
	chown := func(name string, uid int) {
		if os.Getuid() == 0 {
			if err := os.Chown(name, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	chown(record[3], 65534)
	for _, tc := range []struct {
		name   string
		mode   fs.FileMode
		stderr string
	}{
		{"gate", 0o555, `ledger \"gate\": permission denied`},
		{"gate/.state", 0o555, `ledger \"gate\": .state: permission denied`},
		{"gate/ledger.jsonl", 0o444, `ledger \"gate\": ledger.jsonl: permission denied`},
		{"gate", 0o000, `ledger \"gate\": `},
		{"gate.key", 0o000, `key \"gate.key\": permission denied`},
		{"gate.key", 0o640, `key \"gate.key\" can be read by others (mode 0640)`},
	} {
		t.Run(tc.name+tc.mode.String(), func(t *testing.T) {
			whole(t, dir, chown)
			name := filepath.Join(dir, tc.name)
			if err := os.Chmod(name, tc.mode); err != nil {
				t.Fatal(err)
			}
			defer whole(t, dir, chown)
			cmd := exec.Command(binary, append([]string{"run", intent}, record...)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
			if code := status(t, cmd.Run()); code != cli.ExitError || out.Len() > 0 || !strings.Contains(errs.String(), tc.stderr) {
				t.Errorf("exit status %d, stdout %q, stderr %q", code, out.String(), errs.String())
			}
			if strings.Contains(errs.String(), dir) {
				t.Errorf("stderr names a folder of the machine: %s", errs.String())
			}
		})
	}
}

// whole restores the modes and owners of a ledger and of the folders above it.
func whole(t *testing.T, dir string, chown func(string, int)) {
	t.Helper()
	for p := dir; p != filepath.Clean(os.TempDir()) && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "gate.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "gate"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Join(dir, "gate"), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		chown(name, 65534)
		mode := fs.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(name, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLedgerDiskFull: on a full disk nothing is decided, and the earlier records stay
// whole.
func TestLedgerDiskFull(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no file system of its own: %v %s", err, out)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "intent.json", allowed)
	script := `set -u
mount -t tmpfs -o size=120k tmpfs disk || exit 99
fiador ledger init disk/gate --origin example.com/gate --key gate.key >gate.pub || exit 98
n=0
while [ $n -lt 60 ]; do
  n=$((n+1))
  sed "s/Write/Write $n/" intent.json >next.json
  fiador run next.json --ledger disk/gate --ledger-key gate.key --run-id "run-$n" >out 2>err
  status=$?
  if [ $status -eq 0 ]; then echo "run-$n" >>done; continue; fi
  [ $status -eq 2 ] && [ ! -s out ] && grep -q 'no space left on device' err || { cat err; exit 97; }
  break
done
[ $n -lt 60 ] || exit 96
grep "$PWD" err && exit 95
fiador ledger verify --ledger disk/gate --key gate.pub || exit 94
while read -r id; do grep -q "\"run_id\":\"$id\"" disk/gate/ledger.jsonl || { echo "$id is lost"; exit 93; }; done <done
mount -o remount,size=1m disk || exit 99
fiador run next.json --ledger disk/gate --ledger-key gate.key --run-id after >out || exit 92
fiador ledger verify --ledger disk/gate --key gate.pub --all-seals --evidence
`
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	switch code := status(t, err); code {
	case 0:
	case 99:
		t.Skipf("no small file system: %s", out)
	default:
		t.Errorf("exit status %d: %s", code, out)
	}
}

// TestLedgerOnATerminal: a terminal gets one message that nothing is recorded, and the
// progress of long work. Other outputs get neither.
func TestLedgerOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := newLedger(t, dir)
	intent := put(t, dir, "intent.json", allowed)
	const notice = "fiador: not recorded: there is no --ledger\n"
	_, screen, code := onTerminal(t, []string{"NO_COLOR=1"}, "run", intent)
	if code != 0 || strings.Count(screen, notice) != 1 {
		t.Errorf("exit status %d, screen %q", code, screen)
	}
	_, screen, code = onTerminal(t, []string{"NO_COLOR=1"}, append([]string{"run", intent}, record...)...)
	if code != 0 || strings.Contains(screen, "recorded") {
		t.Errorf("exit status %d, screen %q", code, screen)
	}
	_, screen, code = onTerminal(t, []string{"NO_COLOR=1"}, "ledger", "verify", "--ledger", record[1])
	if code != 0 || lasting(screen) != "" {
		t.Errorf("exit status %d, screen %q", code, screen)
	}
	_, screen, code = onTerminal(t, []string{"NO_COLOR=1"}, "ledger", "init", filepath.Join(dir, "next"), "--origin", "a.b", "--key", filepath.Join(dir, "next.key"))
	if code != 0 || !strings.HasPrefix(screen, "fiador: ledger \"next\" of \"a.b\"; its verifier key is on standard output\nhint: run: fiador run INTENT ") {
		t.Errorf("exit status %d, screen %q", code, screen)
	}
}

// TestHostileLedgerOnATerminal: no text in the files of a ledger moves the cursor.
func TestHostileLedgerOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := newLedger(t, dir)
	gate, receipts := record[1], filepath.Join(dir, "receipts")
	if err := os.Mkdir(receipts, 0o755); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(gate, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	origin, line, checkpoint := read("origin.json"), read("ledger.jsonl"), read("checkpoint")
	const escape = "\x1b[2J\u202e\u009b"
	for name, change := range map[string]func(){
		"origin, raw":     func() { put(t, gate, "origin.json", strings.Replace(origin, "gate", escape, 1)) },
		"origin, escaped": func() { put(t, gate, "origin.json", strings.ReplaceAll(origin, "example.com/gate", `\u001b[2J\u202e`)) },
		"format":          func() { put(t, gate, "origin.json", strings.Replace(origin, "1.0.0", `\u001b[2J\u009b`, 1)) },
		"member":          func() { put(t, gate, "origin.json", strings.Replace(origin, `"format"`, `"\u001b[2J":1,"format"`, 1)) },
		"line":            func() { put(t, gate, "ledger.jsonl", strings.Replace(line, "genesis", escape, 1)) },
		"record":          func() { put(t, gate, "ledger.jsonl", strings.Replace(line, "genesis", `\u001b[2J`, 1)) },
		"checkpoint":      func() { put(t, gate, "checkpoint", strings.Replace(checkpoint, "example", escape, 1)) },
		"signature":       func() { put(t, gate, "checkpoint", checkpoint+"— "+escape+" AAAA\n") },
		"pin": func() {
			if err := os.Mkdir(filepath.Join(gate, "checkpoints"), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, gate, "checkpoints/1", escape)
		},
	} {
		t.Run(name, func(t *testing.T) {
			change()
			defer func() {
				put(t, gate, "origin.json", origin)
				put(t, gate, "ledger.jsonl", line)
				put(t, gate, "checkpoint", checkpoint)
				if err := os.RemoveAll(filepath.Join(gate, "checkpoints")); err != nil {
					t.Fatal(err)
				}
			}()
			put(t, receipts, "a"+escape+".tlog-proof", "c2sp.org/tlog-proof@v1\nextra "+escape+"\n")
			for _, args := range [][]string{
				{"verify"}, {"verify", "--all-seals", "--evidence", "--tiles"}, {"list"}, {"show", "0"}, {"stats"}, {"prove", "0"},
				{"check-receipts", receipts}, {"check-proof", filepath.Join(receipts, "a"+escape+".tlog-proof")},
				{"consistency", "--from", filepath.Join(gate, "checkpoint")}, {"publish", filepath.Join(dir, "public")},
			} {
				stdout, screen, _ := onTerminal(t, []string{"NO_COLOR=1"}, append([]string{"ledger", args[0], "--ledger", gate}, args[1:]...)...)
				if strings.ContainsAny(stdout+lasting(screen), "\x1b\u202e\u009b") {
					t.Errorf("%v: control characters reach the terminal: %q %q", args, stdout, screen)
				}
			}
		})
	}
}
