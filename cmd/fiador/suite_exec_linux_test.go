//go:build amd64 || arm64

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// hostile is a program that does what the id of a case says. MARK is a long time, PORT a port of
// the host.
const hostile = `import json, os, signal, socket, subprocess, sys, time
q = json.load(sys.stdin)
def answer(text, more=None):
    print(json.dumps(dict({"case_id": q["case_id"], "version": q["version"], "proposed_actions": [], "events": [], "final_output": {"content_type": "text", "content": text}}, **(more or {}))))
do = q["case_id"].split(".")[0]
if do == "fork":
    while True:
        try: os.fork()
        except OSError: time.sleep(0.2)
elif do == "double-fork":
    subprocess.Popen(["setsid", "sleep", "MARK"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    answer("left")
elif do == "flood":
    while True: os.write(1, b"x" * 65536)
elif do == "stderr":
    os.write(2, b"e" * 1000000)
    answer("loud")
elif do == "late":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b'{"half":')
    time.sleep(MARK)
elif do == "shadow":
    try: answer(open("/etc/shadow").read())
    except OSError: answer("no shadow")
elif do == "canary":
    try: answer(open("CANARY").read())
    except OSError: answer("no canary")
elif do == "network":
    try:
        socket.create_connection(("127.0.0.1", PORT), 2)
        answer("connected")
    except OSError: answer("no network")
elif do == "write":
    os.remove("kept"); open("kept", "w").write("changed"); open("new", "w").write("x")
    answer(open("kept").read())
elif do == "read":
    answer(open("kept").read() + open("READ").read())
elif do == "three":
    os.write(1, b"partly"); os.write(2, b"why it failed"); sys.exit(3)
elif do == "segv":
    os.kill(os.getpid(), signal.SIGSEGV)
elif do == "memory":
    kept = []
    while True: kept.append(bytearray(1 << 24))
elif do == "two":
    answer("one"); answer("two")
elif do == "silent":
    pass
elif do == "env":
    answer(str(len(os.environ.get("AGENT_KEY", ""))))
elif do == "leak":
    answer(os.environ.get("AGENT_KEY", ""))
elif do == "whisper":
    os.write(2, os.environ.get("AGENT_KEY", "").encode())
    answer("whispered")
else:
    answer("done")
`

// execBench is a bench with an agent that is a command.
type execBench struct {
	bench
	mark, agent string
	asked       *rehearsal.Server
}

// agentKey is the value of a variable for agents.
const agentKey = "q7Zr-agent-key-0451"

// newExecBench writes the agent, its work folder, a file it may read, one it may not, and a
// profile in a folder.
func newExecBench(t *testing.T, isolation string) *execBench {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("python3 is not installed here")
	}
	b := &execBench{bench: newBench(t), mark: seconds(), asked: rehearsal.Serve(t)}
	for _, d := range []string{"agent", "agent/tree", "policy", "out"} {
		if err := os.Mkdir(filepath.Join(b.dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(b.dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(put(t, b.dir, "agent/tree/kept", "kept"), 0o666); err != nil { // whoever runs the command may change it
		t.Fatal(err)
	}
	put(t, b.dir, "agent/more", " and more")
	canary := put(t, b.dir, "canary", "tweet")
	script := strings.NewReplacer("MARK", b.mark, "PORT", fmt.Sprint(b.asked.Port), "CANARY", canary, "READ", filepath.Join(b.dir, "agent/more")).Replace(hostile)
	quoted, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	b.agent = put(t, b.dir, "agent/agent.json", `{"argv":["/usr/bin/python3","-c",`+string(quoted)+`],"env":["AGENT_KEY"],"work":"tree","read":["more"]}`)
	profile := strings.NewReplacer(`"confined"`, `"`+isolation+`"`, `"memory_mb":512`, `"memory_mb":128`, `"env_allow":"*"`, `"env_allow":["AGENT_KEY"]`).Replace(toolProfile(""))
	put(t, b.dir, "policy/profile.json", profile)
	return b
}

// cases writes cases with these ids.
func (b bench) cases(t *testing.T, ids ...string) string {
	t.Helper()
	var cases []map[string]any
	for _, id := range ids {
		cases = append(cases, map[string]any{"id": id, "input": map[string]any{"user": "do it"}})
	}
	doc, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	return put(t, b.dir, "cases.json", string(doc))
}

// caseFile is what tests read of the file of a case.
type caseFile struct {
	Status   string
	Attempts []struct {
		Class string `json:"error_class"`
		Name  string `json:"error_name"`
		Body  string `json:"full_body_saved_to"`
	}
	Output struct {
		Content  any
		Redacted []string `json:"redactions_applied"`
	} `json:"final_output"`
	Failure struct {
		Class    string
		Name     string   `json:"error_name"`
		Message  string   `json:"error_message"`
		Body     *string  `json:"full_body_saved_to"`
		Latency  int      `json:"latency_ms"`
		Redacted []string `json:"redactions_applied"`
	} `json:"runner_failure"`
}

// readCase reads the file of a case.
func readCase(t *testing.T, dir, id string) (c caseFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, id+".json"))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Errorf("%s: %v", id, err)
	}
	return c
}

// end is "ok" and the content of an answer, or the class and the name of a failure.
func (c caseFile) end() string {
	if c.Status == "ok" {
		return fmt.Sprintf("ok %v", c.Output.Content)
	}
	return c.Failure.Class + " " + c.Failure.Name
}

// filesOf returns the files below a folder and their contents.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestSuiteExecHostile: whatever a command does, its case has the artifact that the table names,
// the others are unharmed, nothing is written and no process is left.
func TestSuiteExecHostile(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	want := map[string][]string{
		"plain": {"ok done"}, "plain.2": {"ok done"}, "env": {fmt.Sprintf("ok %d", len(agentKey))},
		"fork": {"timeout deadline_run", "other oom"}, "double-fork": {"ok left"}, "flood": {"other body_too_large"}, "stderr": {"ok loud"},
		"late": {"timeout deadline_run"}, "shadow": {"ok no shadow"}, "canary": {"ok no canary"}, "network": {"ok no network"},
		"write": {"ok changed"}, "read": {"ok kept and more"}, "three": {"other exit_status"}, "segv": {"other exit_signal"},
		"memory": {"other oom", "other exit_status", "other exit_signal"}, "two": {"invalid_json trailing"}, "silent": {"invalid_json empty_body"},
		"leak": {"other call_output"}, "whisper": {"other call_output"},
	}
	var ids []string
	for id := range want {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, tc := range []struct {
		isolation string
		user      uint32
	}{{"full", 0}, {"full", 65534}, {"confined", 0}} {
		if tc.user != 0 && os.Getuid() != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s/%d", tc.isolation, tc.user), func(t *testing.T) {
			b := newExecBench(t, tc.isolation)
			before := filesOf(t, filepath.Join(b.dir, "agent"))
			cases, out := b.cases(t, ids...), filepath.Join(b.dir, "out")
			path := ""
			if tc.user != 0 {
				path = b.ordinary(t)
			}
			command := func(run, timeout string, ids []string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
				cmd, stdout, stderr = b.command(t, "suite", "run", cases, "--new", "exec:"+b.agent, "--policy", filepath.Join(b.dir, "policy"), "--out", out, "--run-id", run, "--timeout", timeout, "--concurrency", "4", "--only", strings.Join(ids, ","))
				cmd.Env = append(cmd.Env, "AGENT_KEY="+agentKey)
				if tc.user != 0 {
					cmd.Path = path
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tc.user, Gid: tc.user}}
				}
				if tc.isolation == "confined" {
					restrict(cmd)
				}
				return cmd, stdout, stderr
			}
			t.Parallel()
			late := []string{"fork", "late"} // they end at their deadline alone
			lateCmd, lateOut, lateSaid := command("late", "20s", late)
			if err := lateCmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lateCmd.Process.Kill() }()
			cmd, stdout, stderr := command("r", "1m", slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(late, id) }))
			if code := status(t, cmd.Run()); code == 99 {
				t.Skipf("the limit of user namespaces cannot be set here: %s", stderr)
			} else if code != cli.ExitAccepted {
				t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
			}
			if code := status(t, lateCmd.Wait()); code != cli.ExitAccepted {
				t.Fatalf("exit status %d\n%s%s", code, lateOut, lateSaid)
			}
			dirs := map[string]string{}
			for id, ends := range want {
				dirs[id] = filepath.Join(out, "new", "r")
				if slices.Contains(late, id) {
					dirs[id] = filepath.Join(out, "new", "late")
				}
				c := readCase(t, dirs[id], id)
				if !slices.Contains(ends, c.end()) {
					t.Errorf("%s: %s (%s), want %q", id, c.end(), c.Failure.Message, ends)
				}
				if c.Failure.Latency > 60_000 {
					t.Errorf("%s took %d ms", id, c.Failure.Latency)
				}
			}
			b.kept(t, dirs)
			for said, errs := range map[*bytes.Buffer]*bytes.Buffer{stdout: stderr, lateOut: lateSaid} {
				if strings.Contains(said.String()+errs.String(), agentKey) || bytes.Contains(said.Bytes(), []byte(b.dir)) {
					t.Errorf("a secret or a path: %s%s", said, errs)
				}
			}
			if !strings.Contains(stdout.String(), `"agent":{"isolation":"`+tc.isolation+`","transport":"exec"}`) || !strings.Contains(stdout.String(), `"base_url":"exec:agent.json"`) {
				t.Errorf("run.json %s", stdout)
			}
			if after := filesOf(t, filepath.Join(b.dir, "agent")); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the agent's folder has changed: %q", after)
			}
			if n := b.asked.Calls.Load(); n > 0 {
				t.Errorf("%d connections", n)
			}
			gone(t, b.mark)
			if list := append(cgroupsOf(cmd.Process.Pid), cgroupsOf(lateCmd.Process.Pid)...); len(list) > 0 {
				t.Errorf("cgroups left: %v", list)
			}
			if stdout, stderr, code := b.run(t, "suite", "verify", dirs["plain"], dirs["late"]); code != cli.ExitAccepted {
				t.Errorf("verify: exit status %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// kept checks what is kept of the output of commands, by the directories of their cases.
func (b *execBench) kept(t *testing.T, dirs map[string]string) {
	t.Helper()
	bodies := map[string]func(string) bool{
		"flood": func(s string) bool { return s == strings.Repeat("x", 2_000_000) },
		"three": func(s string) bool { return s == "partly" },
		"late": func(s string) bool {
			return s == `{"half":` || strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[redacted:cut]")
		},
	}
	for id, fits := range bodies {
		c := readCase(t, dirs[id], id)
		if c.Failure.Body == nil {
			t.Errorf("%s: no body", id)
			continue
		}
		if text, err := os.ReadFile(filepath.Join(dirs[id], *c.Failure.Body)); err != nil || !fits(string(text)) {
			t.Errorf("%s: %d bytes, %.80q (%v)", id, len(text), text, err)
		}
	}
	stderr := map[string]bool{}
	files := filesOf(t, dirs["plain"])
	for name, text := range filesOf(t, dirs["late"]) {
		files["late/"+name] = text
	}
	for name, text := range files {
		if strings.Contains(text, agentKey) {
			t.Errorf("%s has the secret", name)
		}
		if strings.Trim(text, "e") == "" || text == "why it failed" {
			stderr[fmt.Sprint(len(text))] = true
		}
	}
	if !stderr["16384"] || !stderr["13"] {
		t.Errorf("standard error is not kept: %v", stderr)
	}
}

// TestSuiteExecRefused: a command that cannot run as the policy says is exit status 2, before
// anything runs or is written.
func TestSuiteExecRefused(t *testing.T) {
	t.Parallel()
	b := newExecBench(t, "full")
	missing := put(t, b.dir, "agent/missing.json", `{"argv":["no-such-command"]}`)
	folder := put(t, b.dir, "agent/folder.json", `{"argv":["./tree"],"work":"."}`)
	cases := b.cases(t, "a", "b")
	for _, tc := range []struct{ name, agent, policy string }{
		{"a network command under strict", `{"argv":["curl","http://example.com"]}`, "strict"},
		{"a name outside env_allow", `{"argv":["cat"],"env":["HOME_KEY"]}`, ""},
		{"a variable without a value", `{"argv":["cat"],"env":["AGENT_KEY"]}`, ""},
		{"a work folder that is not there", `{"argv":["cat"],"work":"nowhere"}`, ""},
		{"a work folder elsewhere", `{"argv":["cat"],"work":"../work"}`, ""},
		{"something to read that is not there", `{"argv":["cat"],"read":["nowhere"]}`, ""},
	} {
		agent := put(t, b.dir, "agent/refused.json", tc.agent)
		policy := tc.policy
		if policy == "" {
			policy = filepath.Join(b.dir, "policy")
		}
		out := filepath.Join(b.dir, "none")
		stdout, stderr, code := b.run(t, "suite", "run", cases, "--new", "exec:"+agent, "--policy", policy, "--out", out)
		if code != cli.ExitError || stdout != "" || stderr == "" || strings.Contains(stderr, "panic") {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", tc.name, code, stdout, stderr)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something is written", tc.name)
		}
	}
	none := filepath.Join(b.dir, "none")
	stdout, stderr, code := b.restricted(t, "suite", "run", cases, "--new", "exec:"+missing, "--policy", filepath.Join(b.dir, "policy"), "--out", none)
	if code != cli.ExitError || stdout != "" || !strings.HasPrefix(stderr, `{"code":"RUN_E005"`) {
		t.Errorf("what cannot be enforced: exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("what cannot be enforced: something is written")
	}
	for _, agent := range []string{missing, folder} {
		out := filepath.Join(b.dir, "out")
		id := strings.TrimSuffix(filepath.Base(agent), ".json")
		begun := time.Now()
		stdout, stderr, code := b.run(t, "suite", "run", cases, "--new", "exec:"+agent, "--policy", filepath.Join(b.dir, "policy"), "--out", out, "--run-id", id, "--fail-on-error", "--repeats", "2")
		if code != cli.ExitRejected || strings.Count(stdout, "\n") != 2 {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", id, code, stdout, stderr)
		}
		for _, c := range []string{"a", "b"} {
			if got := readCase(t, filepath.Join(out, "new", id+"-r02"), c); got.end() != "other spawn_failed" || len(got.Attempts) != 1 {
				t.Errorf("%s %s: %s after %s", id, c, got.end(), time.Since(begun))
			}
		}
	}
}
