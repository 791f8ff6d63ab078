package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/report/page"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
)

func write(t testing.TB, r page.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// said returns a report in which others said s wherever they can say something.
func said(s string) page.Report {
	r := realistic()
	object := map[string]any{s: s, "list": []any{s, map[string]any{s: nil}}}
	unit := func(i int, kind grade.UnitKind) *grade.Unit {
		return &grade.Unit{Kind: kind, Tool: s, Place: fmt.Sprintf("events[%d]", i), Result: fmt.Sprintf("events[%d]", i+1), Args: object, Status: s, Payload: object, Sum: s, Latency: 5}
	}
	a := &grade.Alignment{}
	for i, mark := range []grade.Mark{grade.Equal, grade.Different, grade.OnlyOld, grade.OnlyNew, grade.Equal, grade.Equal, grade.Equal, grade.Equal, grade.Equal} {
		kinds := []grade.UnitKind{grade.UnitCall, grade.UnitCall, grade.UnitRetrieval, grade.UnitOther, grade.UnitOutput}
		row := grade.Row{Mark: mark, Baseline: unit(2*i, kinds[i%5]), New: unit(2*i, kinds[i%5])}
		switch mark {
		case grade.Different:
			row.Changes = []grade.Edit{{Part: "payload", Pointer: s, From: s, To: s}, {Part: "payload", Pointer: s}}
		case grade.OnlyOld:
			row.New = nil
		case grade.OnlyNew:
			row.Baseline = nil
		}
		a.Rows = append(a.Rows, row)
	}
	run := func(content any) page.Shown {
		doc := answer(content, 1)
		doc["attempts"] = []any{map[string]any{"outcome": s, "error_name": s, "latency_ms": s}, s, nil}
		doc["runner_failure"] = map[string]any{"class": s, "error_name": s, "error_message": s}
		return page.Shown{Run: grade.Run{Artifact: grade.Artifact{Doc: doc, Unresolved: []string{s}, Secrets: []string{s}}, RunID: s, Notes: []string{s},
			Assertions: []grade.Assertion{{ID: s, Kind: "equals", Outcome: grade.Failed, Reason: s, Expected: s, Actual: s, Evidence: []string{s}}, {ID: s, Kind: "policy", Outcome: grade.Passed}},
			Actions:    []grade.Action{{Subject: s, Tool: s, Outcome: "REFUSE", Reasons: []string{s}, Executed: true}}},
			Bodies: []page.Body{{Label: s, Href: s, Name: s, SHA256: s, Size: 3, Text: []byte(s)}, {Label: s, Href: s + ".html", Name: s, SHA256: s, Size: 1 << 20}}}
	}
	cause := &grade.RootCause{Name: "unknown", Evidence: []string{s}}
	old, now := run("a\n"+s+"\nb"), run(object)
	for i, c := range []grade.CaseResult{{Class: grade.Regression, Trace: "changed"}, {Class: grade.UnchangedPass, Trace: "same"}} {
		c.CaseID, c.Title, c.Suite, c.Severity, c.Confidence = fmt.Sprint("said-", i), s, s, s, grade.Stable
		c.Baseline, c.New = side(5, 5, ""), side(0, 5, "", s)
		c.Baseline.RootCause, c.New.RootCause = cause, cause
		if i == 0 {
			c.Divergence = &grade.Divergence{Kind: "payload", Tool: s, Pointer: s, From: s, To: s, Headline: s}
		}
		r.Cases = append(r.Cases, c)
		r.Details[c.CaseID] = page.Case{Input: s, Baseline: &old, New: &now, Alignment: a}
	}
	r.Gate.Reasons = append(r.Gate.Reasons, grade.Reason{Code: "flaky", Count: 1, Cases: []string{"said-0", s}})
	r.ChangedProvenance = append(r.ChangedProvenance, grade.Change{Name: s, From: s, To: s})
	r.New.RunIDs, r.New.SignedBy = []string{s, s, s}, []string{s}
	r.EvaluatorVersion = "1"
	return r
}

// hard are texts that mean something to a browser, a terminal or a reader. Each has the word zqx.
func hard() []string {
	return []string{
		`zqx<script>canary=1</script><img src=x onerror=canary=1>`, `zqx"><svg onload=canary=1>'"`, `zqx</code></pre></details></body><h1>ACCEPTED</h1>`,
		`zqx</style><style>body{display:none}</style>`, `zqx{}*{background:url(https://example.com/a)}@import "https://example.com/b";`,
		`javascript:canary=1//zqx`, `zqx" onmouseover="canary=1" style="color:red`, `data:text/html,<script>canary=1</script>zqx`,
		"zqx\u202eDETPECCA\u202c\u2066\u200b\ufeff\u2028", "zqx\x00\x1b[31m\x07\r\n\x80\xff\xc3", "zqx{{.}}{{template \"head\"}}<!--", "zqx]]><![CDATA[-->&lt;&#x3c;&amp;",
		"zqx##[error]x ::set-output name=a::b\n::error::c", "zqx\ufffd\U0010fffd\ue000e\u0301",
	}
}

var (
	attribute = regexp.MustCompile(` ([a-z-]+)(?:="([^"]*)")?`)
	linked    = regexp.MustCompile(`^\./[^:\\]*\.(txt|bin)$`)
	tag       = regexp.MustCompile(`<[^>]*>`)
	quoted    = regexp.MustCompile(`(?s)<code>[^<]*(<mark>[^<]*</mark>[^<]*)*</code>|<pre>[^<]*</pre>`)
)

// TestNothingEscapes: whatever others say, the page has the same elements with the same
// attributes, says it in code and pre alone, and shows every character.
func TestNothingEscapes(t *testing.T) {
	marks := regexp.MustCompile(`</?mark>|<i class="quiet">|</i>|<div class="(removed|added|equal)">`)
	elements := func(out string) []string {
		return slices.DeleteFunc(tag.FindAllString(out, -1), marks.MatchString)
	}
	want := elements(write(t, said("zqx a")))
	for _, s := range hard() {
		out := write(t, said(s))
		if strings.Count(out, "zqx") < 60 {
			t.Errorf("%q: stands on the page %d times", s, strings.Count(out, "zqx"))
		}
		got := elements(out)
		if d := different(want, got); d != "" && !strings.Contains(s, "\n") {
			t.Errorf("%q: %s", s, d)
		}
		if rest := quoted.ReplaceAllString(out, ""); strings.Contains(rest, "zqx") {
			i := strings.Index(rest, "zqx")
			t.Errorf("%q stands outside of code and pre: %s", s, rest[max(0, i-200):i+50])
		}
		for i, r := range out {
			if r != '\n' && !canon.Shows(r) {
				t.Errorf("%q: the page has %U: %s", s, r, out[max(0, i-100):i])
				break
			}
		}
		whole(t, out)
	}
}

func different(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("element %d is %s and not %s", i, b[i], a[i])
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d elements and not %d", len(b), len(a))
	}
	return ""
}

// whole checks what holds for every page.
func whole(t *testing.T, out string) {
	t.Helper()
	names := strings.Fields(`!DOCTYPE a b body code dd details div dl dt fieldset footer h1 h2 h3 head header html i input label legend li main mark meta ol p pre section span style summary title ul`)
	open, ids := []string{}, map[string]bool{}
	for _, e := range tag.FindAllString(out[strings.Index(out, "</style>"):], -1) {
		name, _, _ := strings.Cut(strings.Trim(e, "</>"), " ")
		if !slices.Contains(names, name) {
			t.Fatalf("the page has %s", e)
		}
		if strings.HasPrefix(e, "</") {
			if n := len(open) - 1; n >= 0 && open[n] == name {
				open = open[:n]
			} else if name != "style" && name != "head" && name != "body" && name != "html" {
				t.Fatalf("%s ends %v", e, open)
			}
		} else if !slices.Contains([]string{"input", "body"}, name) {
			open = append(open, name)
		}
		for _, a := range attribute.FindAllStringSubmatch(e, -1) {
			switch a[1] {
			case "class", "title", "aria-labelledby", "aria-label", "name", "type", "checked", "open", "autocomplete":
			case "id":
				if ids[a[2]] {
					t.Errorf("two elements have the id %s", a[2])
				}
				ids[a[2]] = true
			case "href":
				if h := html.UnescapeString(a[2]); !strings.HasPrefix(h, "#case-") && !linked.MatchString(h) || strings.Contains(h, "..") {
					t.Errorf("the page has the link %s", h)
				}
			default:
				t.Errorf("the page has the attribute %s", a[0])
			}
		}
	}
	_, css, _ := strings.Cut(out, "<style>")
	css, _, _ = strings.Cut(css, "</style>")
	sum := sha256.Sum256([]byte(css))
	policy := `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-` + base64.StdEncoding.EncodeToString(sum[:]) + `'; base-uri 'none'; form-action 'none'">`
	if head, _, _ := strings.Cut(html.UnescapeString(out), "<title>"); !strings.Contains(head, policy) {
		t.Errorf("the page does not have %s", policy)
	}
	if strings.Contains(css, "url(") || strings.Contains(css, "@import") || strings.Contains(css, "/*") {
		t.Error("the stylesheet asks for something")
	}
}

// TestHref: a link leads to a text or to bytes beneath the folder of the page.
func TestHref(t *testing.T) {
	for href, want := range map[string]string{
		"new/r1/assets/ab.txt": "./new/r1/assets/ab.txt", "ab.bin": "./ab.bin", "a b/ü%41?#.txt": "./a%20b/%C3%BC%2541%3F%23.txt",
		"": "", "a.html": "", "a.txt.html": "", "../a.txt": "", "new/../../a.txt": "", "/etc/a.txt": "", "//example.com/a.txt": "", "a//b.txt": "", "./a.txt": "",
		"javascript:alert(1)//.txt": "", "https://example.com/a.txt": "", "data:text/html,a.txt": "", `..\a.txt`: "", `\\host\a.txt`: "", "a\n.txt": "", "a\x00.txt": "", "\u202etxt.a.txt": "",
		"file:///a.txt": "", "a.svg#.txt/": "", "a.TXT": "",
	} {
		r := realistic()
		r.Details["parcel-lost"].New.Bodies = []page.Body{{Label: "zqx", Href: href, Name: "assets/ab.txt", SHA256: "5566", Size: 20000}}
		out := write(t, r)
		whole(t, out)
		got := ""
		if m := regexp.MustCompile(`zqx</code> · 20000 bytes · <a href="([^"]*)"><code>assets/ab.txt</code></a></p>`).FindStringSubmatch(out); m != nil {
			got = html.UnescapeString(m[1])
		} else if !strings.Contains(out, `zqx</code> · 20000 bytes · <code>assets/ab.txt</code> <code>5566</code></p>`) {
			t.Errorf("%q: neither a link nor a name", href)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", href, got, want)
		}
	}
}

// TestSameBytes: the page is the same for the same report, and has no time and no place of its own.
func TestSameBytes(t *testing.T) {
	if a, b := write(t, realistic()), write(t, realistic()); a != b {
		t.Error("two pages of one report differ")
	}
	whole(t, write(t, realistic()))
	empty := page.Report{}
	empty.Gate.Status = grade.GateInconclusive
	if out := write(t, empty); !strings.Contains(out, "<h1>? NO DECISION</h1>") || regexp.MustCompile(`20[0-9][0-9]-|file:|/tmp|/home`).MatchString(out) {
		t.Error("an empty report")
	}
	whole(t, write(t, empty))
}

// TestVerdict: the first thing on the page is the gate's decision, and nothing else is.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		status string
		exit   int
		alone  bool
		want   []string
	}{
		{grade.GatePass, 0, false, []string{"✓ ACCEPTED", "may replace the baseline"}},
		{grade.GatePass, 0, true, []string{"✓ ACCEPTED", "there is no baseline"}},
		{grade.GateFail, 1, false, []string{"✗ REJECTED", "should not replace the baseline. Cases that passed before fail now, and there are other reasons."}},
		{grade.GateFail, 0, false, []string{"✗ REJECTED", "Report only"}},
		{grade.GateFail, 1, true, []string{"✗ REJECTED", "is not good enough"}},
		{grade.GateInconclusive, 2, false, []string{"? NO DECISION", "too few answers to judge"}},
		{"", 0, false, []string{"? NO DECISION"}},
	} {
		r := realistic()
		if r.Gate.Status, r.Gate.ExitCode = c.status, c.exit; c.status == grade.GatePass {
			r.Gate.Reasons = nil
		}
		if c.alone {
			r.Baseline = nil
		}
		out := write(t, r)
		whole(t, out)
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: the page does not say %q", c.status, w)
			}
		}
		for _, word := range []string{"ACCEPTED", "REJECTED", "NO DECISION"} {
			if n := strings.Count(out, word); n != 0 && n != 2 || (n == 2) != strings.Contains(c.want[0], word) {
				t.Errorf("%s: the page says %s %d times", c.status, word, n)
			}
		}
	}
}

// TestSizes: long texts are cut, and the page says so; it has a size that a browser can show.
func TestSizes(t *testing.T) {
	word := strings.Repeat("w", 100_000)
	out := write(t, said(word))
	whole(t, out)
	if strings.Contains(out, word[:2049]) || !strings.Contains(out, "97952 more bytes") || len(out) > 1<<20 {
		t.Errorf("a word of %d bytes is not cut, or the page does not say so; the page has %d bytes", len(word), len(out))
	}
	whole(t, write(t, said(strings.Repeat("\x00", 100_000))))
	whole(t, write(t, said(strings.Repeat("\x80", 100_000))))
	whole(t, write(t, said("")))

	r := page.Report{Details: map[string]page.Case{}}
	for i := range 1000 {
		quiet(&r, fmt.Sprintf("case-%04d", i), "What is the status of order 4711, and when will it arrive?", 10)
	}
	finish(&r)
	out = write(t, r)
	if whole(t, out); len(out) > 3<<20 {
		t.Errorf("1 000 cases of 20 events have %d bytes", len(out))
	}
	long := strings.Repeat(strings.Repeat("b", 1023)+"\n", 16)
	for i := range 1000 {
		d := r.Details[r.Cases[i].CaseID]
		shown := *d.New
		shown.Doc, d.Baseline = answer(long, 1), nil
		shown.Bodies = []page.Body{{Label: "a", Text: []byte(long), Size: 16 << 10, Name: "c", SHA256: "d"}}
		d.New = &shown
		d.Alignment = &grade.Alignment{}
		if i%2 == 0 {
			r.Cases[i].Class, r.Cases[i].Trace = grade.ChangedFail, "changed"
			d.Input = strings.Repeat("i", 5000)
		}
		r.Details[r.Cases[i].CaseID] = d
	}
	out = write(t, r)
	_, left, _ := strings.Cut(out, "The details are left out")
	if len(out) < 20<<20 || len(out) > 21<<20 || strings.Count(out, `<details class="case`) != 1000 || strings.Count(left, "ails are left out") < 10 || strings.Contains(left, "another way") {
		t.Errorf("a large page has %d bytes, and %d cases without details", len(out), strings.Count(left, "ails are left out"))
	}
	if n := strings.Count(out, "<summary><code>a</code>"); n != 256 {
		t.Errorf("%d bodies of 16 KiB stand on the page", n)
	}

	r = realistic()
	a := many(2490, grade.Different)
	for i := range a.Rows {
		u := *a.Rows[i].New
		u.Args, u.Payload = word, word
		a.Rows[i].New, a.Rows[i].Baseline = &u, &u
		for range 200 {
			a.Rows[i].Changes = append(a.Rows[i].Changes, grade.Edit{Part: "payload", Pointer: word, From: word, To: word})
		}
	}
	d := r.Details["parcel-lost"]
	d.Alignment = a
	r.Details["parcel-lost"] = d
	if out = write(t, r); len(out) > 16<<20 {
		t.Errorf("one case has %d bytes", len(out))
	}
}

// many are n rows after 5 that are equal, and 5 more.
func many(n int, mark grade.Mark) *grade.Alignment {
	a := &grade.Alignment{}
	for i := range n + 10 {
		u, m := call(2*i, "tool", fmt.Sprintf(`{"i":%d}`, i), "ok", `{}`, 1), mark
		if i < 5 || i >= n+5 {
			m = grade.Equal
		}
		a.Rows = append(a.Rows, grade.Row{Mark: m, Baseline: u, New: u})
	}
	return a
}

// TestTimeline: a timeline has 400 rows, the changed ones first, and counts the others.
func TestTimeline(t *testing.T) {
	for _, c := range []struct {
		rows           *grade.Alignment
		changed, equal int
		want           []string
		first          bool
	}{
		{many(2490, grade.Different), 400, 0, []string{"10 equal events (0–9)", "2090 more changed rows are not shown", "5 more are not shown"}, true},
		{many(2490, grade.Equal), 0, 400, []string{"5000 equal events (0–4999)", "2100 more are not shown"}, false},
		{many(395, grade.Different), 395, 5, []string{"10 equal events (0–9)", "10 equal events (800–809)", "5 more are not shown"}, true},
		{&grade.Alignment{}, 0, 0, []string{"Timeline"}, false},
	} {
		r := realistic()
		r.Cases = r.Cases[slices.IndexFunc(r.Cases, func(c grade.CaseResult) bool { return c.CaseID == "parcel-lost" }):][:1]
		d := r.Details["parcel-lost"]
		d.Alignment = c.rows
		r.Details["parcel-lost"] = d
		out := write(t, r)
		whole(t, out)
		_, list, _ := strings.Cut(out, "<h3>Timeline</h3>")
		list, _, _ = strings.Cut(list, "<h3>Output</h3>")
		equal := len(regexp.MustCompile(`(?m)^[0-9]+,[0-9]+  tool|<pre>[0-9]+,[0-9]+  tool`).FindAllString(list, -1)) + strings.Count(list, `<li class="equal`)
		if n := strings.Count(list, `<li class="changed`); n != c.changed || equal != c.equal || (strings.Count(list, "first difference") == 1) != c.first {
			t.Errorf("%d changed rows and %d equal ones, want %d and %d; first %v", n, equal, c.changed, c.equal, c.first)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("the page does not say %q", w)
			}
		}
	}
}

// TestOutput: outputs are compared by lines, and the words that differ are marked.
func TestOutput(t *testing.T) {
	for _, c := range []struct {
		old, now any
		want     string
	}{
		{"a\nthe red fox runs\nc", "a\nthe blue fox runs\nc", `<div class="equal"><b></b><code>a</code></div><div class="removed"><b>−</b><code>the <mark>red</mark> fox runs</code></div><div class="added"><b>+</b><code>the <mark>blue</mark> fox runs</code></div><div class="equal"><b></b><code>c</code></div>`},
		{"a", "a\nb", `<div class="equal"><b></b><code>a</code></div><div class="added"><b>+</b><code>b</code></div>`},
		{"", "b", `<div class="out"><div class="added"><b>+</b><code>b</code></div></div>`},
		{"1\n2\n3\n4\n5\nx y", "1\n2\n3\n4\n5\nx z", `<p class="quiet">3 equal lines</p><div class="equal"><b></b><code>4</code></div>`},
		{decoded(`{"a":{"b":1.50}}`), decoded(`{"a":{"b":1.5}}`), `<div class="removed"><b>−</b><code>    &#34;b&#34;: 1.<mark>50</mark></code></div>`},
		{"entirely different words", "nothing 17 44 %% == is kept", `<code>entirely different words</code></div><div class="added">`},
		{"same", "same", `<summary>= the same on both sides</summary><pre>same</pre>`},
		{nil, "b", `<summary>on new alone</summary><pre>b</pre>`},
	} {
		r := realistic()
		d := r.Details["parcel-lost"]
		d.Baseline.Doc["final_output"], d.New.Doc["final_output"] = map[string]any{"content": c.old}, map[string]any{"content": c.now}
		if out := write(t, r); !strings.Contains(out, c.want) {
			_, out, _ = strings.Cut(out, `id="case-parcel-lost"`)
			_, out, _ = strings.Cut(out, `<h3>Output</h3>`)
			t.Errorf("%v and %v: got %.700s", c.old, c.now, out)
		}
	}
}
