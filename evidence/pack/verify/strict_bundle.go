package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// checkBundle checks ST4: the kernel makes this bundle from the plan in it. checkBundle
// makes the bundle again and names every value that differs. It also checks that no file
// has a path that every policy denies, and that run.json names this bundle.
func (s *strictLevel) checkBundle() {
	b := s.bundle
	if b == nil {
		return
	}
	s.remake(b)
	if s.run == nil || s.run.Bundle == nil {
		return
	}
	s.must(s.run.Bundle.BundleID == b.ID, "ST4", pack.RunFile+"#/bundle/bundle_id", "not the id of the bundle, %s", b.ID)
	s.must(s.run.KernelVersion == b.KernelVersion, "ST4", pack.BundleFile+"#/kernel_version", "not the kernel of run.json, %s", pack.Quoted(s.run.KernelVersion))
	asked := []string{}
	for _, q := range b.UnresolvedQuestions {
		asked = append(asked, q.Text)
	}
	switch kind := s.run.KernelResultKind; {
	case (kind == kernel.OutcomeBundle) != (b.Status == "complete"):
		s.fault("ST4", pack.At(pack.BundleFile, "status"), "%s is not the status of a bundle of a %s", b.Status, kind)
	case kind == kernel.OutcomeClarify && !slices.Equal(asked, s.run.ClarifyQuestions):
		s.fault("ST4", pack.At(pack.RunFile, "clarify_questions"), "not the texts of the bundle's open questions")
	}
}

// remake makes the bundle again, compares the two, and reads the plan.
func (s *strictLevel) remake(b *kernel.Bundle) {
	again, err := kernel.Rebuild(b)
	if err != nil {
		s.fault("ST4", pack.BundleFile, "no bundle can be made of it: %s", err)
		return
	}
	w := differences{level: s}
	if d := s.doc(pack.BundleFile); !bytes.Equal(d.raw, again.Bytes) {
		doc, err := canon.Parse(again.Bytes, len(again.Bytes))
		if err != nil {
			s.fault("ST4", pack.BundleFile, "no bundle can be made of it: %s", err)
			return
		}
		w.compare("", d.value, doc.Value())
	}
	for _, e := range again.Refused {
		s.fault("ST4", pack.BundleFile+"#"+e.Pointer, "no intent has this: %s", e.Msg)
	}
	s.readPlan(b, again)
	s.plan.whole = s.checkFilePaths(b) && !w.plan && len(again.Refused) == 0
}

// differences names each value of bundle.json that differs from the value that follows.
type differences struct {
	level *strictLevel
	n     int
	plan  bool // a value of the plan differs
}

// compare compares a value with the value that follows. The id of an object follows from
// its other members, so it is compared only if none of these differs.
func (w *differences) compare(pointer string, is, follows any) {
	switch f := follows.(type) {
	case map[string]any:
		m, _ := is.(map[string]any)
		before := w.n
		for _, name := range canon.Names(f, m) {
			if name != "id" {
				w.member(pointer, name, m, f)
			}
		}
		if w.n == before {
			w.member(pointer, "id", m, f)
		}
	case []any:
		list, _ := is.([]any)
		if len(list) < len(f) {
			w.differ(pointer, "%d elements where %d follow", len(list), len(f))
		}
		for i, one := range list {
			here := pointer + "/" + strconv.Itoa(i)
			if i < len(f) {
				w.compare(here, one, f[i])
			} else {
				w.differ(here, "does not follow")
			}
		}
	default:
		if !sameJSON(is, f) {
			w.differ(pointer, "%s where %s follows", shown(is), shown(f))
		}
	}
}

// member compares a member of an object with the value that follows, if there is one.
func (w *differences) member(pointer, name string, is, follows map[string]any) {
	pointer = canon.Pointer(pointer, name)
	x, there := is[name]
	y, due := follows[name]
	switch {
	case there && due:
		w.compare(pointer, x, y)
	case there:
		w.differ(pointer, "does not follow")
	case due:
		w.differ(pointer, "missing")
	}
}

func (w *differences) differ(pointer, format string, args ...any) {
	w.n++
	w.plan = w.plan || strings.HasPrefix(pointer, "/outputs") && !strings.HasSuffix(pointer, "/confidence")
	w.level.fault("ST4", pack.BundleFile+"#"+pointer, format, args...)
}

// shown returns a value in the form for messages.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return pack.Quoted(v)
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}
