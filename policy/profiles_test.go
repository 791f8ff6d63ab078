package policy_test

import (
	"os"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// TestMain stands outside of the package, because package profile imports policy.
func TestMain(m *testing.M) {
	policy.BuiltinProfile = builtinProfile
	os.Exit(policy.Main(m))
}

func builtinProfile(name string) kernel.Profile {
	set, err := specs.New()
	if err != nil {
		panic(err)
	}
	p, err := profile.Load(profiles.FS(), name, set)
	if err != nil {
		panic(err)
	}
	return p
}
