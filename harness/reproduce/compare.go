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
	for {
		order := 0
		switch {
		case len(then) == 0 && len(now) == 0:
			return Divergence{}, false
		case len(then) == 0:
			order = 1
		case len(now) == 0:
			order = -1
		default:
			order = canon.Compare(then[0].Path, now[0].Path)
		}
		switch {
		case order < 0:
			return Divergence{Output: then[0].Path, Recorded: fileText(then[0]), Now: "missing", RecordedFile: then[0]}, true
		case order > 0:
			return Divergence{Output: now[0].Path, Recorded: "nothing", Now: fileText(now[0]), NowFile: now[0]}, true
		case then[0] != now[0]:
			return Divergence{Output: then[0].Path, Recorded: fileText(then[0]), Now: fileText(now[0]), RecordedFile: then[0], NowFile: now[0]}, true
		}
		then, now = then[1:], now[1:]
	}
}

func fileText(f kernel.FileRef) string {
	return string(f.SHA256) + " (" + strconv.Itoa(f.SizeBytes) + " bytes)"
}
