//go:build amd64 || arm64

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// TestApplyHooks: apply puts no file where git would run it as a hook, whatever
// configuration and links lead there. It refuses no other file for this reason.
func TestApplyHooks(t *testing.T) {
	needGit(t)
	t.Parallel()
	s := newStage(t)
	hook := `printf '#!/bin/sh\n>>"$HOME/ran"\n'`
	pack, _ := s.packOf(t, "hook", "true", hook+` >pre-commit; mkdir -p tools/hooks sub/hooks; cp pre-commit tools/hooks/pre-commit; cp pre-commit sub/hooks/pre-commit; cp pre-commit sub/check.sh; chmod +x pre-commit */*/* */*.sh`)
	for name, tc := range map[string]struct {
		before string // in the work tree
		to     string
		code   int
		want   string // refused paths
	}{
		"no work tree":              {before: "rm -rf .git"},
		"hooks of git's own":        {},
		"hooks nowhere":             {before: "git config core.hooksPath /dev/null"},
		"a folder of hooks":         {before: "git config core.hooksPath tools/hooks", code: cli.ExitRejected, want: "tools/hooks/pre-commit"},
		"in another case":           {before: "git config core.hooksPath Tools/hooks", code: cli.ExitRejected, want: "tools/hooks/pre-commit"},
		"by its whole path":         {before: `git config core.hooksPath "$PWD/tools"`, code: cli.ExitRejected, want: "tools/hooks/pre-commit"},
		"of the person":             {before: "git config --global core.hooksPath sub/hooks", code: cli.ExitRejected, want: "sub/hooks/pre-commit"},
		"of one among several":      {before: "git config --global core.hooksPath sub/hooks; git config core.hooksPath elsewhere"},
		"by a link":                 {before: "rm -rf .git/hooks; ln -s ../tools/hooks .git/hooks", code: cli.ExitRejected, want: "tools/hooks/pre-commit"},
		"by a link on the way":      {before: "ln -s tools t; git config core.hooksPath t/hooks", code: cli.ExitRejected, want: "tools/hooks/pre-commit"},
		"a hook that is a link":     {before: "mkdir -p .git/hooks; ln -s ../../sub/check.sh .git/hooks/pre-commit", code: cli.ExitRejected, want: "sub/check.sh"},
		"the folder is that":        {before: "mkdir -p tools/hooks; git config core.hooksPath tools/hooks", to: "tools/hooks", code: cli.ExitRejected, want: "."},
		"a folder of the work tree": {before: "mkdir w; git config core.hooksPath w/tools/hooks", to: "w", code: cli.ExitRejected, want: "tools/hooks/pre-commit"},
		"beside them":               {before: "mkdir w; git config core.hooksPath tools/hooks", to: "w"},
		"configuration at fault":    {before: "echo '[core' >>.git/config", code: cli.ExitError},
	} {
		t.Run(name, func(t *testing.T) {
			tree := filepath.Join(t.TempDir(), "tree")
			if err := os.Mkdir(tree, 0o755); err != nil {
				t.Fatal(err)
			}
			config := filepath.Join(s.home, ".gitconfig")
			t.Cleanup(func() { _ = os.Remove(config) })
			s.sh(t, tree, "echo 1 >first\n"+committed+tc.before)
			to := filepath.Join(tree, tc.to)
			before := shot(t, to)
			stdout, stderr, code := s.run(t, "apply", pack, "--to", to)
			if code != tc.code {
				t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
			}
			var refused []string
			for line := range strings.SplitSeq(stderr, "\n") {
				if _, rest, ok := strings.Cut(line, "refused: "); ok {
					path, why, _ := strings.Cut(rest, ": ")
					refused = append(refused, path)
					if !strings.Contains(why, "hooks") {
						t.Errorf("%s: %s", path, why)
					}
				}
			}
			if got := strings.Join(refused, " "); got != tc.want {
				t.Errorf("refused %q, want %q\n%s", got, tc.want, stderr)
			}
			if after := shot(t, to); (after == before) != (code != cli.ExitAccepted) {
				t.Errorf("exit status %d, and the tree is\n%s", code, after)
			}
			if code == cli.ExitAccepted && name != "no work tree" {
				s.sh(t, tree, "git add -A; git commit -q -m second")
				if _, err := os.Stat(filepath.Join(s.home, "ran")); err == nil {
					t.Error("a hook of the pack ran")
				}
			}
		})
	}
}

// TestApplyGitDirectory: no pack makes a folder that git takes for a repository, or writes
// into one.
func TestApplyGitDirectory(t *testing.T) {
	t.Parallel()
	needGit(t)
	s := newStage(t)
	made, _ := s.packOf(t, "made", "true", `mkdir -p docs/objects docs/refs; echo ref: refs/heads/main >docs/HEAD; echo k | tee docs/objects/keep >docs/refs/keep; printf '[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch ran; false\n' >docs/config`)
	into, _ := s.packOf(t, "into", "true", `mkdir hooks; echo x >hooks/post-update; chmod +x hooks/post-update`)
	for _, tc := range []struct{ pack, before, to, want string }{
		{made, "git init -q", "", "refused: docs/config: \"docs\" is a git directory, or becomes one\n"},
		{made, "true", "", "refused: docs/HEAD: "},
		{into, "git init -q --bare b.git", "b.git", "refused: hooks/post-update: the folder is a git directory, or becomes one\n"},
		{into, "git init -q --bare b.git", "b.git/hooks", "refused: .: the folder lies in a git directory, "},
		{into, "mkdir w; git init -q --separate-git-dir meta w", "meta", "refused: hooks/post-update: "},
	} {
		tree := t.TempDir()
		s.sh(t, tree, tc.before)
		before := shot(t, tree)
		stdout, stderr, code := s.run(t, "apply", tc.pack, "--to", filepath.Join(tree, tc.to))
		if code != cli.ExitRejected || stdout != "" || !strings.Contains(stderr, tc.want) || !strings.Contains(stderr, "nothing was changed") {
			t.Errorf("%s %s: exit status %d\n%s%s", tc.before, tc.to, code, stdout, stderr)
		}
		if after := shot(t, tree); after != before {
			t.Errorf("%s %s: the tree is\n%s", tc.before, tc.to, after)
		}
	}
}
