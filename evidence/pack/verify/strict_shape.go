package verify

import (
	"errors"
	"slices"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/specs"
)

// The strict level reads a file in three steps. specs.Walk checks it by its schema. A
// decoder refuses the members that this program does not know. The other properties of
// this program's files, which the schema does not describe, are checked by hand.

var (
	runDecoder      canon.Decoder[result.RunResult]
	bundleDecoder   canon.Decoder[kernel.Bundle]
	evidenceDecoder canon.Decoder[pack.Evidence]
	patchDecoder    canon.Decoder[pack.Patch]
	runnerDecoder   canon.Decoder[pack.Runner]
	modelDecoder    canon.Decoder[pack.ModelIO]
	toolDecoder     canon.Decoder[pack.ToolIO]
)

// readFiles reads every file that has its shape.
func (s *strictLevel) readFiles() {
	s.run = shaped(s, "ST2", pack.RunFile, specs.KindRunResult, &runDecoder, nil)
	s.bundle = shaped(s, "ST4", pack.BundleFile, specs.KindBundle, &bundleDecoder, nil)
	s.evidence = shaped(s, "ST7", pack.EvidenceFile, specs.KindPackEvidence, &evidenceDecoder, s.ownEvidence)
	s.patch = shaped(s, "ST8", pack.PatchFile, specs.KindPackPatch, &patchDecoder, s.ownPatch)
	s.runner = shaped(s, "ST9", pack.RunnerFile, specs.KindPackRunner, &runnerDecoder, s.ownRunner)
	s.model = shaped(s, "ST10", pack.ModelFile, specs.KindModelIO, &modelDecoder, func(m *pack.ModelIO) {
		s.ownText("ST10", pack.ModelFile+"#/model_io_schema_version", m.Version, pack.ModelVersion)
	})
	s.tool = shaped(s, "ST13", pack.ToolFile, specs.KindToolIO, &toolDecoder, func(t *pack.ToolIO) {
		s.ownText("ST13", pack.ToolFile+"#/tool_io_schema_version", t.Version, pack.ToolVersion)
	})
	if s.run != nil && s.run.Execution != nil {
		s.outputs = make(map[string]*kernel.FileRef, len(s.run.Execution.Outputs))
		for i := range s.run.Execution.Outputs {
			f := &s.run.Execution.Outputs[i]
			s.outputs[f.Path] = f
		}
	}
}

// shaped returns a file as a value of its type, or nil if the pack does not have it in
// its shape.
func shaped[T any](s *strictLevel, rule, file string, kind specs.Kind, d *canon.Decoder[T], own func(*T)) *T {
	doc := s.doc(file)
	if doc == nil || doc.value == nil {
		return nil
	}
	before := s.counts[rule]
	faults, more := specs.Walk(kind, doc.value, maxOfRule+1)
	for _, f := range faults {
		s.fault(rule, file+"#"+f.Pointer, "%s", f.Msg)
	}
	s.unnamed += more
	if s.counts[rule] > before {
		return nil
	}
	v, err := d.Decode(doc.value)
	if unread, ok := errors.AsType[*canon.DecodeError](err); ok {
		s.fault(rule, file+"#"+unread.Pointer, "%s", unread.Msg)
		return nil
	}
	if own != nil {
		own(v)
	}
	if s.counts[rule] > before {
		return nil
	}
	return v
}

// ownText checks that a text is one that this program writes.
func (s *strictLevel) ownText(rule, path, text string, of ...string) {
	s.must(slices.Contains(of, text), rule, path, "not one of %s", listed(of))
}

// ownTime checks that a time exists in the calendar.
func (s *strictLevel) ownTime(rule, path, text string) {
	s.must(isMoment(text), rule, path, "not a time in UTC with milliseconds")
}

// ownEmpty checks that a list is empty, as this program leaves it.
func (s *strictLevel) ownEmpty(rule, path string, n int) {
	s.must(n == 0, rule, path, "more than 0 elements")
}

// moment returns the time of a text, if it exists in the calendar and is in UTC with
// milliseconds.
func moment(s string) (time.Time, bool) {
	t, err := time.Parse(ledger.TimeFormat, s)
	return t, err == nil && t.Format(ledger.TimeFormat) == s
}

func isMoment(s string) bool { _, ok := moment(s); return ok }
