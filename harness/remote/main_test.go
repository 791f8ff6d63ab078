package remote_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == helperName {
		os.Exit(pretend(filepath.Dir(os.Args[0])))
	}
	os.Exit(rehearsal.Tests{M: m}.Run())
}

// helperName is the name under which the program of the tests is a helper.
const helperName = "fiador-remote"
