package reproduce

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Divergence is the first place at which a run differs from its pack. One of Input,
// Output and File names the place, or Pointer alone does.
type Divergence struct {
	Input   string // path of an input; other differences may follow from this one
	Output  string // path of an output
	File    string // name of a file of the pack other than run.json
	Pointer string // JSON Pointer into File; if File is empty, into run.json
	About   string // subject of that place in File: the path of a file, or an action

	Recorded, Now string // the value on each side, shortened

	// The file on each side, for an input or output that differs, is missing or is
	// extra. An empty path means no file. Both are empty if only one side deletes the
	// file, or has it executable.
	RecordedFile, NowFile kernel.FileRef
}

// Place returns the place alone, without the values.
func (d Divergence) Place() Divergence {
	d.About, d.Recorded, d.Now, d.RecordedFile, d.NowFile = "", "", "", kernel.FileRef{}, kernel.FileRef{}
	return d
}

// compare finds the first place at which a run differs from the pack's run.
func (o *Original) compare(rep harness.Report) (Divergence, bool, error) {
	doc, err := canon.Parse(rep.Bytes, result.MaxBytes)
	if err != nil {
		return Divergence{}, false, runerr.Internal("a RunResult could not be read", err)
	}
	obj, ok := doc.Value().(map[string]any)
	if !ok {
		return Divergence{}, false, runerr.Internal("a RunResult is no object", nil)
	}
	then, now := o.Result.Execution, rep.Result.Execution
	if then != nil && now != nil {
		if d, differs := firstFile(then.Inputs, now.Inputs); differs {
			d.Input, d.Output = d.Output, ""
			return d, true, nil
		}
	}
	if d, differs := result.Compare(o.subset, result.Subset(obj)); differs {
		return o.divergence(d, rep.Result), true, nil
	}
	if then, now := o.pack.File(pack.BundleFile), rep.Decision.BundleBytes; !bytes.Equal(then, now) {
		return Divergence{File: pack.BundleFile, Recorded: string(canon.Sum(then)), Now: string(canon.Sum(now))}, true, nil
	}
	d, differs := o.compareObserved(rep)
	return d, differs, nil
}

// divergence converts a difference of the canonical subsets: to an output, by its path,
// or to a pointer.
func (o *Original) divergence(d result.Difference, now result.RunResult) Divergence {
	then := o.Result
	if strings.HasPrefix(d.Pointer, "/execution/outputs") && then.Execution != nil && now.Execution != nil {
		if output, differs := firstFile(then.Execution.Outputs, now.Execution.Outputs); differs {
			return output
		}
	}
	v := Divergence{Pointer: d.Pointer, Recorded: result.ValueText(d.A, d.AbsentInA), Now: result.ValueText(d.B, d.AbsentInB)}
	if d.Pointer == "/decision/accepted" {
		v.Recorded, v.Now = withReasons(v.Recorded, then.Decision.Reasons), withReasons(v.Now, now.Decision.Reasons)
	}
	return v
}

func withReasons(value string, reasons []string) string {
	if len(reasons) == 0 {
		return value
	}
	return value + " (" + canon.Cut(strings.Join(reasons, ", ")) + ")"
}

// firstFile returns the first file, by path, that differs between the lists, as an
// output.
func firstFile(then, now []kernel.FileRef) (Divergence, bool) {
	_, a, b := firstPair(then, now, func(f kernel.FileRef) string { return f.Path })
	switch {
	case a == nil && b == nil:
		return Divergence{}, false
	case b == nil:
		return Divergence{Output: a.Path, Recorded: fileText(*a), Now: "missing", RecordedFile: *a}, true
	case a == nil:
		return Divergence{Output: b.Path, Recorded: "nothing", Now: fileText(*b), NowFile: *b}, true
	}
	return Divergence{Output: a.Path, Recorded: fileText(*a), Now: fileText(*b), RecordedFile: *a, NowFile: *b}, true
}

// firstPair returns the first place at which two lists differ, which are sorted by name, and
// the element of that name in each list. It returns nil for a list that has none of that
// name, and nil twice for equal lists.
func firstPair[T comparable](then, now []T, name func(T) string) (at int, a, b *T) {
	for ; at < len(then) || at < len(now); at++ {
		if at < len(then) {
			a = &then[at]
		}
		if at < len(now) {
			b = &now[at]
		}
		switch {
		case a == nil || b == nil:
			return at, a, b
		case canon.Compare(name(*a), name(*b)) < 0:
			return at, a, nil
		case canon.Compare(name(*a), name(*b)) > 0:
			return at, nil, b
		case *a != *b:
			return at, a, b
		}
		a, b = nil, nil
	}
	return at, nil, nil
}

func fileText(f kernel.FileRef) string {
	return string(f.SHA256) + " (" + strconv.Itoa(f.SizeBytes) + " bytes)"
}
