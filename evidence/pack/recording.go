package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/lazy"
)

// recordingForm is what the form of one kind of recording has of its own: model_io.json,
// and tool_io.json.
type recordingForm struct {
	file    string
	version string // the member with the version
	is      string // the version that is read here
	family  string // of the ids of its rules
	shape   string // id of the rule about what this program writes
	hashes  []string
	counts  []string // whole numbers that an interaction may have
	head    func(f *recordingFaults, m map[string]any)
	each    func(f *recordingFaults, at string, one map[string]any)
}

// RecordingError says which rule a recording breaks.
type RecordingError struct {
	Violation
	More int // number of further violations
}

// Error returns the message.
func (e *RecordingError) Error() string {
	msg := e.Rule + " " + e.Path + ": " + e.Message
	if e.More > 0 {
		msg += " (and " + strconv.Itoa(e.More) + " more)"
	}
	return msg
}

// fault is the error for a member that no recording of this version has.
func (k *recordingForm) fault(member, msg string) error {
	return &RecordingError{Violation: Violation{k.shape, At(k.file, member), msg}}
}

// read reads a recording strictly. written writes again what was read into to.
func (k *recordingForm) read(b []byte, to any, written func() ([]byte, error)) error {
	if int64(len(b)) <= MaxBytes(k.file) && canon.Crowded(b, MaxValues) {
		return ErrCrowded
	}
	doc, err := canon.Parse(b, int(MaxBytes(k.file)))
	if err != nil {
		return err
	}
	if list := SortViolations(k.faults(doc.Value())); len(list) > 0 {
		return &RecordingError{list[0], len(list) - 1}
	}
	if v := doc.Value().(map[string]any)[k.version]; v != any(k.is) {
		return k.fault(k.version, fmt.Sprintf("version %s is not read here, but %s", v, k.is))
	}
	if err := json.Unmarshal(doc.Bytes(), to); err != nil {
		return errors.New("a member has a value that a recording does not have")
	}
	again, err := written()
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return &RecordingError{Violation: Violation{"ST1", k.file, "not what is written again: canonical JSON, one LF, and no other members"}}
	}
	return nil
}

// recordingVersion is a semantic version without a suffix.
var recordingVersion = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp { return regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}$`) }}

// faults checks a decoded recording by the rules that any reader of the format can check.
func (k *recordingForm) faults(doc any) []Violation {
	f := &recordingFaults{recordingForm: k, last: -1, seen: map[string]int{}}
	m, ok := doc.(map[string]any)
	if !ok {
		f.add("1", "", "not an object")
		return f.list
	}
	version, _ := m[k.version].(string)
	f.must(recordingVersion.Get().MatchString(version), "1", "/"+k.version, "not a version such as "+k.is)
	if k.head != nil {
		k.head(f, m)
	}
	f.must(m["mode"] == ModeRecord || m["mode"] == ModeReplay, "3", "/mode", "neither record nor replay")
	list, ok := m["interactions"].([]any)
	switch {
	case !ok:
		f.add("4", "/interactions", "missing or not a list")
	case len(list) > MaxInteractions:
		f.add("4", "/interactions", "more than "+strconv.Itoa(MaxInteractions)+" interactions")
	default:
		f.interactions(list)
	}
	return f.list
}

// recordingFaults are the faults of one recording so far.
type recordingFaults struct {
	*recordingForm
	list  []Violation
	total int
	last  int64
	seen  map[string]int // what the form counts
}

func (f *recordingFaults) add(rule, pointer, msg string) {
	p := f.file
	if pointer != "" {
		p += "#" + pointer
	}
	f.list = append(f.list, Violation{f.family + rule, p, msg})
}

// must adds a violation unless a condition holds.
func (f *recordingFaults) must(holds bool, rule, pointer, msg string) {
	if !holds {
		f.add(rule, pointer, msg)
	}
}

func (f *recordingFaults) interactions(list []any) {
	for i, v := range list {
		at := "/interactions/" + strconv.Itoa(i)
		one, ok := v.(map[string]any)
		if !ok {
			f.add("4", at, "not an object")
			continue
		}
		f.position(at, i, one)
		f.each(f, at, one)
		f.response(at, one)
		for _, name := range f.counts {
			n, there := one[name]
			f.must(!there || isWhole(n, 0), "11", at+"/"+name, "not a number from 0 to 9007199254740991")
		}
	}
	few := f.total <= MaxTotalResponseBytes
	f.must(few, "11", "/interactions", "the responses have more than "+strconv.Itoa(MaxTotalResponseBytes)+" bytes together")
}

// position checks rules 5 and 9. A position that is no number breaks only rule 5.
func (f *recordingFaults) position(at string, i int, one map[string]any) {
	n, _ := one["i"].(json.Number)
	given, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		f.add("5", at+"/i", "missing or not a number")
		return
	}
	if given != int64(i) {
		f.add("5", at+"/i", fmt.Sprintf("%d is not the position %d", given, i))
	}
	f.must(given >= f.last, "9", at+"/i", "less than that of an earlier interaction")
	f.last = max(f.last, given)
}

// response checks rules 6, 7 and 11.
func (f *recordingFaults) response(at string, one map[string]any) {
	for _, name := range f.hashes {
		h, _ := one[name].(string)
		f.must(canon.ContentHash(h).Valid(), "6", at+"/"+name, `missing, or not "sha256:" and 64 lower-case hexadecimal digits`)
	}
	content, ok := one["response_content"].(string)
	if !ok {
		f.add("7", at+"/response_content", "missing or not a text")
		return
	}
	if h, _ := one["response_hash"].(string); canon.ContentHash(h).Valid() && canon.Sum([]byte(content)) != canon.ContentHash(h) {
		f.add("7", at+"/response_hash", "not the SHA-256 of response_content")
	}
	f.total += len(content)
	f.must(len(content) <= MaxResponseBytes, "11", at+"/response_content", "more than "+strconv.Itoa(MaxResponseBytes)+" bytes")
}

// isWhole says whether a decoded value is a whole number, from least to the largest that
// every reader of JSON has.
func isWhole(v any, least int64) bool {
	n, _ := v.(json.Number)
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return err == nil && i >= least && i <= canon.MaxSafeInteger
}
