package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// modules is how many files the rules of a policy are spread over.
const modules = 8

// Words of the generated rules.
var (
	commands = []string{
		"npm", "npx", "node", "git", "docker", "kubectl", "terraform", "helm", "aws", "gcloud",
		"az", "ssh", "rsync", "psql", "mysql", "redis-cli", "make", "gradle", "cargo", "pip",
	}
	arguments = []string{
		"publish", "unpublish", "deprecate", "login", "logout", "push", "destroy", "delete", "apply", "import",
		"--force", "--yes", "--no-verify", "--registry", "--global", "--privileged", "--all", "--prune", "--purge", "--insecure",
	}
	places = []string{
		"billing", "payroll", "contracts", "accounts", "vault", "backup", "audit", "legal", "customers", "partners",
		"secrets", "certs", "keys", "migrations", "schema", "infra", "deploy", "release", "gateway", "identity",
	}
	subfolders = []string{
		"invoices", "exports", "archive", "current", "private", "shared", "europe", "america", "asia", "africa",
		"staging", "production", "legacy", "drafts", "signed",
	}
	verbs  = []string{"rotate", "drop", "disable", "bypass", "merge", "truncate", "export", "anonymise", "migrate", "revoke"}
	things = []string{
		"signing keys", "customer table", "audit log", "rate limit", "release branch", "payment queue", "access token", "firewall rule",
		"backup job", "login page", "staging database", "billing run", "status page", "mail server", "session store", "feature flag",
		"price index", "user consent", "retention rule", "root account",
	}
	marks = []string{
		"password", "api_key", "secret_access_key", "client_secret", "private_key", "bearer", "aws_session", "smtp_pass", "db_url", "webhook",
	}
	owners = []string{"acme", "initech", "globex", "umbrella", "hooli", "stark", "wayne", "wonka", "tyrell", "cyberdyne"}
)

// userRule is one generated rule: its record, and what it denies.
type userRule struct {
	id, title string
	path, msg string   // Rego terms
	body      []string // Rego expressions
}

// nthRule returns the n-th rule of a policy. Of twenty rules, eight look at a command and
// its argument, six at the path of a written file, four at words of the goal, and two at
// the content of a written file.
func nthRule(n int) userRule {
	round, k := n/20, n%20
	switch {
	case k < 8:
		i := round*8 + k
		command, argument := commands[i%20], arguments[i/20%20]
		return userRule{
			id: fmt.Sprintf("COMMAND_%d", i), title: fmt.Sprintf("No %s with %s", command, argument),
			path: `sprintf("%s/argv", [e.pointer])`, msg: fmt.Sprintf(`sprintf("%%s must not be run with %s", [e.command])`, argument),
			body: []string{
				"some e in input.effects", `e.kind == "run"`, fmt.Sprintf("e.command == %q", command),
				fmt.Sprintf("%q in e.argv", argument),
			},
		}
	case k < 14:
		i := round*6 + k - 8
		prefixes := fmt.Sprintf(`["out/%[1]s/", "dist/%[1]s/"]`, places[i%20]+"/"+subfolders[i/20%15])
		return userRule{
			id: fmt.Sprintf("PLACE_%d", i), title: fmt.Sprintf("No file of %s for %s", subfolders[i/20%15], places[i%20]),
			path: "e.pointer", msg: `sprintf("%q belongs to another team", [e.path])`,
			body: []string{
				"some e in input.effects", `e.kind == "write"`, "strings.any_prefix_match(e.path, " + prefixes + ")",
			},
		}
	case k < 18:
		i := round*4 + k - 14
		words := verbs[i/20%10] + " the " + things[i%20]
		return userRule{
			id: fmt.Sprintf("GOAL_%d", i), title: "Nobody may " + words,
			path: `"/goal"`, msg: fmt.Sprintf("%q", "an agent must not "+words),
			body: []string{fmt.Sprintf("contains(lower(input.intent.goal), %q)", words)},
		}
	default:
		i := round*2 + k - 18
		mark := owners[i/10%10] + "_" + marks[i%10] + "="
		return userRule{
			id: fmt.Sprintf("CONTENT_%d", i), title: "No file with " + mark,
			path: `sprintf("/actions/%d/content", [i])`, msg: fmt.Sprintf("%q", "the file has "+mark),
			body: []string{
				"some i, action in input.intent.actions", `action.kind == "write"`, fmt.Sprintf("contains(action.content, %q)", mark),
			},
		}
	}
}

func (r userRule) write(b *strings.Builder) {
	fmt.Fprintf(b, `
# METADATA
# title: %[2]s
# description: %[2]s unless a person does it
# custom:
#   id: %[1]s
#   fix: leave it to a person
deny contains {
	"id": %[1]q,
	"path": %[3]s,
	"msg": %[4]s,
	"fix": "leave it to a person",
} if {
`, r.id, r.title, r.path, r.msg)
	for _, line := range r.body {
		b.WriteString("\t" + line + "\n")
	}
	b.WriteString("}\n")
}

// userPackage is the package of the rules of the profile that addRules writes.
const userPackage = "gate.user.bench"

// onIntents makes of a rule about the policy input one about the intent itself,
// as somebody would write it who has nothing else.
func onIntents() *strings.Replacer {
	return strings.NewReplacer(
		"package "+userPackage, "package main",
		"some e in input.effects", "some i, e in input.actions",
		"e.command", "e.argv[0]",
		"e.pointer", `sprintf("/actions/%d", [i])`,
		"input.intent.", "input.",
	)
}

// addRules writes a profile with so many rules into a folder.
func (s *scene) addRules(folder string, rules int) error {
	if err := os.Mkdir(filepath.Join(s.dir, folder), 0o700); err != nil {
		return err
	}
	if err := s.write(filepath.Join(folder, "profile.json"), []byte(`{"name":"bench","extends":"default"}`)); err != nil || rules == 0 {
		return err
	}
	return s.addModules(folder, rules, strings.NewReplacer())
}

// addModules writes the Rego of a policy in a form.
func (s *scene) addModules(folder string, rules int, form *strings.Replacer) error {
	for k := range modules {
		var b strings.Builder
		b.WriteString("package " + userPackage + "\n")
		for n := k * rules / modules; n < (k+1)*rules/modules; n++ {
			nthRule(n).write(&b)
		}
		if err := s.write(filepath.Join(folder, fmt.Sprintf("rules-%d.rego", k)), []byte(form.Replace(b.String()))); err != nil {
			return err
		}
	}
	return nil
}
