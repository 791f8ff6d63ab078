package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeWorks: the commands of the README's section on work items print the shown output.
func TestReadmeWorks(t *testing.T) {
	needSandbox(t, "sh")
	needPrograms(t, "jq")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "\n## Work items\n")
	if !found {
		t.Fatal("the README has no section on work items")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	examples, err := filepath.Abs(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	before := "```sh\nln -s " + examples + " examples\nfiador ledger init decisions --origin example.com/gate --key gate.key >gate.pub\n```\n"
	p := runPage(t, before+section)
	for _, fault := range p.faults() {
		t.Errorf("README.md, line %s of the section", fault)
	}
	if len(p.steps) < 10 {
		t.Errorf("only %d commands found", len(p.steps))
	}
}
