package ledger

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestContractFields: the eight fields of the ledger contract are enough to read every
// decision line of the vectors. There is one object on a line, lines are in the order of
// time, each run id occurs once, and hashes are hashes. The line of a begun run has all
// eight too, with null for its outcome; older ledgers lack these two. No other line has
// all eight.
func TestContractFields(t *testing.T) {
	hash := regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	fields := []string{"run_id", "timestamp", "intent_sha256", "bundle_sha256", "result_kind", "accepted", "mode", "policy"}
	logs, err := filepath.Glob("../specs/vectors/ledger/*/ledger.jsonl")
	if err != nil || len(logs) < 2 {
		t.Fatal(logs, err)
	}
	decisions, begun := 0, map[bool]int{}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		seen, last := map[string]bool{}, time.Time{}
		for line := range bytes.Lines(text) {
			var object map[string]json.RawMessage
			if err := json.Unmarshal(line, &object); err != nil || bytes.Count(line, []byte("\n")) != 1 {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
			all := true
			for _, f := range fields {
				all = all && object[f] != nil
			}
			kind, open := string(object["kind"]), string(object["accepted"]) == "null" && string(object["result_kind"]) == "null"
			if all != (kind == `"decision"` || open) || open && kind != `"begun"` {
				t.Fatalf("%s: a decision has the eight fields, a begun has two of them null, and nothing else has all: %s", name, line)
			}
			if kind == `"begun"` {
				begun[open]++
			}
			if !all || open {
				continue
			}
			decisions++
			var entry struct {
				RunID        string    `json:"run_id"`
				Timestamp    time.Time `json:"timestamp"`
				IntentSHA256 string    `json:"intent_sha256"`
				BundleSHA256 *string   `json:"bundle_sha256"`
				ResultKind   string    `json:"result_kind"`
				Accepted     *bool     `json:"accepted"`
				Mode, Policy string
			}
			if err := json.Unmarshal(line, &entry); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch {
			case seen[entry.RunID] || entry.RunID == "":
				t.Errorf("%s: run id %q", name, entry.RunID)
			case entry.Timestamp.Before(last):
				t.Errorf("%s: %s is before %s", name, entry.Timestamp, last)
			case !hash.MatchString(entry.IntentSHA256) || entry.BundleSHA256 != nil && !hash.MatchString(*entry.BundleSHA256):
				t.Errorf("%s: a hash of %s", name, line)
			case (entry.BundleSHA256 == nil) != (entry.ResultKind == "REFUSE"):
				t.Errorf("%s: a bundle of a %s", name, entry.ResultKind)
			case entry.Accepted == nil || entry.Mode == "" || entry.Policy == "":
				t.Errorf("%s: %s", name, line)
			}
			seen[entry.RunID], last = true, entry.Timestamp
		}
	}
	if decisions < 5 || begun[true] == 0 || begun[false] == 0 {
		t.Errorf("%d decisions, begun %v", decisions, begun)
	}
}
