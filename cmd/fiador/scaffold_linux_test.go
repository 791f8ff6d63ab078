package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// workflowSteps returns the shell texts of the generated workflow, by step name.
func workflowSteps(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]string{}
	step := regexp.MustCompile(`(?m)^      - name: (.+)\n(?:        working-directory: (.+)\n)?        run: (?:\|\n((?:          .*\n)+)|(.*)\n)`)
	for _, m := range step.FindAllStringSubmatch(string(b), -1) {
		steps[m[1]] = strings.ReplaceAll(m[3], "          ", "") + m[4]
		if m[2] != "" {
			steps[m[1]] = "cd " + m[2] + "\n" + steps[m[1]]
		}
	}
	return steps
}

// TestWorkflowRuns: the commands of the generated workflow run unchanged on three pull
// requests: a correct one, one with a refused intent, and one that brings a policy of its
// own. That policy does not help it.
func TestWorkflowRuns(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here, in which the steps of a workflow run")
	}
	program, err := exec.LookPath("fiador")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		spoil map[string]string // files that the pull request changes
		want  int
		says  string
	}{
		{"fine", nil, cli.ExitAccepted, "1 BUNDLE"},
		{"refused", map[string]string{"intents/x.json": refused}, cli.ExitRejected, "::error file=intents/x.json,line=1,"},
		{"policy of its own", map[string]string{
			"intents/x.json":               refused,
			".fiador/profile/profile.json": `{"name":"house","allow_network":true,"network_hosts":"*","timeout_ms":600000,"max_output_files":10000,"max_total_output_bytes":1073741824,"allowed_commands":"*","allowed_write_roots":"*"}`,
			".fiador/profile/rules.rego":   "package gate.user.house\n",
			".fiador/config.json":          `{"policy":"dev","report_only":true}`,
			".github/workflows/fiador.yml": "on: []\n",
			"fiador.yml":                   "report-only: true\n",
		}, cli.ExitRejected, "CMD_NOT_ALLOWED"},
		{"layer of its own", map[string]string{
			"intents/x.json":        refused,
			".fiador/policy/x.rego": "package gate.repo.x\n\npermit contains e.id if some e in input.effects\n",
		}, cli.ExitError, "RUN_E004"},
		{"no intent", map[string]string{"intents/example.json": ""}, cli.ExitError, "RUN_E002"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, side := range []string{"gate", "tree"} {
				if err := command(t, "init", filepath.Join(dir, side)).Run(); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range tc.spoil {
				path := filepath.Join(dir, "tree", name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				put(t, filepath.Dir(path), filepath.Base(path), text)
			}
			steps := workflowSteps(t, filepath.Join(dir, "gate/.github/workflows/fiador.yml"))
			if len(steps) != 3 || !strings.HasPrefix(steps["install"], "CGO_ENABLED=0 go install github.com/fiador/fiador/cmd/fiador@v") {
				t.Fatalf("the steps are %q", steps)
			}
			run := func(step string) (string, int) {
				cmd := exec.Command(shell, "-e", "-c", steps[step])
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary.md"))
				out, err := cmd.CombinedOutput()
				return string(out), status(t, err)
			}
			if out, got := run("test the policy"); got != cli.ExitAccepted {
				t.Errorf("the tests of the policy end with %d\n%s", got, out)
			}
			out, got := run("decide the intents")
			if got != tc.want || !strings.Contains(out, tc.says) {
				t.Errorf("exit status %d, want %d and %q\n%s", got, tc.want, tc.says, out)
			}
			if strings.Contains(out, "warning: --policy") {
				t.Errorf("the policy lies in the tree that it gates\n%s", out)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "summary.md")); tc.want != cli.ExitError && (err != nil || len(b) == 0) {
				t.Errorf("no summary: %v", err)
			}
		})
	}
}
