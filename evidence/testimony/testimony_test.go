package testimony_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs/specstest"
)

// TestPolicySetIsTheGate: a policy set gives back its gate to the byte, for every built-in
// profile and for modules that no JSON text can hold.
func TestPolicySetIsTheGate(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	for _, name := range profiles.Names() {
		gate := harnesstest.OpenBuiltin(t, set, name)
		gate.Layers = append(slices.Clone(gate.Layers), policy.Layer{Package: "gate.org.x", Modules: []policy.Module{
			{Name: "org/x/a.rego", Source: []byte("# \xff\x00"), File: "/somewhere"}, {Name: "org/x/b.rego", Source: []byte("# \ufdd0")}, {Name: "org/x/c.rego"},
		}})
		text, err := testimony.PolicyBlob(policy.Freeze(gate.Profile, gate.Layers), gate.Base, gate.Builtin)
		if err != nil {
			t.Fatal(err)
		}
		specstest.Valid(t, set, "evidence", text)
		read := func(ledger.Blob) ([]byte, error) { return text, nil }
		back, err := testimony.ReadPolicySet(read, set, ledger.Blob{SHA256: canon.Sum(text), Size: int64(len(text))})
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range back.Layers {
			want := gate.Layers[i]
			if l.Package != want.Package || l.Embedded != want.Embedded || len(l.Modules) != len(want.Modules) {
				t.Errorf("layer %+v", l)
			}
			for j, m := range l.Modules {
				if m.Name != want.Modules[j].Name || !bytes.Equal(m.Source, want.Modules[j].Source) || m.File != "" {
					t.Errorf("module %+v", m)
				}
			}
		}
		a, _, errA := canon.Artifact(gate.Profile)
		b, _, errB := canon.Artifact(back.Profile)
		if !bytes.Equal(a, b) || errors.Join(errA, errB) != nil || back.Base != name || !back.Builtin {
			t.Errorf("profile %s, want %s", b, a)
		}
	}
}

// TestReadGivesWhatWasRecorded: the evidence of a decision gives back its texts and
// values. It makes the same blob and the same record again.
func TestReadGivesWhatWasRecorded(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	gate := harnesstest.OpenBuiltin(t, set, "default")
	m := harnesstest.NewMemory()
	state := "blake3:" + strings.Repeat("0", 64)
	for src, outcome := range map[string]kernel.Outcome{
		intents.AllowedHere: kernel.OutcomeBundle, intents.AskedHere: kernel.OutcomeClarify, intents.RefusedHere: kernel.OutcomeRefuse,
	} {
		rep, rec := m.Decided(t, set, gate, src)
		rec.Work = &ledger.Work{ItemID: "item", Before: state, After: state, Receipt: state}
		told, err := testimony.Read(m.Blob, set, rec)
		if err != nil {
			t.Fatal(err)
		}
		decision, _, errDecision := canon.Artifact(testimony.DocumentOf(rep.Decision))
		blob, errBlob := told.Blob()
		again, errRecord := told.Record(rec.Evidence)
		if err := errors.Join(errDecision, errBlob, errRecord); err != nil {
			t.Fatal(err)
		}
		again.Timestamp, again.ClockBehindMS = rec.Timestamp, rec.ClockBehindMS
		if string(told.Intent) != src || !bytes.Equal(told.Result, rep.Bytes) || !bytes.Equal(told.Decision, decision) ||
			told.Answer.Outcome != outcome || !slices.Equal(told.Answer.Reasons, rep.Decision.Reasons) || told.Canonical != rec.CanonicalSHA256 {
			t.Errorf("%s: %+v", src, told)
		}
		specstest.Valid(t, set, "evidence", blob)
		if !bytes.Equal(blob, m.Blobs[rec.Evidence.SHA256]) || !again.SameRun(rec) || again.InputSHA256 != canon.Sum(told.Input) {
			t.Errorf("%s: %s\n%+v", src, blob, again)
		}
	}
}

// TestBlobsThatCannotBeRead: the fault of a blob that is missing or is not the recorded
// one, and the error of a blob that cannot be read.
func TestBlobsThatCannotBeRead(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	_, rec := m.Decided(t, set, harnesstest.OpenBuiltin(t, set, "strict"), intents.Simple)
	told, err := testimony.Read(m.Blob, set, rec)
	if err != nil {
		t.Fatal(err)
	}
	text := m.Blobs[rec.Evidence.SHA256]
	flipped := bytes.Clone(text)
	flipped[len(text)/2] ^= 1
	broken := errors.New("input/output error")
	for name, tc := range map[string]struct {
		text   []byte
		err    error
		status string // of a Fault; empty: a ReadError
	}{
		"missing":      {nil, fmt.Errorf("open: %w", fs.ErrNotExist), testimony.StatusMissing},
		"unreadable":   {nil, broken, ""},
		"empty":        {[]byte{}, nil, testimony.StatusCorrupt},
		"shorter":      {text[:len(text)-1], nil, testimony.StatusCorrupt},
		"longer":       {append(bytes.Clone(text), '\n'), nil, testimony.StatusCorrupt},
		"another byte": {flipped, nil, testimony.StatusCorrupt},
	} {
		read := func(ledger.Blob) ([]byte, error) { return tc.text, tc.err }
		_, errDecision := testimony.Read(read, set, rec)
		_, errSet := testimony.ReadPolicySet(read, set, told.Policy)
		for _, err := range []error{errDecision, errSet} {
			var f *testimony.Fault
			var re *testimony.ReadError
			switch {
			case tc.status == "" && (!errors.As(err, &re) || !errors.Is(err, broken)):
				t.Errorf("%s: %v", name, err)
			case tc.status != "" && (!errors.As(err, &f) || f.Status != tc.status):
				t.Errorf("%s: %v, want %s", name, err, tc.status)
			}
		}
	}
	// A blob of one kind is not a blob of the other kind, even if its name fits its bytes.
	var f *testimony.Fault
	if _, err := testimony.ReadPolicySet(m.Blob, set, rec.Evidence); !errors.As(err, &f) || f.Difference.Pointer != "/kind" {
		t.Errorf("a decision as a policy set: %v", err)
	}
	rec.Evidence = told.Policy
	if _, err := testimony.Read(m.Blob, set, rec); !errors.As(err, &f) || f.Difference.Pointer != "/kind" {
		t.Errorf("a policy set as a decision: %v", err)
	}
	rec.Evidence.Size = testimony.MaxBlobBytes + 1
	if _, err := testimony.Read(func(ledger.Blob) ([]byte, error) { t.Error("a blob over the limit is read"); return nil, nil }, set, rec); !errors.As(err, &f) || f.Status != testimony.StatusCorrupt {
		t.Errorf("a blob over the limit: %v", err)
	}
}

// TestFirstDifference: the first place at which two texts differ, or the whole document if
// one of them is no JSON.
func TestFirstDifference(t *testing.T) {
	for _, tc := range []struct{ a, b, pointer string }{
		{`{"a":1,"b":[1,2]}`, `{"a":1,"b":[1,3]}`, "/b/1"},
		{`{"a":1,"b":2}`, `{"a":2,"b":3}`, "/a"},
		{`{"a":1}`, `{"a":1,"c":1}`, "/c"},
		{`{"a":1}`, `{"a":1`, ""},
	} {
		if d := testimony.FirstDifference([]byte(tc.a), []byte(tc.b)); d.Pointer != tc.pointer {
			t.Errorf("%s and %s: %+v", tc.a, tc.b, d)
		}
	}
}

// TestParse: a text of evidence is canonical JSON and one LF, within the limits.
func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		"{\"a\":1}\n": true, "{\"a\":1}": false, "{\"a\":1}\n\n": false, "{\"a\": 1}\n": false, "{\"b\":1,\"a\":1}\n": false, "": false,
		"[" + strings.Repeat("1,", 30) + "1]\n": true, "[" + strings.Repeat("1,", 31) + "1]\n": false,
	} {
		if _, err := testimony.Parse([]byte(text), 64); (err == nil) != ok {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	many := "[" + strings.Repeat("1,", testimony.MaxValues) + "1]\n"
	if _, err := testimony.Parse([]byte(many), len(many)); err == nil || !strings.Contains(err.Error(), "values") {
		t.Errorf("too many values: %v", err)
	}
}
