//go:build amd64 || arm64

package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/gitbranch"
	"github.com/fiador/fiador/harness/rehearsal"
)

// TestApplyDiff: git applies the diff that apply prints into a pipe, and gets the same
// tree, except for binary files.
func TestApplyDiff(t *testing.T) {
	t.Parallel()
	needGit(t)
	s := newStage(t)
	mine, theirs := s.tree(t, filepath.Join(s.dir, "mine")), s.tree(t, filepath.Join(s.dir, "theirs"))
	stdout, stderr, code := s.run(t, "apply", s.pack, "--to", mine)
	if code != cli.ExitAccepted || stderr != "" {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	s.git(t, theirs, "apply", put(t, s.dir, "diff", stdout))
	if err := os.MkdirAll(filepath.Join(theirs, "out/n"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(theirs, "out/n"), "bin", "a\x00b")
	if got, want := shot(t, theirs), shot(t, mine); got != want {
		t.Errorf("git makes\n%s\nof\n%s", got, stdout)
	}
	for _, want := range []string{
		"\nBinary file out/n/bin: created, 3 bytes sha256:", "\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-old\n\\ No newline at end of file\n",
		"\nold mode 100644\nnew mode 100755\n--- a/tool\n", "\n7 files: 3 created, 2 modified, 2 deleted\napplied to ",
	} {
		if !strings.Contains("\n"+stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
}

// hostilePack makes a pack whose files contain cursor movements and runner commands.
func (s stage) hostilePack(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(s.dir, "hostile")
	intent := put(t, s.dir, "hostile.json", `{"goal":"Write","constraints":["now"],"actions":[{"kind":"write","path":"out/h","content":"a\u001b[2Jb\u202e\r\n::set-env name=x::y\n##[command]x\n\ttab\n"}]}`)
	if _, stderr, code := s.run(t, "run", intent, "--mode", "execute-sandbox", "--pack", dir); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	return dir
}

// TestApplyOnATerminal: no content of a pack or a tree moves the cursor, and no runner of
// workflows obeys it. In a pipe the content is unchanged.
func TestApplyOnATerminal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	hostile := s.hostilePack(t)
	tree := filepath.Join(s.dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(tree, "out"), "h", "::set-env name=x::y\nold\x1b[31m\n")
	args := []string{"apply", hostile, "--to", tree, "--dry-run", "--overwrite"}
	show := func(env ...string) string {
		slave, master := rehearsal.Terminal(t)
		cmd, _, _ := s.command(t, args...)
		cmd.Env = append(cmd.Env, env...)
		cmd.Stdout = slave
		screen, err := shown(t, cmd, slave, master)
		if code := status(t, err); code != cli.ExitAccepted {
			t.Errorf("exit status %d", code)
		}
		return screen
	}
	if screen := show("NO_COLOR=1"); strings.ContainsAny(screen, "\x1b\u202e\r") || !strings.Contains(screen, "\n+a\\u001b[2Jb\\u202e\\u000d\n ::set-env name=x::y\n") || !strings.Contains(screen, "\n+\ttab\n") {
		t.Errorf("%q", screen)
	}
	if screen := show("TERM=xterm"); !strings.Contains(screen, "\x1b[32m+a\\u001b[2Jb\\u202e\\u000d\x1b[0m\n") {
		t.Errorf("%q", screen)
	}
	if stdout, _, _ := s.run(t, args...); !strings.Contains(stdout, "\n+a\x1b[2Jb\u202e\r\n ::set-env name=x::y\n-old\x1b[31m\n+##[command]x\n") {
		t.Errorf("%q", stdout)
	}
	cmd, stdout, _ := s.command(t, args...)
	cmd.Env = append(cmd.Env, "GITHUB_ACTIONS=true")
	if code := status(t, cmd.Run()); code != cli.ExitAccepted || strings.Contains(stdout.String(), "\n ::") || strings.Contains(stdout.String(), "##[") {
		t.Errorf("exit status %d, %q", code, stdout)
	}
}

// TestApplyLarge: a file that is too large to compare is named, without delay.
func TestApplyLarge(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	pack := filepath.Join(s.dir, "large")
	script := `head -c 1048577 /dev/zero | tr '\0' x >big; yes l | head -n 20001 >long; yes l | head -n 20000 >fits`
	if _, stderr, code := s.run(t, "run", s.intentOf(t, script), "--policy", "dev", "--mode", "execute-sandbox", "--pack", pack); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	stdout, stderr, code := s.run(t, "apply", pack, "--to", s.work)
	if code != cli.ExitAccepted || !strings.Contains(stdout, "\nLarge file long: created, 40002 bytes sha256:") ||
		!strings.Contains(stdout, "Large file big: created, 1048577 bytes sha256:") || !strings.Contains(stdout, "\n+++ b/fits\n@@ -0,0 +1,20000 @@\n") {
		t.Errorf("exit status %d, %d bytes\n%s", code, len(stdout), stderr)
	}
}

// TestApplyFolder: apply removes a folder that the run deleted, with the files that the
// run saw in it. It removes other files in it only if a flag asks for that, and never a
// control path.
func TestApplyFolder(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	pack := filepath.Join(s.dir, "folder")
	if err := os.MkdirAll(filepath.Join(s.work, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, s.work, "d/x", "x")
	if _, stderr, code := s.run(t, "run", s.intentOf(t, "rm -r d"), "--policy", "dev", "--mode", "execute-sandbox", "--work", s.work, "--pack", pack); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	for _, tc := range []struct {
		holds string
		flags []string
		code  int
		want  string
	}{
		{"", nil, cli.ExitAccepted, "Folder d: deleted, files and folders in it: 0\n"},
		{"x", nil, cli.ExitAccepted, "Folder d: deleted, files and folders in it: 1\n"},
		{"y", nil, cli.ExitRejected, "conflict: d: the folder does not hold what the run saw in it: it holds 1\n"},
		{"y", []string{"--overwrite"}, cli.ExitAccepted, "Folder d: deleted, files and folders in it: 1\n"},
		{".git", []string{"--overwrite", "--allow-workflows"}, cli.ExitRejected, `refused: d/.git: ".git" is a control path`},
	} {
		tree, err := os.MkdirTemp(s.dir, "tree-")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(tree, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if tc.holds != "" {
			put(t, tree, "d/"+tc.holds, "x")
		}
		stdout, stderr, code := s.run(t, append([]string{"apply", pack, "--to", tree}, tc.flags...)...)
		if code != tc.code || !strings.Contains(stdout+stderr, tc.want) {
			t.Errorf("%q: exit status %d\n%s%s", tc.holds, code, stdout, stderr)
		}
		if _, err := os.Lstat(filepath.Join(tree, "d")); errors.Is(err, fs.ErrNotExist) != (code == cli.ExitAccepted) {
			t.Errorf("%q: %v", tc.holds, err)
		}
	}
}

// TestApplyUnseen: if the diff cannot be printed, nothing is applied.
func TestApplyUnseen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no full device here: %v", err)
	}
	defer full.Close()
	dir := s.tree(t, filepath.Join(s.dir, "tree"))
	before := shot(t, dir)
	cmd, _, stderr := s.command(t, "apply", s.pack, "--to", dir)
	cmd.Stdout = full
	if code := status(t, cmd.Run()); code != cli.ExitError || shot(t, dir) != before {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
}

// TestApplyInterrupted: a signal while the diff waits for its reader ends the command,
// and nothing is applied.
func TestApplyInterrupted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	pack := filepath.Join(s.dir, "long")
	if _, stderr, code := s.run(t, "run", s.intentOf(t, "yes lines | head -n 19000 >long"), "--policy", "dev", "--mode", "execute-sandbox", "--pack", pack); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := s.tree(t, filepath.Join(s.dir, "tree"))
		before := shot(t, dir)
		cmd, _, _ := s.command(t, "apply", pack, "--to", dir)
		cmd.Stdout = nil
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		hang := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := status(t, waited(cmd)); code != cli.ExitError || shot(t, dir) != before {
			t.Errorf("%v: exit status %d", sig, code)
		}
		hang.Stop()
		s.swept(t)
	}
}

// waited waits for a command whose output has no reader.
func waited(cmd *exec.Cmd) error {
	state, err := cmd.Process.Wait()
	if err == nil && !state.Success() {
		return &exec.ExitError{ProcessState: state}
	}
	return err
}

// TestApplyConcurrently: commands on one tree wait for each other, and each ends in a
// complete tree.
func TestApplyConcurrently(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	dir := s.tree(t, filepath.Join(s.dir, "tree"))
	type end struct {
		out  *bytes.Buffer
		errs *bytes.Buffer
		err  error
	}
	ends := make(chan end)
	for range 4 {
		cmd, out, errs := s.command(t, "apply", s.pack, "--to", dir)
		go func() { ends <- end{out, errs, cmd.Run()} }()
	}
	applied := 0
	for range 4 {
		e := <-ends
		switch code := status(t, e.err); {
		case code == cli.ExitAccepted && strings.Contains(e.out.String(), "applied to"):
			applied++
		case code == cli.ExitRejected && strings.Contains(e.errs.String(), "nothing was changed"), code == cli.ExitAccepted:
		default:
			t.Errorf("exit status %d\n%s%s", code, e.out, e.errs)
		}
	}
	if applied != 1 {
		t.Errorf("%d commands have applied the pack", applied)
	}
	done := s.tree(t, filepath.Join(s.dir, "done"))
	if _, _, code := s.run(t, "apply", s.pack, "--to", done); code != cli.ExitAccepted || shot(t, done) != shot(t, dir) {
		t.Errorf("the tree is\n%s", shot(t, dir))
	}
	s.swept(t)
}

// gitTrial is one call of apply --git-branch: the preparation of the repository, and the
// expected message.
type gitTrial struct {
	branch string
	to     string // beneath the tree
	before [][]string
	code   int
	want   string // on standard output, or standard error
}

// TestApplyBranch: files go onto a branch, or the command refuses and changes nothing.
func TestApplyBranch(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := newStage(t)
	first := s.repository(t, filepath.Join(s.dir, "first"))
	const other = "commit --allow-empty -q -m second"
	commit := append([]string{"-c", "core.hooksPath=/dev/null", "-c", "user.name=a", "-c", "user.email=a@example.com"}, strings.Fields(other)...)
	for name, trial := range map[string]gitTrial{
		"new":              {want: "on branch agent/x; nothing is committed, which is yours to do:\n  git -C "},
		"dirty":            {before: [][]string{{"mv", "kept", "moved"}}, want: "warning: the work tree has changes that are not committed"},
		"detached":         {before: [][]string{{"checkout", "-q", "--detach"}}, want: "on branch agent/x"},
		"at that commit":   {before: [][]string{{"branch", "agent/x"}}, want: "on branch agent/x"},
		"on it":            {branch: "main", code: cli.ExitRejected, want: `--git-branch "main": the branch is checked out already`},
		"on its own":       {before: [][]string{{"update-ref", "--create-reflog", "-m", gitbranch.MadeMessage, "refs/heads/agent/x", "HEAD"}, {"symbolic-ref", "HEAD", "refs/heads/agent/x"}}, want: "on branch agent/x"},
		"committed on":     {before: [][]string{{"update-ref", "--create-reflog", "-m", gitbranch.MadeMessage, "refs/heads/agent/x", "HEAD"}, {"symbolic-ref", "HEAD", "refs/heads/agent/x"}, commit}, code: cli.ExitRejected, want: "checked out already"},
		"without a log":    {branch: "agent/x", before: [][]string{{"-c", "core.logAllRefUpdates=false", "branch", "agent/x"}, {"symbolic-ref", "HEAD", "refs/heads/agent/x"}}, code: cli.ExitRejected, want: "checked out already"},
		"at another":       {before: [][]string{{"branch", "agent/x"}, commit}, code: cli.ExitRejected, want: `--git-branch "agent/x": the branch is there already, at another commit`},
		"a folder of refs": {branch: "agent", before: [][]string{{"branch", "agent/x"}}, code: cli.ExitRejected, want: `--git-branch "agent": the branch "agent/x" is there, and git does not have both`},
		"elsewhere":        {before: [][]string{{"branch", "agent/x"}, {"worktree", "add", "-q", "--no-checkout", "../elsewhere", "agent/x"}}, code: cli.ExitRejected, want: "checked out in another work tree"},
		"orphan elsewhere": {before: [][]string{{"worktree", "add", "-q", "--detach", "--no-checkout", "../orphan"}, {"-C", "../orphan", "symbolic-ref", "HEAD", "refs/heads/agent/x"}}, code: cli.ExitRejected, want: "checked out in another work tree"},
		"a merge":          {before: [][]string{{"update-ref", "MERGE_HEAD", "HEAD"}}, code: cli.ExitRejected, want: "a merge is under way"},
		"a bisection":      {before: [][]string{{"bisect", "start"}}, code: cli.ExitRejected, want: "a bisection is under way"},
		"not the top":      {to: "out", code: cli.ExitRejected, want: "the folder is not the top of its work tree"},
		"no name":          {branch: "a..b", code: cli.ExitRejected, want: "not a name that a branch can have"},
		"an option":        {branch: "-f", code: cli.ExitRejected, want: "not a name that a branch can have"},
		"the one before":   {branch: "@{-1}", before: [][]string{{"checkout", "-q", "-b", "y"}}, code: cli.ExitRejected, want: "not a name that a branch can have"},
		"HEAD":             {branch: "HEAD", code: cli.ExitRejected, want: "not a name that a branch can have"},
		"hostile":          {branch: "a\x1bb", code: cli.ExitRejected, want: `--git-branch "a\x1bb": not a name`},
	} {
		t.Run(name, func(t *testing.T) { s.try(t, first, trial) })
	}
}

func (s stage) try(t *testing.T, first string, trial gitTrial) {
	dir := filepath.Join(s.dir, "tree")
	defer func() {
		for _, d := range []string{dir, filepath.Join(s.dir, "elsewhere"), filepath.Join(s.dir, "orphan")} {
			if err := os.RemoveAll(d); err != nil {
				t.Error(err)
			}
		}
	}()
	cpTree(t, first, dir)
	off := []string{"-c", "core.hooksPath=/dev/null", "-c", "filter.trap.clean=cat", "-c", "filter.trap.smudge=cat"}
	for _, args := range trial.before {
		s.git(t, dir, append(off, args...)...)
	}
	_ = os.Remove(filepath.Join(s.dir, "ran"))
	branch := trial.branch
	if branch == "" {
		branch = "agent/x"
	}
	kept, tree, at, commit := gitKept(t, dir), shot(t, dir), heads(t, dir), s.git(t, dir, "rev-parse", "HEAD")
	stdout, stderr, code := s.run(t, "apply", s.pack, "--to", filepath.Join(dir, trial.to), "--git-branch", branch)
	if code != trial.code || !strings.Contains(stdout+stderr, trial.want) {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "ran")); err == nil || gitKept(t, dir) != kept {
		t.Errorf("something ran, or was changed (%v)", err)
	}
	if code != cli.ExitAccepted {
		if shot(t, dir) != tree || heads(t, dir) != at {
			t.Errorf("changed: %s\n%s", shot(t, dir), heads(t, dir))
		}
		return
	}
	if got := s.git(t, dir, "symbolic-ref", "HEAD"); got != "refs/heads/"+branch || s.git(t, dir, "rev-parse", "HEAD") != commit || shot(t, dir) == tree {
		t.Errorf("HEAD is %s", got)
	}
	// The commands that apply prints as the next step work.
	_, lines, _ := strings.Cut(stdout, "yours to do:\n")
	add, _, _ := strings.Cut(lines, "\n")
	cmd := exec.Command("sh", "-c", add)
	cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "HOME="+s.home, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", add, err, out)
	}
	if got := s.git(t, dir, append(off, "diff", "--name-only")...); got != "" {
		t.Errorf("not added: %s", got)
	}
	// The traps work: git itself falls into them.
	if _, err := os.Lstat(filepath.Join(s.dir, "ran")); errors.Is(err, fs.ErrNotExist) {
		t.Error("no trap has caught git itself")
	}
}

// TestApplyBranchAlone: if no file has to change, the branch is still made, or refused by
// the same rules.
func TestApplyBranchAlone(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := newStage(t)
	none := filepath.Join(s.dir, "none")
	if _, stderr, code := s.run(t, "run", s.intentOf(t, "true"), "--policy", "dev", "--mode", "execute-sandbox", "--pack", none); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	for name, pack := range map[string]string{"no file changed": none, "all there": s.pack} {
		t.Run(name, func(t *testing.T) {
			dir := s.repository(t, filepath.Join(s.dir, strings.ReplaceAll(name, " ", "-")))
			if stdout, stderr, code := s.run(t, "apply", pack, "--to", dir); code != cli.ExitAccepted {
				t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
			}
			tree, at, kept := shot(t, dir), heads(t, dir), gitKept(t, dir)
			for _, tc := range []struct {
				branch, want string
				dry          bool
				code         int
			}{
				{"agent/x", "dry run: nothing was changed\n", true, cli.ExitAccepted},
				{"main", "checked out already", false, cli.ExitRejected},
				{"agent/x", "nothing to do, every file is as the pack has it\non branch agent/x\n", false, cli.ExitAccepted},
				{"agent/x", "on branch agent/x\n", false, cli.ExitAccepted},
			} {
				args := []string{"apply", pack, "--to", dir, "--git-branch", tc.branch}
				if tc.dry {
					args = append(args, "--dry-run")
				}
				stdout, stderr, code := s.run(t, args...)
				if code != tc.code || !strings.Contains(stdout+stderr, tc.want) {
					t.Errorf("%q: exit status %d\n%s%s", args, code, stdout, stderr)
				}
				onIt := strings.HasPrefix(heads(t, dir), "HEAD ref: refs/heads/agent/x\n")
				if onIt != (code == cli.ExitAccepted && !tc.dry) || !onIt && heads(t, dir) != at || shot(t, dir) != tree || gitKept(t, dir) != kept {
					t.Errorf("%q: %s", args, heads(t, dir))
				}
			}
			s.git(t, dir, "-c", "core.hooksPath=/dev/null", "update-ref", "refs/heads/y", s.git(t, dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit-tree", "-m", "y", "HEAD^{tree}"))
			at = heads(t, dir)
			if _, stderr, code := s.run(t, "apply", pack, "--to", dir, "--git-branch", "y"); code != cli.ExitRejected || !strings.Contains(stderr, "at another commit") || heads(t, dir) != at {
				t.Errorf("exit status %d\n%s", code, stderr)
			}
			s.swept(t)
		})
	}
}

// TestApplyBranchForeign: git does not read a repository of another owner, and the message
// names the owner as the cause.
func TestApplyBranchForeign(t *testing.T) {
	t.Parallel()
	needGit(t)
	if os.Geteuid() != 0 {
		t.Skip("only root gives a folder to another owner")
	}
	s := newStage(t)
	dir := s.repository(t, filepath.Join(s.dir, "tree"))
	if err := os.Chown(dir, 4321, 4321); err != nil {
		t.Skipf("no folder can be given away here: %v", err)
	}
	tree, at := shot(t, dir), heads(t, dir)
	_, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
	if code != cli.ExitError || !strings.Contains(stderr, "git does not read a repository of another owner") {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	if shot(t, dir) != tree || heads(t, dir) != at {
		t.Errorf("changed: %s", heads(t, dir))
	}
	// Root's own configuration has no effect for another user.
	put(t, s.home, ".gitconfig", "[safe]\n\tdirectory = "+dir+"\n")
	if _, _, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x"); code != cli.ExitError || heads(t, dir) != at {
		t.Errorf("exit status %d: %s", code, heads(t, dir))
	}
}

// TestApplyNoJournal: where no journal can be written or read, the message is about the
// state folder and not about the tree.
func TestApplyNoJournal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	dir := s.tree(t, filepath.Join(s.dir, "tree"))
	before := shot(t, dir)
	state := filepath.Join(s.home, ".local/state/fiador")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	s.barred(t, state)
	_, stderr, code := s.run(t, "apply", s.pack, "--to", dir)
	if code != cli.ExitError || !strings.Contains(stderr, "the journal in the state folder") || shot(t, dir) != before {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	if stdout, stderr, code := s.run(t, "apply", "--recover", "--to", dir); code != cli.ExitAccepted || !strings.Contains(stdout, "nothing was unfinished") {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
}

// TestApplyBranchTakenBack: if the files cannot be applied, HEAD and branches are as
// before.
func TestApplyBranchTakenBack(t *testing.T) {
	t.Parallel()
	needGit(t)
	s := newStage(t)
	for name, head := range map[string][]string{"on a branch": {"symbolic-ref", "HEAD", "refs/heads/main"}, "detached": {"checkout", "-q", "--detach"}} {
		t.Run(name, func(t *testing.T) {
			dir := s.repository(t, filepath.Join(s.dir, strings.ReplaceAll(name, " ", "-")))
			s.git(t, dir, append([]string{"-c", "core.hooksPath=/dev/null", "-c", "filter.trap.smudge=cat", "-c", "filter.trap.clean=cat"}, head...)...)
			s.barred(t, filepath.Join(dir, "out"))
			tree, at, kept := shot(t, dir), heads(t, dir), gitKept(t, dir)
			stdout, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
			if code != cli.ExitError || !strings.Contains(stderr, "nothing was applied") || strings.Contains(stdout, "applied") {
				t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
			}
			if shot(t, dir) != tree || heads(t, dir) != at || gitKept(t, dir) != kept {
				t.Errorf("changed: %s\n%s", shot(t, dir), heads(t, dir))
			}
			s.swept(t)
		})
	}
}

// barred makes a folder read-only, for root too.
func (s stage) barred(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		return
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

// TestApplyBranchUnborn: a branch needs a commit to begin at.
func TestApplyBranchUnborn(t *testing.T) {
	t.Parallel()
	needGit(t)
	s := newStage(t)
	dir := s.tree(t, filepath.Join(s.dir, "tree"))
	s.git(t, dir, "init", "-q", "-b", "main")
	tree := shot(t, dir)
	if _, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "x"); code != cli.ExitRejected || !strings.Contains(stderr, "there is no commit yet") || shot(t, dir) != tree {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	bare := s.tree(t, filepath.Join(s.dir, "bare"))
	if _, stderr, code := s.run(t, "apply", s.pack, "--to", bare, "--git-branch", "x"); code != cli.ExitRejected || !strings.Contains(stderr, "not in a git work tree") {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	cmd, _, stderr := s.command(t, "apply", s.pack, "--to", dir, "--git-branch", "x")
	cmd.Env = rehearsal.Env("PATH="+s.home, "HOME="+s.home)
	if code := status(t, cmd.Run()); code != cli.ExitError || !strings.Contains(stderr.String(), "--git-branch needs git") {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	// GIT_DIR and similar variables name another repository.
	cmd, _, stderr = s.command(t, "apply", s.pack, "--to", bare, "--git-branch", "x")
	cmd.Env = append(cmd.Env, "GIT_DIR="+filepath.Join(dir, ".git"), "GIT_WORK_TREE="+bare)
	if code := status(t, cmd.Run()); code != cli.ExitRejected || !strings.Contains(stderr.String(), "not in a git work tree") {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
}
