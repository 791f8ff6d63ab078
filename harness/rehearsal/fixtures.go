package rehearsal

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixturesVar is the variable of the environment that names the folder of the fixtures.
const fixturesVar = "FIADOR_FIXTURES"

// Fixture returns the path of a file or a folder of fixtures: test data that is not part
// of the project. They lie in shared/fixtures beside it. The path is "" if they do not.
func Fixture(name ...string) string {
	root, err := os.Getwd() // a package's folder
	for ; err == nil && root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		}
	}
	dir := cmp.Or(os.Getenv(fixturesVar), filepath.Join(root, "..", "shared", "fixtures"))
	path := filepath.Join(append([]string{dir}, name...)...)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// NeedFixture is Fixture for a test that is skipped if the fixture is missing.
func NeedFixture(t testing.TB, name ...string) string {
	t.Helper()
	path := Fixture(name...)
	if path == "" {
		t.Skipf("the fixture %s is not here; %s names the folder of the fixtures", strings.Join(name, "/"), fixturesVar)
	}
	return path
}
