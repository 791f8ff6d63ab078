//go:build amd64 || arm64

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// sh runs a shell script in a folder, with a git that knows who commits and reads no
// configuration of this machine.
func (s stage) sh(t *testing.T, dir, script string, attr ...*syscall.SysProcAttr) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, rehearsal.GitEnv(s.home, "GIT_EDITOR=echo message >", "GIT_ALLOW_PROTOCOL=file")
	for _, a := range attr {
		cmd.SysProcAttr = a
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

const (
	// committed makes a folder a repository with one commit of all that is in it.
	committed = "git init -q -b main; git add -A; git commit -q -m first\n"
	// inCommit lists what the last commit has changed.
	inCommit = "git -c core.quotePath=false diff-tree --no-commit-id --no-renames --name-status -r HEAD"
)

// packOf makes the pack of a script that ran on a copy of a tree. Another script makes the
// tree.
func (s stage) packOf(t *testing.T, name, tree, script string) (pack, work string) {
	t.Helper()
	pack, work = filepath.Join(s.dir, name+".pack"), filepath.Join(s.dir, name+".work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	s.sh(t, work, tree)
	if _, stderr, code := s.bench.run(t, "run", s.intentOf(t, script), "--policy", "dev", "--mode", "execute-sandbox", "--work", work, "--pack", pack); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	return pack, work
}

// commandTrial is a pack that is applied on a branch, and the expected effect of the
// printed commands.
type commandTrial struct {
	tree   string // makes the tree that the pack is about
	script string // what the pack did to it
	before string // makes a repository of the tree
	to     string // the name of the tree
	commit string // name-status of the commit; empty: no commands are printed
	rest   string // status afterwards
	says   string
}

// TestApplyBranchCommands: the printed commands commit exactly the applied files, whatever
// names they have, whatever other files exist, and whatever was staged before.
func TestApplyBranchCommands(t *testing.T) {
	needGit(t)
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	s := stage{bench: newBench(t)}
	const others = "echo '.env' >.gitignore\n" + committed + "echo SECRET >.env; echo wip >wip; mkdir -p src; echo mine >src/i.tsx\n"
	const keep = "echo k >keep; "
	twenty := "D\tkeep"
	for n := range 19 {
		twenty += fmt.Sprintf("\nD\told/%d", 10+n)
	}
	for name, trial := range map[string]commandTrial{
		"nothing that git knows": {
			tree: keep + "echo x >local", script: "rm local", before: "echo local >.gitignore; git init -q -b main; git add keep .gitignore; git commit -q -m first; echo S >.env",
			rest: "?? .env", says: "git knows nothing of what has changed, so there is nothing to commit\n",
		},
		"twenty": {
			tree: keep + "mkdir old; for i in $(seq 10 28); do echo $i >old/$i; done", script: "rm -r old/*; rm keep", before: others,
			commit: twenty, rest: "?? src/\n?? wip",
		},
		"more than twenty": {
			tree: keep + "mkdir old; for i in $(seq 21); do echo $i >old/$i; done", script: "rm old/*", before: others, says: "yours to do; for more than 20 files no commands are printed\n",
		},
		"patterns": {
			tree: "mkdir src; echo a >'src/[id].tsx'; echo b >'*'", script: `rm './*'; echo n >>'src/[id].tsx'; echo n >'?'`, before: others,
			commit: "D\t*\nA\t?\nM\tsrc/[id].tsx", rest: "?? src/i.tsx\n?? wip",
		},
		"ignored": {
			tree: keep, script: "echo x >new.log; echo y >-n", before: "echo '*.log' >.gitignore\n" + committed + "echo x >old.log",
			commit: "A\t-n\nA\tnew.log",
		},
		"staged": {
			tree: keep + "echo g >gone", script: "rm gone; echo n >new; echo k >>keep", before: others + "git add wip; git rm -q --cached .gitignore",
			commit: "D\tgone\nM\tkeep\nA\tnew", rest: "D  .gitignore\nA  wip\n?? .gitignore\n?? src/",
		},
		"staged and not committed": {
			tree: keep + "echo g >gone", script: "rm gone; echo k >>keep", before: keep + "git init -q -b main; git add keep; git commit -q -m first; git add gone; echo wip >wip; git add wip",
			commit: "M\tkeep", rest: "A  wip",
		},
		"only staged": {
			tree: keep + "echo g >gone", script: "rm gone", before: "git init -q -b main; git add keep; git commit -q -m first; git add gone; echo wip >wip; git add wip",
			commit: "", rest: "A  wip",
		},
		"a folder for a file": {
			tree: keep + "echo x >x", script: "rm x; mkdir x; echo y >x/y", before: others + "git add wip", commit: "D\tx\nA\tx/y", rest: "A  wip\n?? src/",
		},
		"a submodule": {
			tree: keep, script: "mkdir lib; echo n >lib/new; echo k >>keep", before: "mkdir ../up; cd ../up; echo u >u\n" + committed + "cd -; " + committed + "git submodule --quiet add ../up lib; git commit -q -m second",
			commit: "M\tkeep", rest: " M lib", says: "lib is a repository of its own: what is in it is neither on that branch nor in the commands\n",
		},
		"only a submodule": {
			tree: keep, script: "mkdir lib; echo n >lib/new", before: committed + "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib; git commit -q -m second; mkdir lib",
			says: "agent/x; nothing is committed\nlib is a repository of its own",
		},
		"a submodule that is not there": {
			tree: keep, script: "mkdir lib; echo n >lib/new; echo k >>keep", before: committed + "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib; git commit -q -m second; mkdir lib",
			commit: "M\tkeep", says: "lib is a repository of its own",
		},
		"a repository beneath": {
			tree: keep, script: "mkdir -p a/lib; echo n >a/lib/new; echo n >a/n", before: committed + "mkdir -p a/lib; cd a/lib; echo u >u\n" + committed,
			commit: "A\ta/n", rest: "?? a/lib/", says: "a/lib is a repository of its own",
		},
		"sparse": {
			tree: keep + "mkdir in off; echo i >in/i; echo o >off/o", script: "echo n >off/n; echo n >in/n", before: committed + "git sparse-checkout set in; echo wip >in/wip; git add in/wip",
			commit: "A\tin/n\nA\toff/n", rest: "A  in/wip",
		},
		"a name that does not show": {
			tree: keep, script: "echo k >>keep", before: committed, to: "x\x1b[31m 'é\xff", commit: "M\tkeep", says: ` $'x\033[31m \047\303\251\377' `,
		},
		"a name for a runner":   {tree: keep, script: "echo n >'x##[set-env]'", before: committed, commit: "A\tx##[set-env]", says: `-- $'x\043\043[set-env]'`},
		"a name like an option": {tree: keep, script: "echo k >>keep", before: committed, to: "-z !$(false)", commit: "M\tkeep"},
	} {
		t.Run(name, func(t *testing.T) { s.tryCommands(t, strings.ReplaceAll(name, " ", "-"), trial) })
	}
}

func (s stage) tryCommands(t *testing.T, name string, trial commandTrial) {
	const noOut = "\nrm -rf out/*" // removes the file that intentOf writes
	pack, _ := s.packOf(t, name, trial.tree, trial.script+noOut)
	to := trial.to
	if to == "" {
		to = "tree"
	}
	above := filepath.Join(s.dir, name)
	dir := filepath.Join(above, to)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.sh(t, dir, trial.tree+"\n"+trial.before)
	cmd, stdout, stderr := s.command(t, "apply", pack, "--to="+to, "--git-branch", "agent/x")
	cmd.Dir = above
	if code := status(t, cmd.Run()); code != cli.ExitAccepted || !strings.Contains(stdout.String(), trial.says) {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	first := s.sh(t, dir, "git rev-parse HEAD")
	_, lines, printed := strings.Cut(stdout.String(), "yours to do:\n")
	if !printed {
		lines = ""
	}
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "  ") {
			put(t, s.dir, "line", line)
			s.sh(t, above, "bash -e "+filepath.Join(s.dir, "line"))
		}
	}
	if got := s.sh(t, dir, inCommit); got != trial.commit && (trial.commit != "" || s.sh(t, dir, "git rev-parse HEAD") != first) {
		t.Errorf("committed is\n%s\nand not\n%s\n%s", got, trial.commit, stdout)
	}
	if got := s.sh(t, dir, "git status --porcelain"); trial.rest != "" && got != trial.rest || printed && trial.rest == "" && got != "" {
		t.Errorf("the status is\n%s\nand not\n%s\n%s", got, trial.rest, stdout)
	}
}

// TestApplyBranchRefused: an unfinished operation of git, here or in another work tree, is
// found before a diff is shown. So is a branch that cannot be made.
func TestApplyBranchRefused(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := newStage(t)
	const sides = "git switch -q -c side; echo 1 >kept; git commit -q -a -m s1; echo 2 >more; git add more; git commit -q -m s2; git switch -q main; echo 3 >kept; git commit -q -a -m m\n"
	const elsewhere = "git branch agent/x; git worktree add -q ../$(basename $PWD).else agent/x; cd ../$(basename $PWD).else\n"
	for name, tc := range map[string]struct{ branch, before, want string }{
		"sequencer":        {"agent/x", sides + "git cherry-pick main..side >out.log 2>&1 || echo r >kept; git add kept; git commit -q -m resolved", "a cherry-pick or revert of several commits is under way"},
		"unmerged":         {"agent/x", "echo 1 >kept; git stash -q; echo 2 >kept; git commit -q -a -m m; git stash pop >out.log 2>&1 || true", "the index has conflicts that are not resolved"},
		"rebased":          {"agent/x", elsewhere + "git commit -q --allow-empty -m y; GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~1 2>out.log; cd -; git reset -q --hard agent/x", "a rebase or a bisection in another work tree comes back to the branch"},
		"bisected":         {"agent/x", elsewhere + "git commit -q --allow-empty -m y; git commit -q --allow-empty -m z; git bisect start HEAD HEAD~2 >out.log; git status; cd -; git reset -q --hard agent/x", "a rebase or a bisection in another work tree comes back to the branch"},
		"symbolic":         {"agent", "git symbolic-ref refs/heads/agent refs/heads/main", "the branch is a symbolic ref, and stands for another"},
		"symbolic nowhere": {"agent", "git symbolic-ref refs/heads/agent refs/heads/none", "the branch is a symbolic ref, and stands for another"},
		"beneath":          {"agent/x/y", "git branch agent", `the branch "agent" is there, and git does not have both`},
		"above":            {"agent", "git branch agent/x/y; git pack-refs --all", `the branch "agent/x/y" is there, and git does not have both`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := s.tree(t, filepath.Join(s.dir, strings.ReplaceAll(name, " ", "-")))
			s.sh(t, dir, "echo out.log >.gitignore\n"+committed+tc.before)
			const refs = "git for-each-ref; cat .git/HEAD; git status --porcelain"
			tree, at := shot(t, dir), s.sh(t, dir, refs)
			for _, flag := range []string{"--overwrite", "--dry-run"} {
				stdout, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", tc.branch, flag)
				if code != cli.ExitRejected || !strings.Contains(stderr, tc.want) || stdout != "" {
					t.Errorf("%s: exit status %d\n%s%s", flag, code, stdout, stderr)
				}
				if shot(t, dir) != tree || s.sh(t, dir, refs) != at {
					t.Errorf("changed: %s", s.sh(t, dir, refs))
				}
			}
		})
	}
}

// TestApplyBranchNeighbours: a branch with a similar name is no obstacle.
func TestApplyBranchNeighbours(t *testing.T) {
	t.Parallel()
	needGit(t)
	s := newStage(t)
	dir := s.tree(t, filepath.Join(s.dir, "tree"))
	s.sh(t, dir, committed+"git branch agent/xy; git branch agen; git branch agent/y/z; git symbolic-ref refs/heads/agent/y/x refs/heads/main; git tag agent/x; mkdir .git/refs/heads/agent/x; git worktree add -q -b agent/z ../else")
	if stdout, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x"); code != cli.ExitAccepted {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}

// TestApplyBranchMeanwhile: a change of the repository while a person reads the diff is
// neither overwritten nor built upon.
func TestApplyBranchMeanwhile(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := stage{bench: newBench(t)}
	long, work := s.packOf(t, "long", "echo k >kept", "yes lines | head -n 19000 >long")
	for name, tc := range map[string]struct{ does, want string }{
		"commit":   {"echo 2 >kept; git commit -q -a -m second", "what is checked out has changed"},
		"switch":   {"git switch -q -c topic", "what is checked out has changed"},
		"detach":   {"git switch -q --detach", "what is checked out has changed"},
		"merge":    {"git update-ref MERGE_HEAD HEAD", "a merge is under way"},
		"branch":   {"git branch agent/x", "it was made or removed"},
		"above":    {"git branch agent", `the branch "agent" is there`},
		"exchange": {"cp -a . ../other; mv ../meanwhile ../gone; mv ../other ../meanwhile", "the folder is another one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(s.dir, "meanwhile")
			defer func() {
				for _, d := range []string{dir, filepath.Join(s.dir, "gone")} {
					if err := os.RemoveAll(d); err != nil {
						t.Error(err)
					}
				}
			}()
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			s.sh(t, dir, "cp ../"+filepath.Base(work)+"/kept .\n"+committed)
			const refs = "git for-each-ref; cat .git/HEAD"
			var at, tree string
			out, stderr, code := s.whileShown(t, long, dir, func() {
				s.sh(t, dir, tc.does)
				at, tree = s.sh(t, dir, refs), shot(t, dir)
			})
			if code != cli.ExitRejected || !strings.Contains(stderr, `conflict: branch "agent/x": `) || !strings.Contains(stderr, tc.want) || strings.Contains(out, "applied to") {
				t.Errorf("exit status %d\n%s", code, stderr)
			}
			if shot(t, dir) != tree || s.sh(t, dir, refs) != at {
				t.Errorf("changed: %s\n%s", shot(t, dir), s.sh(t, dir, refs))
			}
			s.swept(t)
		})
	}
}

// whileShown applies a pack, on a branch, and does something while the diff is read.
func (s stage) whileShown(t *testing.T, pack, dir string, does func()) (stdout, stderr string, code int) {
	t.Helper()
	cmd, _, errs := s.command(t, "apply", pack, "--to", dir, "--git-branch", "agent/x")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	first := make([]byte, 1)
	if _, err := io.ReadFull(out, first); err != nil {
		t.Fatal(err, errs)
	}
	does()
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	code = status(t, cmd.Wait())
	return string(first) + string(rest), errs.String(), code
}

// wrapped returns the command for the program at the bench. Its git runs the shell text
// does where the arguments match a pattern of a shell. "$git" is git itself.
func (s stage) wrapped(t *testing.T, pattern, does string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin, err := os.MkdirTemp(s.dir, "bin-")
	if err != nil {
		t.Fatal(err)
	}
	executable(t, filepath.Join(bin, "git"), strings.NewReader("#!/bin/sh\ngit='"+real+"'\ncase \"$*\" in "+pattern+") "+does+";; esac\nexec \"$git\" \"$@\"\n"))
	cmd, stdout, stderr = s.command(t, args...)
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	return cmd, stdout, stderr
}

// TestApplyBranchCtrlC: a Ctrl-C on the terminal reaches all processes in the foreground,
// and does not end git halfway.
func TestApplyBranchCtrlC(t *testing.T) {
	t.Parallel()
	needGit(t)
	s := newStage(t)
	for _, pattern := range []string{"*update-ref*--create-reflog*", "*symbolic-ref*-m*"} {
		dir := s.tree(t, filepath.Join(s.dir, "tree"))
		s.sh(t, dir, committed)
		cmd, stdout, stderr := s.wrapped(t, pattern, "kill -INT -$PPID", "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if code := status(t, cmd.Run()); code != cli.ExitAccepted || !strings.Contains(stdout.String(), "on branch agent/x") {
			t.Errorf("%s: exit status %d\n%s%s", pattern, code, stdout, stderr)
		}
		if got := s.sh(t, dir, "git symbolic-ref HEAD; git rev-parse HEAD~0 >/dev/null; cat new.txt"); got != "refs/heads/agent/x\ntext" {
			t.Errorf("%s: %s", pattern, got)
		}
		s.swept(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestApplyBranchGitKilled: wherever git is killed, HEAD names an existing branch, the
// message is true, and the same command completes the change when it runs again.
func TestApplyBranchGitKilled(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := newStage(t)
	const back = "nothing was changed: git was killed: signal: killed"
	for name, tc := range map[string]struct{ pattern, does, want, head string }{
		"before the ref": {"*update-ref*--create-reflog*", "kill -KILL $$", back, "main"},
		"after the ref":  {"*update-ref*--create-reflog*", `"$git" "$@"; kill -KILL $$`, back, "main"},
		"before HEAD":    {"*symbolic-ref*-m*", "kill -KILL $$", back, "main"},
		"after HEAD":     {"*symbolic-ref*-m*refs/heads/agent/x", `"$git" "$@"; kill -KILL $$`, back, "main"},
		"and then again": {"*symbolic-ref*-m*refs/heads/agent/x", `"$git" "$@"; printf '#!/bin/sh\ncase "$*" in *symbolic-ref*-m*) kill -KILL $$;; esac; exec %s "$@"' "$git" >"$0"; kill -KILL $$`, `no file was changed, but HEAD is on the branch \"agent/x\", at the commit that it was at: git was killed`, "agent/x"},
		"no deletion":    {"*symbolic-ref*-m*refs/heads/agent/x|*update-ref*-d*", "kill -KILL $$", `no file was changed, but the branch \"agent/x\" is there: git was killed`, "main"},
		"when looking":   {"*check-ref-format*", "kill -KILL $$", back, "main"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := s.tree(t, filepath.Join(s.dir, strings.ReplaceAll(name, " ", "-")))
			s.sh(t, dir, committed)
			tree := shot(t, dir)
			cmd, _, stderr := s.wrapped(t, tc.pattern, tc.does, "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
			if code := status(t, cmd.Run()); code != cli.ExitError || !strings.Contains(stderr.String(), tc.want) || shot(t, dir) != tree {
				t.Errorf("exit status %d\n%s", code, stderr)
			}
			if got := s.sh(t, dir, "git symbolic-ref HEAD; git rev-parse -q --verify HEAD >/dev/null; git for-each-ref --format='%(refname)'"); !strings.HasPrefix(got, "refs/heads/"+tc.head+"\n") || tc.want == back && strings.Contains(got, "agent") {
				t.Errorf("git has %s", got)
			}
			if _, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x"); code != cli.ExitAccepted {
				t.Errorf("again: exit status %d\n%s", code, stderr)
			}
			s.swept(t)
		})
	}
}

// TestApplyBranchLocked: the message names a lock of a killed git. After its removal the
// same command continues.
func TestApplyBranchLocked(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := newStage(t)
	for _, name := range []string{"HEAD.lock", "refs/heads/agent/x.lock"} {
		dir := s.tree(t, filepath.Join(s.dir, "tree"))
		s.sh(t, dir, committed+"mkdir -p .git/refs/heads/agent; >.git/"+name)
		tree := shot(t, dir)
		lock := filepath.Join(dir, ".git", name)
		_, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
		if code != cli.ExitError || !strings.Contains(stderr, "Unable to create '"+lock+"': File exists") || !strings.Contains(stderr, "a git that was killed may have left that file") {
			t.Errorf("exit status %d\n%s", code, stderr)
		}
		if got := s.sh(t, dir, "git symbolic-ref HEAD; git branch --list 'agent/*'"); got != "refs/heads/main" || shot(t, dir) != tree {
			t.Errorf("%s: %s", name, got)
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x"); code != cli.ExitAccepted {
			t.Errorf("%s: exit status %d\n%s", name, code, stderr)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestApplyBranchOwner: in a repository of another user, root's command makes no file that
// this user cannot use. It says where it cannot work.
func TestApplyBranchOwner(t *testing.T) {
	t.Parallel()
	needGit(t)
	if os.Geteuid() != 0 {
		t.Skip("only root acts for another owner")
	}
	s := newStage(t)
	dir := s.tree(t, filepath.Join(s.dir, "tree"))
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4321, Gid: 4322}}
	if err := os.Chown(dir, 4321, 4322); err != nil {
		t.Skipf("no folder can be given away here: %v", err)
	}
	s.sh(t, dir, "chown -R 4321:4322 .")
	s.sh(t, dir, committed, as)
	before := shot(t, dir)
	if err := os.Chmod(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
	if code != cli.ExitError || !strings.Contains(stderr, "nothing was changed: git cannot be run as the owner of the folder: permission denied") || shot(t, dir) != before {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	if err := os.Chmod(s.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
	if code != cli.ExitAccepted || !strings.Contains(stdout, "yours to do, as the owner of the folder:\n  git -C ") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	err := filepath.WalkDir(filepath.Join(dir, ".git"), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if st, ok := info.Sys().(*syscall.Stat_t); err == nil && (!ok || st.Uid != 4321 || st.Gid != 4322) {
			err = errors.New(name + " is another's")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s.sh(t, dir, "git add new.txt; git commit -q -m mine; git switch -q main; git branch -q -D agent/x", as)
}

// TestApplyBranchNames: the name of a branch does not move the cursor, and messages show
// it in full.
func TestApplyBranchNames(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := newStage(t)
	for name, shown := range map[string]string{"e\u202evil": `e\u202evil`, "c\u009b31mX": `c\u009b31mX`, "b\x9b31m": `b\x9b31m`, "é": "é"} {
		dir := s.tree(t, filepath.Join(s.dir, "tree"))
		s.sh(t, dir, committed)
		for _, want := range []string{", on branch " + shown + "; ", "\non branch " + shown + "\n"} {
			stdout, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", name)
			if code != cli.ExitAccepted || !strings.Contains(stdout, want) {
				t.Errorf("%q: exit status %d\n%q\n%s", name, code, stdout, stderr)
			}
		}
		if got := s.sh(t, dir, "git symbolic-ref HEAD"); got != "refs/heads/"+name {
			t.Errorf("HEAD is %q", got)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
