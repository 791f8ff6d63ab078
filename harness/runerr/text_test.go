package runerr

import (
	"os"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// TestPlaces: an error about a text names line and column, in UTF-16 code units, and so
// does each violation. A line of JSON Lines has the line of its file.
func TestPlaces(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	fault := func(in Text) *result.RunError {
		doc, err := canon.Parse(in.Src, len(in.Src))
		if err != nil {
			return Read(in, err)
		}
		violations, err := set.Validate(specs.KindIntent, doc.Value())
		if err != nil {
			t.Fatal(err)
		}
		if len(violations) > 0 {
			return NotIntent(in, doc.Value(), violations)
		}
		_, err = kernel.ParseIntent(doc.Value())
		return Intent(in, err)
	}
	for _, c := range []struct {
		src, msg     string
		line         int // of JSON Lines
		wantL, wantC int
	}{
		{"{\n  \"goal\": \"😀\", }", `i: line 2, column 15: found a comma before }; remove it`, 0, 2, 15},
		{"{\"goal\":\"😀\",\"a\":x}", `i:7: column 18, /a: "x" is not a JSON value; use true, false, null, a number, or a string in double quotes`, 7, 7, 18},
		{"{\r\n\"goal\":\"g\"\r\n", `i: line 3, column 1: the text ends where a comma or } must stand`, 0, 3, 1},
		{"{\"goal\":\"g\",\n \"é\":1}", `i: line 2, column 6, /é: unknown member "é"`, 0, 2, 6},
		{"\n{\"goal\":\" \"}", `i: line 2, column 9, /goal: the goal is blank`, 0, 2, 9},
		{"package x\n", `i: this is not JSON; it seems to be a Rego module`, 0, 1, 1},
		{"[{\"goal\":\"g\"}]", `i: this is not an intent; it seems to be a list of intents`, 0, 1, 1},
		{"{\"name\":\"p\",\"extends\":\"strict\"}", `i: this is not an intent; it seems to be a policy profile`, 0, 1, 1},
		{"\n [] ", `i: line 2, column 2: must be an object, not a list`, 0, 2, 2},
	} {
		in := Text{Name: "i", Src: []byte(c.src), Line: c.line}
		if c.line > 0 {
			in.Name = "i:7"
		}
		if e := fault(in); e.Message != c.msg || e.Details["line"] != c.wantL || e.Details["column"] != c.wantC {
			t.Errorf("%q: got %s %v", c.src, e.Message, e.Details)
		}
	}
	e := fault(Text{Name: "i", Src: []byte("{\"goal\":\"g\",\n \"x\":1,\n  \"y\":2}")})
	want := `{"code":"RUN_E003","details":{"column":6,"file":"i","hint":"fiador schema intent prints what an intent may hold","line":2,"pointer":"/x",` +
		`"violations":[{"column":6,"line":2,"message":"unknown member \"x\"","pointer":"/x"},{"column":7,"line":3,"message":"unknown member \"y\"","pointer":"/y"}]},` +
		`"message":"i: line 2, column 6, /x: unknown member \"x\" (and 1 more)"}` + "\n"
	if got := string(e.Line()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWrongWords: a document of another kind is named as such, without the violations of the
// schema that it never meant. A missing member names the misspelt one beside it.
func TestWrongWords(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		src, hint string
		listed    bool
	}{
		{`{"name":"p","extends":"default"}`, "give its folder to --policy; fiador policy check checks it", false},
		{`{"goal":"g","actions":[{"kind":"write","path":"a","contents":"x"}]}`, `did you mean "content" by "contents"? fiador schema intent prints what an intent may hold`, true},
		{`{"goal":"g","actions":[{"kind":"write","path":"a"}],"contxt":1}`, "fiador schema intent prints what an intent may hold", true},
	} {
		doc, err := canon.Parse([]byte(c.src), len(c.src))
		if err != nil {
			t.Fatal(err)
		}
		violations, err := set.Validate(specs.KindIntent, doc.Value())
		if err != nil {
			t.Fatal(err)
		}
		e := NotIntent(Text{Name: "i", Src: []byte(c.src)}, doc.Value(), violations)
		if listed := e.Violations() != nil; e.Hint != c.hint || listed != c.listed {
			t.Errorf("%s: %s, hint %q, violations listed: %v", c.src, e.Message, e.Hint, listed)
		}
	}
}

// TestNearFile: a name that is not there leads to the one most like it, and a folder that is
// there, missing or has nothing like it leads nowhere.
func TestNearFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("sub/intents", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("intent.json", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"intnet.json": `did you mean "intent.json"? `, "sub/intets/": `did you mean "sub/intents"? `, "./intnet.json": `did you mean "intent.json"? `,
		"intent.json": "", "other": "", "no/intents": "", "sub/": "", "": "",
	} {
		if got := NearFile(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
