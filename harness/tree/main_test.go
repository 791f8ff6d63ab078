package tree

import (
	"os"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

func TestMain(m *testing.M) { os.Exit(rehearsal.Tests{M: m}.Run()) }
