package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/util"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// jobStep is a step of a workflow.
type jobStep struct {
	Name string         `json:"name"`
	Uses string         `json:"uses"`
	Run  string         `json:"run"`
	With map[string]any `json:"with"`
}

// workflow is what these tests read of a generated workflow.
type workflow struct {
	On          string            `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Steps []jobStep `json:"steps"`
	} `json:"jobs"`
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = util.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inputs returns the environment of the action's scripts for the inputs of a step. An input
// that the action does not have is an error.
func inputs(t *testing.T, with map[string]any, temp string) []string {
	t.Helper()
	var action struct {
		Inputs map[string]struct {
			Default string `json:"default"`
		} `json:"inputs"`
	}
	readYAML(t, filepath.Join(root, "action", "action.yml"), &action)
	for name := range with {
		if _, ok := action.Inputs[name]; !ok {
			t.Errorf("the action has no input %q", name)
		}
	}
	var env []string
	for name, in := range action.Inputs {
		value, _ := with[name].(string)
		if with[name] == nil {
			value = in.Default
		}
		env = append(env, "INPUT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+strings.ReplaceAll(value, "${{ runner.temp }}", temp))
	}
	return env
}

// TestWorkflowRuns: the steps of the generated workflow run on pull requests: a correct one,
// one with a refused intent, and others that bring a policy of their own. That policy does
// not help them. The step of the action runs the script that the action runs.
func TestWorkflowRuns(t *testing.T) {
	t.Parallel()
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
				if err := os.Mkdir(filepath.Join(dir, side), 0o755); err != nil {
					t.Fatal(err)
				}
				put(t, filepath.Join(dir, side), "package.json", "{}")
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
			var w workflow
			readYAML(t, filepath.Join(dir, "gate/.github/workflows/fiador.yml"), &w)
			if w.On != "pull_request_target" || len(w.Permissions) != 2 || w.Permissions["contents"] != "read" || w.Permissions["security-events"] != "write" {
				t.Errorf("on %q with permissions %v", w.On, w.Permissions)
			}
			run := func(text string, env ...string) (string, int) {
				cmd := exec.Command(shell, "-e", "-c", text)
				cmd.Dir = dir
				cmd.Env = append(append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH")), env...)
				out, err := cmd.CombinedOutput()
				return string(out), status(t, err)
			}
			var decides, tests, sarif int
			var out string
			for _, s := range w.Jobs["gate"].Steps {
				switch {
				case strings.HasPrefix(s.Uses, "fiador/fiador/action@"):
					script, err := filepath.Abs(filepath.Join(root, "action", "check.sh"))
					if err != nil {
						t.Fatal(err)
					}
					var got int
					env := append(inputs(t, s.With, dir), "FIADOR_PROGRAM="+program, "RUNNER_TEMP="+dir,
						"GITHUB_OUTPUT="+filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary.md"))
					if out, got = run(script, env...); got != tc.want || !strings.Contains(out, tc.says) {
						t.Errorf("exit status %d, want %d and %q\n%s", got, tc.want, tc.says, out)
					}
					decides++
				case strings.HasPrefix(s.Uses, "github/codeql-action/upload-sarif@"):
					file := strings.ReplaceAll(fmt.Sprint(s.With["sarif_file"]), "${{ runner.temp }}", dir)
					if b, err := os.ReadFile(file); tc.want != cli.ExitError && (err != nil || !bytes.Contains(b, []byte(`"uri": "intents/`)) && !bytes.Contains(b, []byte(`"uri":"intents/`))) {
						t.Errorf("no SARIF report of an intent beneath the tree: %v\n%s", err, b)
					}
					sarif++
				case s.Run != "":
					if strings.Contains(s.Run, "tree") {
						t.Errorf("step %q runs %q", s.Name, s.Run)
					}
					if out, got := run(s.Run); got != cli.ExitAccepted {
						t.Errorf("the tests of the policy end with %d\n%s", got, out)
					}
					tests++
				}
			}
			if decides != 1 || tests != 1 || sarif != 1 {
				t.Errorf("%d steps decide, %d test the policy, %d upload a report", decides, tests, sarif)
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

// TestWorkflowCovers: the lines that the generated workflow leaves as comments are inputs of
// the actions that they stand under.
func TestWorkflowCovers(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "harness", "scaffold", "repo", "workflow.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	text := strings.NewReplacer("# covers:", "covers:", "# fetch-depth:", "fetch-depth:").Replace(string(b))
	if err := util.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range w.Jobs["gate"].Steps {
		switch {
		case s.With["path"] == "tree":
			got["depth"] = fmt.Sprint(s.With["fetch-depth"])
		case strings.HasPrefix(s.Uses, "fiador/fiador/action@"):
			inputs(t, s.With, "")
			got["covers"] = fmt.Sprint(s.With["covers"])
		}
	}
	if got["depth"] != "0" || got["covers"] != "${{ github.event.pull_request.base.sha }}..HEAD" {
		t.Errorf("%q", got)
	}
}

// TestGitLabJobRuns: the commands of GitLab's job, but its installation, run unchanged on a
// clone. The policy of the target branch decides, whatever the branch of the merge request
// has, or a tag with the name of the target branch. A target branch without a policy decides
// nothing, and neither does one of a fork.
func TestGitLabJobRuns(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for _, name := range []string{"sh", "git", "tar"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s here, with which the job works", name)
		}
	}
	program, err := exec.LookPath("fiador")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		change  string // what the merge request does
		target  string // what stands in the target branch besides
		project string // in which the pipeline runs
		want    int
		says    string
	}{
		{"fine", "true", "true", "1", cli.ExitAccepted, "1 BUNDLE"},
		{"fork", "true", "true", "2", cli.ExitRejected, "a fork decides nothing"},
		{"tag", `echo '` + refused + `' >intents/x.json`, `git checkout -q --detach; rm -r .fiador/profile; mkdir .fiador/profile
			echo '{"name":"house","extends":"dev","allowed_commands":"*"}' >.fiador/profile/profile.json; git add .; git commit -qm wide; git tag target`, "1", cli.ExitRejected, "CMD_NOT_ALLOWED"},
		{"policy of its own", `echo '` + refused + `' >intents/x.json
			rm -r .fiador/profile && mkdir .fiador/profile && echo '{"name":"house","extends":"dev"}' >.fiador/profile/profile.json`, "true", "1", cli.ExitRejected, "CMD_NOT_ALLOWED"},
		{"no policy", "true", "git rm -rq .fiador/profile && git commit -qm gone", "1", 128, "pathspec"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(text string) (string, int) {
				cmd := exec.Command("sh", "-e", "-c", text)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "CI_MERGE_REQUEST_TARGET_BRANCH_NAME=target",
					"CI_PROJECT_ID="+tc.project, "CI_MERGE_REQUEST_PROJECT_ID=1", "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "TMPDIR="+dir)
				out, err := cmd.CombinedOutput()
				return string(out), status(t, err)
			}
			if out, got := run(`git config --global user.name a; git config --global user.email a@example.com
				git init -q -b target origin; cd origin; echo '{}' >package.json; fiador init --ci gitlab; git add .; git commit -qm policy
				cd ..; git clone -q origin change; cd change; ` + tc.change + `; git add .; git commit -q --allow-empty -m change; cd ../origin; ` + tc.target); got != 0 {
				t.Fatalf("%d\n%s", got, out)
			}
			var jobs map[string]struct {
				Script []string `json:"script"`
			}
			readYAML(t, filepath.Join(dir, "change", ".gitlab-ci.yml"), &jobs)
			script := jobs["fiador"].Script
			if len(script) < 2 || script[0] != "CGO_ENABLED=0 go install github.com/fiador/fiador/cmd/fiador@latest" {
				t.Fatalf("the script is %q", script)
			}
			out, got := run("cd change\n" + strings.Join(script[1:], "\n"))
			if got != tc.want || !strings.Contains(out, tc.says) || strings.Contains(out, "warning: --policy") {
				t.Errorf("exit status %d, want %d and %q\n%s", got, tc.want, tc.says, out)
			}
		})
	}
}
