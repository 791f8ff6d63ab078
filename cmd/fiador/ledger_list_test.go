package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fiador/fiador/ledger/disk/disktest"
)

// TestLedgerScripts runs testdata/ledger: the commands that read entries, in a folder with
// the ledger of disktest.Recorded in $gate. It has the commands of TestScripts, and "work",
// which adds the records of disktest.Work. The tests of fiador-ledgerd run the scripts too,
// but for those about a folder.
func TestLedgerScripts(t *testing.T) { testscript.Run(t, ledgerScriptParams()) }

func ledgerScriptParams() testscript.Params {
	p := scriptParams()
	p.Dir = "testdata/ledger"
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("FIADOR_LEDGER", "gate")
		env.Setenv("gate", "gate")
		return disktest.Recorded(filepath.Join(env.WorkDir, "gate"))
	}
	p.Cmds["work"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) > 0 {
			ts.Fatalf("usage: work")
		}
		ts.Check(disktest.Work(ts.MkAbs("gate")))
	}
	return p
}
