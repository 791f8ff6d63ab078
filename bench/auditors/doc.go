// Package auditors holds published ledgers against two programs that are not ours
// and know nothing of Fiador, only the public formats:
//
//   - torchwood, filippo.io/torchwood, through the command torch of this module
//   - fsck, github.com/transparency-dev/tessera/cmd/fsck, a tool of this module,
//     through the command fsckrun, which makes its verdict an exit status
//
// TestServed holds a log that fiador-ledgerd serves against them too. A third program cosigns
// that log, torchwood's litewitness; the module lite runs it.
//
// It is a module of its own so that Fiador's does not depend on them. To audit what
// "fiador ledger publish DIR" wrote, with the log's verifier key:
//
//	go build -o BIN ./torch ./fsckrun github.com/transparency-dev/tessera/cmd/fsck
//	BIN/torch --key VKEY DIR
//	BIN/fsckrun --key VKEY DIR
//
// Its tests hold both against trees that are good and trees that are not; they build
// the programs, which the cache of test results does not know, so:
//
//	go test -count=1 ./...
//
// Torchwood reads every entry and every hash tile, and can tell whether the tree
// grew out of an earlier checkpoint. What fsck alone does not notice stands in the
// table of TestTampering.
package auditors
