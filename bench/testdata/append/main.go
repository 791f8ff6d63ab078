// Command append opens a ledger, records one decision without evidence of its own, and
// prints where that stands: what recording costs a program that does nothing else.
//
//	append LEDGER KEYFILE
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "append:", err)
		os.Exit(1)
	}
}

func run(dir, keyFile string) error {
	key, err := disk.ReadKey(keyFile)
	if err != nil {
		return err
	}
	log, err := disk.Open(dir, key, disk.Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer log.Close()
	r, err := log.Append(context.Background(), decision())
	if err != nil {
		return err
	}
	if len(r.Warnings) > 0 {
		return fmt.Errorf("%q", r.Warnings)
	}
	fmt.Println(r.Index, r.Record.RunID)
	return nil
}

// decision is a record of the size that a gate's records have, with a run id that no
// other process has at the same time.
func decision() ledger.Record {
	some := canon.ContentHash("sha256:" + strings.Repeat("0123456789abcdef", 4))
	return ledger.Record{
		Kind: ledger.KindDecision, RunID: fmt.Sprintf("run_%d_%d", time.Now().UnixNano(), os.Getpid()),
		IntentSHA256: some, ExecutionMode: "plan-only", Mode: "none", Policy: "default", PolicySHA256: some,
		InputSHA256: some, BundleSHA256: some, Kernel: "1.0.0", ResultKind: "BUNDLE", Accepted: true,
		DecisionSHA256: some, CanonicalSHA256: some, ResultSHA256: some, Evidence: ledger.Blob{SHA256: some, Size: 6000},
	}
}
