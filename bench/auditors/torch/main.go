// Command torch audits a published ledger with torchwood:
//
//	torch --key VKEY [--since CHECKPOINT] DIR|URL
//	torch --key VKEY --proof FILE --entry FILE
//
// The first form verifies the checkpoint of the C2SP tlog-tiles tree in DIR or at URL, and
// every entry and hash tile against it; and, with --since, that the tree grew out of
// the one an earlier checkpoint tells of. The second verifies a C2SP tlog-proof for
// the bytes of one entry.
//
// The name of the verifier key must be the origin of every checkpoint. The exit
// status is 0 only if everything holds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	line, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "torch:", err)
		os.Exit(1)
	}
	fmt.Println("torch: ok:", line)
}

func run(ctx context.Context, args []string) (string, error) {
	flags := flag.NewFlagSet("torch", flag.ContinueOnError)
	key := flags.String("key", "", "the log's `verifier key`")
	since := flags.String("since", "", "a `file` with an earlier checkpoint")
	proof := flags.String("proof", "", "a `file` with an inclusion proof")
	entry := flags.String("entry", "", "a `file` with the bytes of one entry")
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	v, err := note.NewVerifier(*key)
	if err != nil {
		return "", fmt.Errorf("--key %q: %w", *key, err)
	}
	policy := torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(v.Name()), torchwood.SingleVerifierPolicy(v))

	switch {
	case flags.NArg() == 1 && *proof == "" && *entry == "":
		return tree(ctx, policy, flags.Arg(0), *since)
	case flags.NArg() == 0 && *proof != "" && *entry != "" && *since == "":
		return included(policy, *proof, *entry)
	}
	return "", errors.New("either one DIR, or --proof and --entry, is needed")
}

// source is where a tree is read.
type source interface {
	torchwood.TileReader
	ReadEndpoint(ctx context.Context, path string) ([]byte, error)
}

// tree audits the tree in a folder or at a URL.
func tree(ctx context.Context, policy torchwood.Policy, place, since string) (string, error) {
	var tiles source
	if strings.Contains(place, "://") {
		fetcher, err := torchwood.NewTileFetcher(place)
		if err != nil {
			return "", err
		}
		tiles = fetcher
	} else {
		root, err := os.OpenRoot(place)
		if err != nil {
			return "", err
		}
		defer root.Close()
		if tiles, err = torchwood.NewTileFS(root.FS()); err != nil {
			return "", err
		}
	}
	signed, err := tiles.ReadEndpoint(ctx, "checkpoint")
	if err != nil {
		return "", err
	}
	c, _, err := torchwood.VerifyCheckpoint(signed, policy)
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}

	client, err := torchwood.NewClient(tiles)
	if err != nil {
		return "", err
	}
	var n int64
	for range client.AllEntries(ctx, c.Tree, 0) {
		n++
	}
	if err := client.Err(); err != nil {
		return "", fmt.Errorf("entries: %w", err)
	}
	if n != c.N {
		return "", fmt.Errorf("%d entries, but the checkpoint says %d", n, c.N)
	}

	hashes := torchwood.TileHashReaderWithContext(ctx, c.Tree, tiles)
	if err := grewOutOf(c.Tree, hashes); err != nil { // an empty tree has no tile that would tell
		return "", err
	}
	line := fmt.Sprintf("%d entries of %s, root %s", c.N, c.Origin, c.Hash)
	if since == "" {
		return line, nil
	}
	signed, err = os.ReadFile(since)
	if err != nil {
		return "", err
	}
	earlier, _, err := torchwood.VerifyCheckpoint(signed, policy)
	if err != nil {
		return "", fmt.Errorf("earlier checkpoint: %w", err)
	}
	if earlier.N > c.N {
		return "", fmt.Errorf("rolled back: %d entries, but there were %d", c.N, earlier.N)
	}
	if err := grewOutOf(earlier.Tree, hashes); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, grown from %d", line, earlier.N), nil
}

// grewOutOf says whether the first entries of the log are those of the tree.
func grewOutOf(t tlog.Tree, hashes tlog.HashReader) error {
	h, err := tlog.TreeHash(t.N, hashes)
	if err != nil {
		return err
	}
	if h != t.Hash {
		return fmt.Errorf("the first %d entries have the root %s, but %s was signed", t.N, h, t.Hash)
	}
	return nil
}

// included verifies the proof in one file for the entry in another.
func included(policy torchwood.Policy, proofFile, entryFile string) (string, error) {
	proof, err := os.ReadFile(proofFile)
	if err != nil {
		return "", err
	}
	entry, err := os.ReadFile(entryFile)
	if err != nil {
		return "", err
	}
	h := tlog.RecordHash(entry)
	if err := torchwood.VerifyProof(policy, h, proof); err != nil {
		return "", fmt.Errorf("proof: %w", err)
	}
	return fmt.Sprintf("the entry with leaf hash %s is in the tree", h), nil
}
