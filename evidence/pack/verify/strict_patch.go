package verify

import (
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// The shape of patch.json is exactly that of [Patch] (ST8). The strict level does not
// repeat rules of the structural level: forbidden paths are PS3 to PS5, forbidden
// contents PS6, their sum PS7, the order of operations PS8.

// ownPatch compares the members of each operation with the members of its kind.
func (s *strictLevel) ownPatch(p *pack.Patch) {
	for i, o := range p.Operations {
		leaves := o.Op != pack.OpDelete
		for _, m := range []struct {
			name      string
			there     bool
			must, may bool
		}{
			{"content", o.Content != nil, leaves, leaves},
			{"encoding", o.Encoding != "", leaves, leaves},
			{"before_sha256", o.BeforeSHA256 != "", o.Op == pack.OpModify, o.Op != pack.OpCreate},
			{"before_tree_sha256", o.BeforeTreeSHA256 != "", false, o.Op == pack.OpDelete && o.BeforeSHA256 == ""},
		} {
			switch {
			case m.must && !m.there:
				s.fault("ST8", opAt(i, m.name), "missing")
			case m.there && !m.may:
				s.fault("ST8", opAt(i, m.name), "unknown member %s", pack.Quoted(m.name))
			}
		}
	}
}

// checkPatch checks ST8: the patch has the changes that the evidence has.
//
//   - its source is the bundle
//   - its operations are one to one with action_results, and do what these say
//   - the hash of a decoded content is that of the result, size_bytes its length, and
//     that of the output; a delete has size 0 and is not executable
//   - a modify has before_sha256; a delete has it if it was a file, and can have
//     before_tree_sha256 otherwise; a create has neither
//   - contents are base64 only where canonical JSON cannot hold them, or it is shorter, and
//     then they are
//   - no path is one that the policy lets nobody write, and none clashes with another
//   - deletes have order 0, and everything else order 1, if something stands beneath what
//     is deleted; without that every order is 0
//   - a file that the plan writes, and nothing has run, is executable as the plan says
func (s *strictLevel) checkPatch() {
	p := s.patch
	if p == nil {
		return
	}
	if s.bundle != nil && p.SourceProposalID != s.bundle.ID {
		s.fault("ST8", pack.At(pack.PatchFile, "source_proposal_id"), "not the id of the bundle, %s", s.bundle.ID)
	}
	s.must(s.run == nil || s.run.Bundle == nil || p.SourceProposalHash == s.run.Bundle.SHA256, "ST8", pack.PatchFile+"#/source_proposal_hash", "not the hash of the bundle")
	results := map[string]pack.ActionResult{}
	if s.evidence != nil {
		for _, a := range s.evidence.ActionResults {
			results[a.Path] = a
		}
	}
	for i, o := range p.Operations {
		s.checkOperation(i, o)
		if s.evidence == nil {
			continue
		}
		a, known := results[o.Path]
		delete(results, o.Path)
		switch {
		case !known:
			s.fault("ST8", opAt(i, "path"), "%s is not in the evidence", pack.Quoted(o.Path))
		case a.Action != o.Op:
			s.fault("ST8", opAt(i, "op"), "%s, and the evidence has %s", o.Op, a.Action)
		default:
			s.checkContent(i, o, a)
		}
	}
	if s.evidence != nil {
		for i, a := range s.evidence.ActionResults {
			if _, left := results[a.Path]; left {
				s.fault("ST8", pack.At(pack.EvidenceFile, "action_results", strconv.Itoa(i)), "the patch does not have %s", pack.Quoted(a.Path))
			}
		}
	}
	s.checkOrders(p.Operations)
	s.checkClashes(p.Operations)
}

// opAt returns the path of a value in an operation.
func opAt(i int, tokens ...string) string {
	return pack.At(pack.PatchFile, append([]string{"operations", strconv.Itoa(i)}, tokens...)...)
}

// checkOperation checks one operation by itself and by the policy.
func (s *strictLevel) checkOperation(i int, o pack.Operation) {
	if o.Op == pack.OpDelete && (o.SizeBytes != 0 || o.Executable) {
		s.fault("ST8", opAt(i), "what is deleted has no size and cannot be executed")
	}
	if s.run == nil {
		return
	}
	refuses := s.paths.unwritable
	if o.Op == pack.OpDelete {
		refuses = s.paths.unremovable
	}
	if what := refuses(o.Path, s.run.Policy.AllowedWriteRoots); what != "" {
		s.fault("ST8", opAt(i, "path"), "%s %s", pack.Quoted(o.Path), what)
	}
}

// checkContent compares the content of an operation with the evidence.
func (s *strictLevel) checkContent(i int, o pack.Operation, a pack.ActionResult) {
	if o.Op == pack.OpDelete {
		return
	}
	sum, size, ok := s.contentSum(o)
	switch {
	case !ok:
		s.fault("ST8", opAt(i, "content"), "not base64")
		return
	case sum != a.SHA256:
		s.fault("ST8", opAt(i, "content"), "not the file that the evidence has the hash of")
	}
	if size != o.SizeBytes {
		s.fault("ST8", opAt(i, "size_bytes"), "%d, and the content has %d bytes", o.SizeBytes, size)
	}
	if f, there := s.outputs[o.Path]; there && int64(f.SizeBytes) != size {
		s.fault("ST8", opAt(i, "size_bytes"), "%d, and the output of the execution has %d bytes", size, f.SizeBytes)
	}
	switch {
	case o.Encoding == "base64" && isPlain(*o.Content):
		s.fault("ST8", opAt(i, "encoding"), "base64 of what stands as text")
	case o.Encoding == "utf8" && !pack.PlainText(*o.Content) && strings.IndexByte(*o.Content, 0) < 0: // PS6 reports this
		s.fault("ST8", opAt(i, "encoding"), "text of what is shorter as base64")
	}
	if a := s.plan.last[o.Path]; a != nil && s.plan.whole && s.plan.files == len(s.plan.actions) && o.Executable != a.output.Executable {
		s.fault("ST8", opAt(i, "executable"), "%t, and the plan writes it otherwise", o.Executable)
	}
}

// contentSum returns the hash and the length of the content of an operation's file. Text
// that the plan writes there was hashed with the bundle.
func (s *strictLevel) contentSum(o pack.Operation) (sum canon.ContentHash, size int64, ok bool) {
	text := *o.Content
	if o.Encoding == "utf8" {
		if a := s.plan.last[o.Path]; a != nil && s.plan.whole && a.output.Encoding == "utf8" && a.output.Content == text {
			return canon.ContentHash("sha256:" + a.output.ContentHash), int64(len(text)), true
		}
		s.buffer = append(s.buffer[:0], text...)
		return canon.Sum(s.buffer), int64(len(text)), true
	}
	b, err := kernel.DecodeBase64(text)
	return canon.Sum(b), int64(len(b)), err == nil
}

// checkOrders compares the orders with the result of InOrder.
func (s *strictLevel) checkOrders(list []pack.Operation) {
	apart := 0
	if pack.MakesRoom(list) {
		apart = 1
	}
	for i, o := range list {
		want := apart
		if o.Op == pack.OpDelete {
			want = 0
		}
		if o.Order != want {
			s.fault("ST8", opAt(i, "order"), "%d where %d follows", o.Order, want)
		}
	}
}

// checkClashes compares the paths that exist after the patch with each other.
func (s *strictLevel) checkClashes(list []pack.Operation) {
	var paths []string
	var positions []int
	for i, o := range list {
		if o.Op != pack.OpDelete {
			paths, positions = append(paths, o.Path), append(positions, i)
		}
	}
	for _, c := range s.paths.clashes(paths) {
		s.fault("ST8", opAt(positions[c.index], "path"), "%s %s %s", pack.Quoted(paths[c.index]), c.how, pack.Quoted(c.with))
	}
}

// isPlain says whether base64 encodes a content that is written as text (see File).
func isPlain(content string) bool {
	b, _ := kernel.DecodeBase64(content)
	return pack.PlainText(string(b))
}
