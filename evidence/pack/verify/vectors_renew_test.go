package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/packtest"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// renewVectors gives every run.json of the base and the rich packs the current version
// of RunResults and the digests of the built-in policy. It updates the values that
// follow: hashes, ledger lines, receipts, and statements in vectors. A second call
// changes nothing.
func renewVectors(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob(vectorDir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	provenances := builtinProvenances(t)
	texts, changes := map[string]string{}, []string(nil)
	for _, path := range append(paths, "testdata/rich.json") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
		var f struct {
			Packs map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		for _, files := range f.Packs {
			changes = append(changes, renewPack(t, files, provenances)...)
		}
	}
	renew := strings.NewReplacer(changes...)
	payload := regexp.MustCompile(`"payload":"[A-Za-z0-9+/=]+"`)
	for path, text := range texts {
		now := payload.ReplaceAllStringFunc(renew.Replace(text), func(member string) string {
			quoted := strings.TrimPrefix(member, `"payload":`)
			statement, err := base64.StdEncoding.DecodeString(strings.Trim(quoted, `"`))
			if err != nil {
				return member
			}
			return `"payload":"` + base64.StdEncoding.EncodeToString([]byte(renew.Replace(string(statement)))) + `"`
		})
		if now == text {
			continue
		}
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// renewPack returns the texts to replace, with their replacements.
func renewPack(t *testing.T, files map[string]json.RawMessage, provenances map[string]json.RawMessage) (changes []string) {
	t.Helper()
	var told struct {
		Policy     struct{ Name string }
		Provenance json.RawMessage `json:"policy_provenance"`
	}
	if err := json.Unmarshal(files[pack.RunFile], &told); err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`"run_schema_version":"[0-9.]+"`)
	run := version.ReplaceAll(files[pack.RunFile], []byte(`"run_schema_version":"`+result.SchemaVersion+`"`))
	provenance := told.Provenance
	current := provenances[told.Policy.Name]
	if current == nil {
		current = withModules(t, provenance, provenances["strict"])
	}
	run, provenance = bytes.Replace(run, provenance, current, 1), current
	if bytes.Equal(run, files[pack.RunFile]) {
		return nil
	}
	old, now := hashesOf(t, files[pack.RunFile]), hashesOf(t, run)
	var records []ledger.Record
	var lines []json.RawMessage
	if files[pack.LedgerFile] != nil {
		if err := json.Unmarshal(files[pack.LedgerFile], &lines); err != nil {
			t.Fatal(err)
		}
		sealed := sign.Sealed(files[pack.LedgerFile])
		for _, line := range lines {
			l, err := sign.ReadLine(line, sealed)
			if err != nil {
				t.Fatal(err)
			}
			r, err := ledger.ParseRecord(l.Entry)
			if err != nil {
				t.Fatal(err)
			}
			r.PolicySHA256 = canon.Sum(append(bytes.Clone(provenance), '\n'))
			if r.Kind == ledger.KindDecision {
				r.ResultSHA256, r.CanonicalSHA256 = now[0], now[1]
			}
			records = append(records, r)
		}
		var meta struct{ Receipt json.RawMessage }
		if err := json.Unmarshal(files[pack.MetaFile], &meta); err != nil {
			t.Fatal(err)
		}
		again, receipt := recordAgain(t, records, sealed, bytes.Contains(meta.Receipt, []byte("/ack")))
		for i, line := range lines {
			changes = append(changes, string(line), again[i])
		}
		changes = append(changes, string(meta.Receipt), strconv.QuoteToASCII(receipt))
	}
	changes = append(changes, string(files[pack.RunFile]), string(run))
	for i := range old {
		changes = append(changes, old[i].Hex(), now[i].Hex())
	}
	return changes
}

// withModules returns the provenance of a profile that is not built in, with the built-in
// modules of another provenance in place of its own.
func withModules(t *testing.T, provenance, builtin json.RawMessage) json.RawMessage {
	t.Helper()
	var p, from result.Provenance
	if err := errors.Join(json.Unmarshal(provenance, &p), json.Unmarshal(builtin, &from)); err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(p.Modules, func(m result.ModuleDigest) bool { return strings.HasPrefix(m.Name, "builtin/") })
	p.Modules, p.CapabilitiesSHA256 = append(from.Modules, others...), from.CapabilitiesSHA256
	b, err := canon.Canonical(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// builtinProvenances returns the policy_provenance of every built-in profile, by name.
func builtinProvenances(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	layer, err := policy.LoadLayer(policy.Folder{FS: profiles.FS(), Dir: "builtin"}, policy.Builtin, policy.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]json.RawMessage{}
	options := builtin(t)
	for _, name := range []string{"strict", "default", "dev"} {
		p, err := policy.Freeze(*options.Whole(name), []policy.Layer{layer}).Provenance()
		if err != nil {
			t.Fatal(err)
		}
		if list[name], err = canon.Canonical(p); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// recordAgain puts records into a new ledger. It returns their lines, and the receipt of
// the last, which is its ack if it is only promised.
func recordAgain(t *testing.T, records []ledger.Record, sealed, promised bool) (lines []string, receipt string) {
	t.Helper()
	key := packtest.Signer(t, "vectors.fiador.example/packs")
	l := &packtest.Log{T: t, Key: key}
	l.Add(ledger.Record{
		Kind: ledger.KindGenesis, Timestamp: records[0].Timestamp, Format: ledger.Format, Origin: key.Origin(), Key: key.Verifier().String(),
	})
	for _, r := range records {
		line := l.Add(r)
		if !sealed {
			line = packtest.Unsealed(t, line)
		}
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	if promised {
		return lines, l.Ack(int64(len(records)))
	}
	return lines, l.Prove(int64(len(records)))
}

// hashesOf returns the hash of the file run.json, and the hash of its canonical subset.
func hashesOf(t *testing.T, run json.RawMessage) [2]canon.ContentHash {
	t.Helper()
	doc, err := canon.Parse(run, len(run))
	if err != nil {
		t.Fatal(err)
	}
	subset, err := result.Digest(doc.Value().(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	return [2]canon.ContentHash{canon.Sum(append(bytes.Clone(doc.Bytes()), '\n')), subset}
}
